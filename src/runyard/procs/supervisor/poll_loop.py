"""The one loop of a supervisor: descriptors, timers and signals, until a condition holds."""

from __future__ import annotations

import os
import select
import time

from runyard.procs.supervisor.light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_WAIT_SECONDS = 60.0
"""A condition that holds without an event of ours is noticed after this time."""


class PollLoop:
    """Calls what was added for a descriptor when it can be read (or written), and timers when they are due."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._signals: dict[int, Callable[[], None]] = {}
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._wake_up = reader
        self.add(reader, self._read_signals)

    def add(self, descriptor: int, callback: Callable[[], None], events: int = select.POLLIN) -> None:
        """Call back whenever the descriptor is ready, or has failed."""
        self._callbacks[descriptor] = callback
        self._poll.register(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Forget a descriptor, before it is closed."""
        if self._callbacks.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def add_signal(self, number: int, callback: Callable[[], None]) -> None:
        """Call back after a signal; several that arrived together are one."""
        self._signals[number] = callback
        signal.signal(number, lambda _number, _frame: None)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back once, after this time."""
        self._timers.append((time.monotonic() + seconds, callback))

    def cancel(self, callback: Callable[[], None]) -> None:
        """Forget the timers of a callback."""
        self._timers = [timer for timer in self._timers if timer[1] != callback]

    def run_until(self, condition: Callable[[], bool], *, seconds: float | None = None) -> bool:
        """Run until the condition holds; False if the time has passed before."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not condition():
            wait = LONGEST_WAIT_SECONDS if deadline is None else deadline - time.monotonic()
            if wait <= 0:
                return False
            self.turn(min(wait, LONGEST_WAIT_SECONDS))
        return True

    def turn(self, seconds: float) -> None:
        """Wait for the next event, at most this long, and call back."""
        now = time.monotonic()
        wait = min([seconds, *(due - now for due, _ in self._timers)])
        for descriptor, _ in self._poll.poll(max(0.0, wait) * 1000 + 0.5):
            callback = self._callbacks.get(descriptor)
            if callback is not None:
                callback()
        now = time.monotonic()
        for timer in [each for each in self._timers if each[0] <= now]:
            if timer in self._timers:
                self._timers.remove(timer)
                timer[1]()

    def _read_signals(self) -> None:
        try:
            numbers = set(os.read(self._wake_up, 4096))
        except BlockingIOError:
            return
        for number in sorted(numbers):
            if number in self._signals:
                self._signals[number]()
