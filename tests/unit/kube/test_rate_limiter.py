"""The priority token bucket: who is sent when, who never starves, and that nothing is leaked."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from runyard.kube import rate_limiter
from runyard.kube.client import Client
from runyard.kube.errors import DeadlineExceeded, Throttled, Unreachable
from runyard.kube.rate_limiter import Priority, RateLimit, RateLimiter
from runyard.kube.resources import CONFIG_MAPS, PODS
from runyard.kube.streams import read_logs
from runyard.kube.transport import Transport
from tests.unit.kube.scripted_apiserver import ScriptedServer, Step, answer, hang, refuse, serve

STOP, STATUS, CREATE, LOGS = Priority
PLENTY = 1_000_000.0


def build(**figures: float) -> RateLimiter:
    limit = {"requests_per_second": PLENTY, "burst": 1_000_000, "most_in_flight": 1_000_000, **figures}
    return RateLimiter(RateLimit(**limit))  # type: ignore[arg-type]


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Queue:
    """Requests that wait, and the order in which they were sent."""

    def __init__(self, limiter: RateLimiter) -> None:
        self.limiter = limiter
        self.sent: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.done = asyncio.Event()

    async def add(self, name: str, priority: Priority) -> asyncio.Task[None]:
        """One that keeps its slot until `done`."""
        task = asyncio.create_task(self._send(name, priority))
        self.tasks.append(task)
        await asyncio.sleep(0)
        return task

    async def _send(self, name: str, priority: Priority) -> None:
        async with self.limiter.slot(priority):
            self.sent.append(name)
            await self.done.wait()

    async def finish(self) -> None:
        self.done.set()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        assert (self.limiter.in_flight, self.limiter.waiting) == (0, 0)


@asynccontextmanager
async def one_slot() -> AsyncIterator[tuple[Queue, Callable[[], Awaitable[None]]]]:
    """A queue behind a request of each priority that holds the only slot, and what frees it."""
    queue = Queue(build(most_in_flight=1))
    held = [queue.limiter.slot(each) for each in Priority]
    for each in held:
        await each.__aenter__()

    async def free() -> None:
        while held:
            await held.pop().__aexit__(None, None, None)

    yield queue, free
    await free()
    await queue.finish()


async def test_the_most_urgent_goes_first_when_requests_wait_for_tokens() -> None:
    limiter = build(requests_per_second=5, burst=1)
    await limiter.take_token(STOP)
    queue = Queue(limiter)
    for name, priority in (("log", LOGS), ("new", CREATE), ("read", STATUS), ("stop", STOP), ("stop 2", STOP)):
        await queue.add(name, priority)
    queue.done.set()
    async with asyncio.timeout(60):
        await asyncio.gather(*queue.tasks)
    assert queue.sent == ["stop", "stop 2", "read", "new", "log"]


async def test_the_rate_is_kept_when_more_is_asked_for() -> None:
    limiter = build(requests_per_second=200, burst=10)
    clock = asyncio.get_running_loop().time
    began = clock()
    async with asyncio.timeout(60):
        await asyncio.gather(*(limiter.take_token(CREATE) for _ in range(50)))
    assert clock() - began >= 40 / 200 - 0.01


def test_all_are_sent_when_the_timers_of_the_loop_do_not_know_their_time() -> None:
    """As uvloop's, which knows milliseconds: a timer for less is one for now."""

    async def send() -> int:
        limiter, sent = build(requests_per_second=4000, burst=1), 0

        async def work(priority: Priority) -> None:
            nonlocal sent
            for _ in range(20):
                async with limiter.slot(priority):
                    await asyncio.sleep(0)
                    sent += 1

        async with asyncio.timeout(60):
            await asyncio.gather(*(work(priority) for priority in Priority for _ in range(5)))
        return sent

    assert uvloop.run(send()) == 20 * 5 * len(Priority)


