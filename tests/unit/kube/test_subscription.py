"""Coalescing, order, back-pressure and the ends of subscriptions, without a server."""

import asyncio
import gc
import logging
import random
from collections.abc import Awaitable

import pytest

from runyard.kube.subscription import Fanout, ReflectorStopped, Subscription
from runyard.kube.views import Key


def keys(*names: str) -> list[Key]:
    return [Key("n", name) for name in names]


async def take(subscription: Subscription) -> list[str]:
    async with asyncio.timeout(5):
        return [key.name for key in await anext(subscription)]


async def is_waiting(awaitable: Awaitable[object]) -> bool:
    """Whether it still waits when everything that can run has run; cancels it then."""
    task = asyncio.ensure_future(awaitable)
    for _ in range(10):
        await asyncio.sleep(0)
    waits = not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return waits


async def test_first_batch_is_everything_held_when_subscribing() -> None:
    subscription = Fanout("f").subscribe(keys("a", "b"), max_pending=None)

    assert await take(subscription) == ["a", "b"]
    assert await is_waiting(anext(subscription))


async def test_key_comes_once_in_order_of_first_change_when_it_changed_often() -> None:
    fanout = Fanout("f")
    subscription = fanout.subscribe([], max_pending=None)

    for name in "abacab":
        fanout.publish(keys(name))

    assert await take(subscription) == ["a", "b", "c"]


async def test_key_comes_again_when_it_changed_after_it_was_taken() -> None:
    fanout = Fanout("f")
    subscription = fanout.subscribe(keys("a"), max_pending=None)
    await take(subscription)

    fanout.publish(keys("a"))

    assert await take(subscription) == ["a"]


async def test_waiting_subscriber_wakes_when_a_key_changes() -> None:
    fanout = Fanout("f")
    subscription = fanout.subscribe([], max_pending=None)
    waiting = asyncio.create_task(take(subscription))
    await asyncio.sleep(0)

    fanout.publish(keys("a"))

    assert await waiting == ["a"]


async def test_every_subscriber_gets_every_key_when_many_take_at_random() -> None:
    seed = random.Random(3)
    fanout = Fanout("f")
    subscriptions = [fanout.subscribe([], max_pending=5) for _ in range(50)]
    seen: list[list[int]] = [[] for _ in subscriptions]

    async def consume(index: int) -> None:
        async for batch in subscriptions[index]:
            seen[index] += [int(key.name) for key in batch]
            for _ in range(seed.randrange(4)):
                await asyncio.sleep(0)

    consumers = [asyncio.create_task(consume(index)) for index in range(len(subscriptions))]
    for number in range(500):
        fanout.publish(keys(str(number)))
        await fanout.wait_drained()
        assert max(subscription.pending for subscription in subscriptions) <= 5
    fanout.end(None)
    async with asyncio.timeout(10):
        await asyncio.gather(*consumers)

    assert seen == [list(range(500))] * len(subscriptions)


async def test_writer_waits_when_a_subscriber_has_too_many_pending() -> None:
    fanout = Fanout("f")
    slow = fanout.subscribe([], max_pending=2)
    fanout.subscribe([], max_pending=None)

    fanout.publish(keys("a", "b"))
    assert not await is_waiting(fanout.wait_drained())
    fanout.publish(keys("c"))
    assert await is_waiting(fanout.wait_drained())
    await take(slow)
    assert not await is_waiting(fanout.wait_drained())


@pytest.mark.parametrize("how", ["close", "with", "drop"])
async def test_writer_goes_on_when_the_full_subscriber_leaves(how: str) -> None:
    fanout = Fanout("f")
    subscription: Subscription | None = fanout.subscribe(keys("a", "b"), max_pending=1)
    waiting = asyncio.create_task(fanout.wait_drained())
    await asyncio.sleep(0)
    assert not waiting.done()

    assert subscription is not None
    match how:
        case "close":
            subscription.close()
        case "with":
            with subscription:
                pass
        case "drop":
            subscription = None
            gc.collect()

    async with asyncio.timeout(5):
        await waiting


async def test_nothing_is_lost_when_taking_is_cancelled() -> None:
    fanout = Fanout("f")
    subscription = fanout.subscribe([], max_pending=None)
    seed = random.Random(5)
    seen: list[str] = []
    for number in range(300):
        taking = asyncio.create_task(take(subscription))
        for _ in range(seed.randrange(3)):
            await asyncio.sleep(0)
        fanout.publish(keys(str(number)))
        for _ in range(seed.randrange(3)):
            await asyncio.sleep(0)
        taking.cancel()
        [result] = await asyncio.gather(taking, return_exceptions=True)
        if isinstance(result, list):
            seen += result
    if subscription.pending:
        seen += await take(subscription)

    assert seen == [str(number) for number in range(300)]


async def test_iteration_ends_after_the_last_batch_when_the_reflector_stops() -> None:
    fanout = Fanout("f")
    subscription = fanout.subscribe(keys("a"), max_pending=None)

    fanout.end(None)

    assert [batch async for batch in subscription] == [keys("a")]
    assert [batch async for batch in fanout.subscribe(keys("b"), max_pending=None)] == [keys("b")]


async def test_iteration_fails_with_the_cause_when_the_reflector_failed() -> None:
    fanout = Fanout("f")
    subscription = fanout.subscribe([], max_pending=None)
    waiting = asyncio.create_task(anext(subscription))
    await asyncio.sleep(0)
    cause = ValueError("a bug")

    fanout.end(cause)

    with pytest.raises(ReflectorStopped) as failure:
        await waiting
    assert failure.value.__cause__ is cause


async def test_iteration_ends_at_once_when_closed_by_another_task() -> None:
    fanout = Fanout("f")
    subscription = fanout.subscribe([], max_pending=None)
    waiting = asyncio.create_task(anext(subscription, None))
    await asyncio.sleep(0)

    subscription.close()
    fanout.publish(keys("late"))

    assert await waiting is None
    assert subscription.pending == 0


async def test_stuck_subscriber_is_named_once_when_it_blocks_for_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("runyard.kube.subscription._COMPLAIN_AFTER_SECONDS", 0.01)
    caplog.set_level(logging.WARNING, logger="runyard.kube.subscription")
    fanout = Fanout("/api/v1/pods")
    subscription = fanout.subscribe(keys("a", "b"), max_pending=1)
    waiting = asyncio.create_task(fanout.wait_drained())
    await asyncio.sleep(0.05)
    assert not waiting.done()

    await take(subscription)
    await waiting

    [record] = caplog.records
    assert record.getMessage() == "/api/v1/pods: paused for a subscriber that leaves 2 keys pending"


@pytest.mark.parametrize("max_pending", [0, -1])
def test_limit_is_refused_when_it_would_never_let_anything_through(max_pending: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Fanout("f").subscribe([], max_pending=max_pending)
