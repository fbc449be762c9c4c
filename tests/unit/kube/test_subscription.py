"""Coalescing, order, back-pressure and the ends of subscriptions, without a server."""

import asyncio
import gc
import logging
import random
from collections.abc import Awaitable

import pytest

from runyard.kube import subscription as subscription_module
from runyard.kube.store import Tombstone
from runyard.kube.subscription import Fanout, ReflectorStopped, Subscription
from runyard.kube.views import Key


def keys(*names: str) -> list[Key]:
    return [Key("n", name) for name in names]


async def take(subscription: Subscription[str]) -> list[str]:
    async with asyncio.timeout(60):
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
    fanout: Fanout[str] = Fanout("f")
    subscription = fanout.subscribe(keys("a", "b"), max_pending=None)

    assert await take(subscription) == ["a", "b"]
    assert await is_waiting(anext(subscription))


async def test_key_comes_once_in_order_of_first_change_when_it_changed_often() -> None:
    fanout: Fanout[str] = Fanout("f")
    subscription = fanout.subscribe([], max_pending=None)

    for name in "abacab":
        fanout.publish(keys(name))

    assert await take(subscription) == ["a", "b", "c"]


async def test_key_comes_again_when_it_changed_after_it_was_taken() -> None:
    fanout: Fanout[str] = Fanout("f")
    subscription = fanout.subscribe(keys("a"), max_pending=None)
    await take(subscription)

    fanout.publish(keys("a"))

    assert await take(subscription) == ["a"]


async def test_waiting_subscriber_wakes_when_a_key_changes() -> None:
    fanout: Fanout[str] = Fanout("f")
    subscription = fanout.subscribe([], max_pending=None)
    waiting = asyncio.create_task(take(subscription))
    await asyncio.sleep(0)

    fanout.publish(keys("a"))

    assert await waiting == ["a"]


async def test_every_subscriber_gets_every_key_when_many_take_at_random() -> None:
    seed = random.Random(3)
    fanout: Fanout[str] = Fanout("f")
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
    async with asyncio.timeout(60):
        await asyncio.gather(*consumers)

    assert seen == [list(range(500))] * len(subscriptions)


async def test_writer_waits_when_a_subscriber_has_too_many_pending() -> None:
    fanout: Fanout[str] = Fanout("f")
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
    fanout: Fanout[str] = Fanout("f")
    subscription: Subscription[str] | None = fanout.subscribe(keys("a", "b"), max_pending=1)
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

    async with asyncio.timeout(60):
        await waiting


async def test_nothing_is_lost_when_taking_is_cancelled() -> None:
    fanout: Fanout[str] = Fanout("f")
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
    fanout: Fanout[str] = Fanout("f")
    subscription = fanout.subscribe(keys("a"), max_pending=None)

    fanout.end(None)

    assert [batch async for batch in subscription] == [keys("a")]
    assert [batch async for batch in fanout.subscribe(keys("b"), max_pending=None)] == [keys("b")]


async def test_iteration_fails_with_the_cause_when_the_reflector_failed() -> None:
    fanout: Fanout[str] = Fanout("f")
    subscription = fanout.subscribe([], max_pending=None)
    waiting = asyncio.create_task(anext(subscription))
    await asyncio.sleep(0)
    cause = ValueError("a bug")

    fanout.end(cause)

    with pytest.raises(ReflectorStopped) as failure:
        await waiting
    assert failure.value.__cause__ is cause


async def test_iteration_ends_at_once_when_closed_by_another_task() -> None:
    fanout: Fanout[str] = Fanout("f")
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
    fanout: Fanout[str] = Fanout("/api/v1/pods")
    subscription = fanout.subscribe(keys("a", "b"), max_pending=1)
    waiting = asyncio.create_task(fanout.wait_drained())
    while not caplog.records:  # noqa: ASYNC110 - a log has no event
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert not waiting.done()

    await take(subscription)
    await waiting

    [record] = caplog.records
    assert record.getMessage() == "/api/v1/pods: paused for a subscriber that leaves 2 keys pending"


@pytest.mark.parametrize("max_pending", [0, -1])
def test_limit_is_refused_when_it_would_never_let_anything_through(max_pending: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Fanout[str]("f").subscribe([], max_pending=max_pending)


def grave(name: str, view: str) -> tuple[Key, Tombstone[str]]:
    return Key("n", name), Tombstone(view, is_final=True)


async def test_last_states_come_with_the_batch_when_objects_were_deleted() -> None:
    fanout: Fanout[str] = Fanout("f")
    subscription = fanout.subscribe(keys("a"), max_pending=None)
    fanout.publish(keys("a"), [grave("a", "first")])
    fanout.publish(keys("a", "b"), [grave("a", "second"), grave("b", "other")])

    assert await take(subscription) == ["a", "b"]
    assert [each.view for each in subscription.deleted(Key("n", "a"))] == ["first", "second"]
    assert [each.view for each in subscription.deleted(Key("n", "b"))] == ["other"]
    assert subscription.deleted(Key("n", "c")) == ()

    fanout.publish(keys("a"))
    assert await take(subscription) == ["a"]
    assert subscription.deleted(Key("n", "a")) == ()


async def test_reflector_waits_when_one_name_leaves_too_many_last_states() -> None:
    fanout: Fanout[str] = Fanout("f")
    subscription = fanout.subscribe([], max_pending=2)
    for number in range(3):
        fanout.publish(keys("a"), [grave("a", str(number))])

    assert await is_waiting(fanout.wait_drained())
    await take(subscription)
    assert not await is_waiting(fanout.wait_drained())
    assert [each.view for each in subscription.deleted(Key("n", "a"))] == ["0", "1", "2"]


async def test_oldest_last_states_are_counted_and_dropped_when_nothing_holds_the_reflector_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscription_module, "MOST_TOMBSTONES", 2)
    fanout: Fanout[str] = Fanout("f")
    subscription = fanout.subscribe([], max_pending=None)
    for number in range(5):
        fanout.publish(keys("a"), [grave("a", str(number))])

    await take(subscription)
    assert [each.view for each in subscription.deleted(Key("n", "a"))] == ["3", "4"]
    assert subscription.forgotten_tombstones == 3


async def test_last_states_are_dropped_when_the_subscription_is_closed() -> None:
    fanout: Fanout[str] = Fanout("f")
    subscription = fanout.subscribe([], max_pending=1)
    for _ in range(3):
        fanout.publish(keys("a"), [grave("a", "x")])
    subscription.close()

    assert not subscription.is_full
    assert subscription.deleted(Key("n", "a")) == ()