async def test_a_burst_passes_at_once_when_the_bucket_is_full() -> None:
    limiter = build(requests_per_second=0.001, burst=20)
    async with asyncio.timeout(60):
        await asyncio.gather(*(limiter.take_token(CREATE) for _ in range(20)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await limiter.take_token(STOP)
    assert limiter.waiting == 0


async def test_the_least_urgent_gets_its_turn_when_urgent_ones_never_end() -> None:
    limiter = build(requests_per_second=2000, burst=1)
    await limiter.take_token(STOP)
    waiting = asyncio.create_task(limiter.take_token(LOGS))
    await asyncio.sleep(0)
    stops = 0

    async def keep_stopping() -> None:
        nonlocal stops
        while not waiting.done():
            await limiter.take_token(STOP)
            stops += 1

    async with asyncio.timeout(60):
        await asyncio.gather(*(keep_stopping() for _ in range(30)))
    # Its own turn is one in ten; the thirty of them that wait already come to an end behind it.
    assert stops <= rate_limiter._TURN_OF_THE_OLDEST + 30


async def test_a_slot_is_left_for_a_stop_when_slow_creations_hold_theirs() -> None:
    queue = Queue(build(most_in_flight=8))
    for number in range(20):
        await queue.add(f"create {number}", CREATE)
    await turn()
    assert len(queue.sent) == 6
    await queue.add("read", STATUS)
    await queue.add("stop", STOP)
    await turn()
    assert queue.sent[6:] == ["read", "stop"]
    await queue.finish()
    assert len(queue.sent) == 22


async def test_one_of_each_priority_is_under_way_when_others_hold_every_slot() -> None:
    queue = Queue(build(most_in_flight=4))
    for number in range(6):
        await queue.add(f"stop {number}", STOP)
    for number in range(3):
        await queue.add(f"log {number}", LOGS)
    await turn()
    assert queue.sent == ["stop 0", "stop 1", "stop 2", "stop 3", "log 0"]
    await queue.finish()


async def test_a_stream_waits_for_no_slot_when_all_are_held() -> None:
    async with one_slot() as (queue, _):
        waiting = await queue.add("waits for a slot", LOGS)
        async with asyncio.timeout(60):
            await queue.limiter.take_token(LOGS)
        assert not waiting.done()
        waiting.cancel()


async def test_nothing_is_leaked_when_waiting_requests_are_cancelled() -> None:
    async with one_slot() as (queue, free):
        first = await queue.add("first", STATUS)
        await queue.add("second", STATUS)
        first.cancel()
        await free()
        await turn()
        assert queue.sent == ["second"]


async def test_the_next_one_is_sent_when_a_request_is_cancelled_as_it_is_granted() -> None:
    async with one_slot() as (queue, free):
        first = await queue.add("first", STATUS)
        await queue.add("second", STATUS)
        await free()
        first.cancel()  # Granted, and not run since.
        await turn()
        assert queue.sent == ["second"]


async def test_tokens_and_slots_add_up_when_requests_are_cancelled_at_random() -> None:
    choice = random.Random(14)
    limiter = build(requests_per_second=20_000, burst=5, most_in_flight=6)

    async def send() -> None:
        priority = choice.choice(list(Priority))
        if choice.random() < 0.3:
            await limiter.take_token(priority)
            return
        async with limiter.slot(priority):
            await asyncio.sleep(choice.choice([0, 0, 0.001]))

    tasks: list[asyncio.Task[None]] = []
    for _ in range(2000):
        tasks.append(asyncio.create_task(send()))
        if choice.random() < 0.3:
            choice.choice(tasks).cancel()
        if choice.random() < 0.2:
            await asyncio.sleep(0)
    async with asyncio.timeout(60):
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(result) for result in results} == {type(None), asyncio.CancelledError}
    assert (limiter.in_flight, limiter.waiting) == (0, 0)
    assert 0 <= limiter._tokens <= 5


async def test_too_many_of_one_priority_are_refused_when_they_wait_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limiter, "MOST_WAITING", 2)
    async with one_slot() as (queue, _):
        await queue.add("a", CREATE)
        await queue.add("b", CREATE)
        with pytest.raises(Unreachable, match="not sent"):
            await queue.limiter.take_token(CREATE)
        await queue.limiter.take_token(STOP)
        for task in queue.tasks:
            task.cancel()


async def test_what_waits_fails_when_the_client_is_closed() -> None:
    async with one_slot() as (queue, _):
        task = await queue.add("a", STATUS)
        queue.limiter.close()
        with pytest.raises(Unreachable, match="closed"):
            await task


def throttled(seconds: float, **details: object) -> Throttled:
    return Throttled("429", status=429, details=details, retry_after_seconds=seconds)


async def test_this_priority_and_those_below_wait_when_the_server_throttles_one() -> None:
    limiter = build()
    with pytest.raises(Throttled), limiter.obeying(CREATE):
        raise throttled(rate_limiter.LONGEST_PAUSE_SECONDS)
    async with asyncio.timeout(rate_limiter.LONGEST_PAUSE_SECONDS / 2):
        await limiter.take_token(STOP)
        await limiter.take_token(STATUS)
    for priority in (CREATE, LOGS):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await limiter.take_token(priority)


async def test_all_are_sent_when_the_time_that_the_server_asked_for_is_over() -> None:
    limiter = build()
    clock = asyncio.get_running_loop().time
    began = clock()
    with pytest.raises(Throttled), limiter.obeying(CREATE):
        raise throttled(0.2)
    async with asyncio.timeout(60):
        await asyncio.gather(limiter.take_token(LOGS), limiter.take_token(CREATE))
    assert clock() - began >= 0.19


