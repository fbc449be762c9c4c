"""Delays, and when they begin anew."""

import asyncio

import pytest

from runyard.kube.backoff import Backoff, LoopBackoff
from runyard.kube.errors import (
    ConfigError,
    Forbidden,
    Gone,
    KubeError,
    Throttled,
    Unauthorized,
    Unavailable,
    Unreachable,
    Untrusted,
)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The delays that were asked for, none of which is kept."""
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return delays


def make_loop_backoff() -> LoopBackoff:
    return LoopBackoff("p", seconds=(1.0, 8.0), denied_seconds=(100.0, 400.0))


def test_delays_double_within_their_jitter_when_nothing_goes_well() -> None:
    for _ in range(50):
        backoff = Backoff(initial_seconds=1.0, maximum_seconds=8.0)

        delays = [backoff.next_seconds() for _ in range(6)]

        for delay, ceiling in zip(delays, (1, 2, 4, 8, 8, 8), strict=True):
            assert ceiling / 2 <= delay <= ceiling
        backoff.reset()
        assert backoff.next_seconds() <= 1.0


@pytest.mark.parametrize("denial", [Unauthorized, Forbidden, Untrusted, ConfigError])
async def test_pause_is_long_when_denied(slept: list[float], denial: type[KubeError]) -> None:
    backoff = make_loop_backoff()

    for _ in range(4):
        await backoff.pause(denial("no"))

    assert [delay >= low for delay, low in zip(slept, (50, 100, 200, 200), strict=True)] == [True] * 4


async def test_pause_adds_to_what_the_server_asks_for_when_it_asks(slept: list[float]) -> None:
    await make_loop_backoff().pause(Throttled("busy", retry_after_seconds=7.0))

    assert 7.5 <= slept[0] <= 8.0


@pytest.mark.parametrize("error", [Throttled, Unavailable])
async def test_pause_is_at_most_five_minutes_longer_when_the_server_asks_for_a_day(
    slept: list[float], error: type[Throttled | Unavailable]
) -> None:
    await make_loop_backoff().pause(error("busy", retry_after_seconds=86_400.0))

    assert 300.5 <= slept[0] <= 301.0


async def test_delays_begin_anew_when_it_worked_for_long_enough(slept: list[float]) -> None:
    backoff = make_loop_backoff()
    for error in (Unreachable("away"), Gone("too old"), Forbidden("no")):
        for _ in range(4):
            await backoff.pause(error)
        with backoff.working(healthy_after_seconds=3600.0):
            assert backoff.last_error is None
        await backoff.pause(error)
        with pytest.raises(Unreachable), backoff.working(healthy_after_seconds=0.0):
            raise Unreachable("cut")
        await backoff.pause(error)

    assert [delay >= low for delay, low in zip(slept[4::6], (4, 4, 200), strict=True)] == [True] * 3
    assert [delay <= high for delay, high in zip(slept[5::6], (1, 1, 100), strict=True)] == [True] * 3


async def test_only_cheap_repeats_begin_anew_when_there_was_progress(slept: list[float]) -> None:
    backoff = make_loop_backoff()
    for error in (Unreachable("away"), Gone("too old")):
        for _ in range(4):
            await backoff.pause(error)
        backoff.note_progress()
        await backoff.pause(error)

    assert slept[4] <= 1.0
    assert slept[9] >= 4.0


async def test_error_keeps_nothing_alive_when_it_is_remembered(slept: list[float]) -> None:
    backoff = make_loop_backoff()
    with pytest.raises(Unreachable) as failure, backoff.working(healthy_after_seconds=1.0):
        raise Unreachable("away")
    assert failure.value.__traceback__ is not None

    await backoff.pause(failure.value)

    assert backoff.last_error is failure.value
    assert backoff.last_error.__traceback__ is None
