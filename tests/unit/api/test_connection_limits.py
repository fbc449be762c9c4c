import resource
from dataclasses import dataclass

import pytest

from runyard.api.connection_limits import LEAST_CONNECTIONS, ConnectionLimits, limit_by_descriptors


@dataclass(eq=False)
class Fake:
    address: str | None = "10.0.0.1"
    waiting_since: float = 0.0
    is_authenticated: bool = False
    is_receiving: bool = True
    is_aborted: bool = False

    def abort(self) -> None:
        self.is_aborted = True


def fill(limits: ConnectionLimits, *connections: Fake) -> None:
    for one in connections:
        assert limits.admit(one)


def test_oldest_connection_is_closed_when_there_are_too_many() -> None:
    limits = ConnectionLimits(most=2)
    young, old, new = Fake(waiting_since=2), Fake(waiting_since=1), Fake(waiting_since=3)
    fill(limits, young, old)
    assert limits.admit(new)
    assert [one.is_aborted for one in (young, old, new)] == [False, True, False]


def test_address_with_most_connections_loses_one_when_there_are_too_many() -> None:
    limits = ConnectionLimits(most=3)
    alone, first, second = Fake("10.0.0.2", 0), Fake(waiting_since=1), Fake(waiting_since=2)
    fill(limits, alone, first, second)
    assert limits.admit(Fake("10.0.0.3"))
    assert [one.is_aborted for one in (alone, first, second)] == [False, True, False]


def test_authenticated_client_is_spared_when_a_stranger_can_be_closed() -> None:
    limits = ConnectionLimits(most=2)
    known, stranger = Fake(waiting_since=0, is_authenticated=True), Fake("10.0.0.2", 1, is_receiving=False)
    fill(limits, known, stranger)
    assert limits.admit(Fake())
    assert [one.is_aborted for one in (known, stranger)] == [False, True]


def test_authenticated_client_is_closed_when_it_sends_and_there_is_no_stranger() -> None:
    limits = ConnectionLimits(most=2)
    sending, reading = Fake(is_authenticated=True), Fake(is_authenticated=True, is_receiving=False)
    fill(limits, sending, reading)
    assert limits.admit(Fake(is_authenticated=True, is_receiving=False))
    assert [one.is_aborted for one in (sending, reading)] == [True, False]
    assert not limits.admit(Fake())


def test_there_is_room_again_when_a_connection_has_ended() -> None:
    limits = ConnectionLimits(most=1)
    first = Fake(is_authenticated=True, is_receiving=False)
    fill(limits, first)
    assert not limits.admit(Fake())
    limits.release(first)
    limits.release(first)
    assert limits.admit(Fake())


def test_operator_is_told_once_in_a_while_when_connections_are_closed() -> None:
    told: list[int] = []
    limits = ConnectionLimits(most=1, tell=told.append)
    for number in range(5):
        limits.admit(Fake(waiting_since=number))
    assert told == [1]


@pytest.mark.parametrize(
    ("soft", "limit"), [(256, 192), (40, LEAST_CONNECTIONS), (100_000, 1000), (resource.RLIM_INFINITY, 1000)]
)
def test_limit_leaves_descriptors_for_the_server_when_the_process_may_open_few(
    monkeypatch: pytest.MonkeyPatch, soft: int, limit: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (soft, soft))
    assert limit_by_descriptors(1000) == limit