async def test_nothing_waits_when_a_disruption_budget_refuses() -> None:
    limiter = build()
    with pytest.raises(Throttled), limiter.obeying(STOP):
        raise throttled(10, causes=[{"reason": "DisruptionBudget"}])
    async with asyncio.timeout(5):
        await limiter.take_token(LOGS)


async def test_a_pause_is_capped_when_the_server_asks_for_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limiter, "LONGEST_PAUSE_SECONDS", 0.05)
    limiter = build()
    with pytest.raises(Throttled), limiter.obeying(STOP):
        raise throttled(86_400)
    async with asyncio.timeout(15):
        await limiter.take_token(STOP)


@pytest.mark.parametrize("figures", [{"requests_per_second": 0}, {"burst": -1}, {"most_in_flight": 0}])
def test_figures_are_refused_when_nothing_could_be_sent(figures: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="allowed: more than 0"):
        RateLimit(**figures)  # type: ignore[arg-type]


class Priorities:
    """Notes the priority of each request that a transport sends."""

    def __init__(self, transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[Priority] = []
        acquire = transport.limiter._acquire

        async def note(priority: Priority, *, has_slot: bool) -> None:
            self.seen.append(priority)
            await acquire(priority, has_slot=has_slot)

        monkeypatch.setattr(transport.limiter, "_acquire", note)


async def send_each_verb(client: Client) -> None:
    body = {"metadata": {"name": "a", "namespace": "n"}}
    await client.get(CONFIG_MAPS, "a", namespace="n")
    await client.create(CONFIG_MAPS, body)
    await client.apply(CONFIG_MAPS, body, field_manager="m")
    await client.patch(CONFIG_MAPS, "a", {}, namespace="n")
    await client.replace(CONFIG_MAPS, body)
    await client.delete(CONFIG_MAPS, "a", namespace="n")
    await client.evict("a", namespace="n")
    async with read_logs(client, "a", namespace="n") as lines:
        assert [line async for line in lines] == []


async def test_priority_follows_from_the_verb_when_none_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    running = {"name": "main", "state": {"running": {}}, "containerID": "c://1"}
    pod = {
        "metadata": {"uid": "u"},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"containerStatuses": [running]},
    }

    async def respond(request: object) -> object:
        step = answer(b"") if str(request).count("/log") else answer(pod)
        return await step(request)  # type: ignore[arg-type]

    async with serve(respond) as server, Client.connect(server.config()) as client:  # type: ignore[arg-type]
        seen = Priorities(client.transport, monkeypatch).seen
        await send_each_verb(client)
        assert seen == [STATUS, CREATE, CREATE, CREATE, CREATE, STOP, STOP, LOGS, STATUS]
        seen.clear()
        await send_each_verb(client.with_priority(STOP))
        assert set(seen) == {STOP}


@asynccontextmanager
async def connected(*steps: Step, limit: RateLimit) -> AsyncIterator[tuple[Client, ScriptedServer]]:
    async with serve(*steps) as server, Client.connect(server.config(), rate_limit=limit) as client:
        yield client, server


async def test_the_wait_counts_towards_the_deadline_when_there_is_no_token() -> None:
    limit = RateLimit(requests_per_second=0.01, burst=1)
    async with connected(answer({}), limit=limit) as (client, server):
        await client.get(PODS, "a", namespace="n")
        with pytest.raises(DeadlineExceeded):
            await client.get(PODS, "a", namespace="n", deadline_seconds=0.1)
        assert len(server.requests) == 1
        assert client.transport.limiter.in_flight == 0


async def test_no_slot_is_held_when_streams_stay_open() -> None:
    async with connected(hang, limit=RateLimit(most_in_flight=1)) as (client, server):

        async def watch() -> None:
            async with client.transport.stream("/watch"):
                pass

        watches = [asyncio.create_task(watch()) for _ in range(5)]
        async with asyncio.timeout(60):
            while len(server.requests) < 5:  # noqa: ASYNC110 - the server has no event for it
                await asyncio.sleep(0.01)
        assert client.transport.limiter.in_flight == 0
        for task in watches:
            task.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


async def test_others_wait_too_when_one_request_is_throttled() -> None:
    limit = RateLimit()
    throttle = refuse(429, "TooManyRequests", headers={"Retry-After": "30"})
    async with connected(throttle, answer({}), limit=limit) as (client, server):
        with pytest.raises(Throttled):
            await client.get(PODS, "a", namespace="n", deadline_seconds=20)
        async with asyncio.timeout(20):
            await client.delete(PODS, "a", namespace="n")
        with pytest.raises(DeadlineExceeded):
            await client.create(PODS, {"metadata": {"name": "a"}}, namespace="n", deadline_seconds=0.2)
        assert [request.method for request in server.requests] == ["GET", "DELETE"]
