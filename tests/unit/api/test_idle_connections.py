from dataclasses import dataclass

from runyard.api.idle_connections import HEAD_SECONDS, IdleConnections


@dataclass(eq=False)
class Answering:
    response_complete: bool = False


@dataclass(eq=False)
class Fake:
    cycle: Answering | None = None
    is_closed: bool = False
    is_aborted: bool = False

    def shutdown(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True


def test_connection_is_ended_when_it_brings_no_request() -> None:
    watch, connection = IdleConnections(), Fake()
    watch.close_stale([connection], now=0)
    watch.close_stale([connection], now=HEAD_SECONDS - 1)
    assert not connection.is_closed
    watch.close_stale([connection], now=HEAD_SECONDS)
    assert connection.is_closed


def test_connection_stays_when_it_is_being_answered_for_long() -> None:
    watch, connection = IdleConnections(), Fake(Answering())
    for now in (0, HEAD_SECONDS, 10 * HEAD_SECONDS):
        watch.close_stale([connection], now=now)
    assert not connection.is_closed


def test_time_begins_anew_when_another_request_was_answered_meanwhile() -> None:
    watch, connection = IdleConnections(), Fake(Answering(response_complete=True))
    watch.close_stale([connection], now=0)
    connection.cycle = Answering(response_complete=True)
    watch.close_stale([connection], now=HEAD_SECONDS)
    assert not connection.is_closed
    watch.close_stale([connection], now=2 * HEAD_SECONDS)
    assert connection.is_closed


def test_connection_is_forgotten_when_it_is_gone() -> None:
    watch, connection = IdleConnections(), Fake()
    watch.close_stale([connection], now=0)
    watch.close_stale([], now=1)
    watch.close_stale([connection], now=HEAD_SECONDS)
    assert not connection.is_closed


def test_connection_is_aborted_when_its_client_does_not_read_the_rest() -> None:
    watch, connection = IdleConnections(), Fake(Answering(response_complete=True))
    for now in (0, HEAD_SECONDS, 2 * HEAD_SECONDS - 1):
        watch.close_stale([connection], now=now)
    assert not connection.is_aborted
    watch.close_stale([connection], now=2 * HEAD_SECONDS)
    assert connection.is_aborted
