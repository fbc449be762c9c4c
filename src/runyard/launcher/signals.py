"""SIGTERM: raised in the main thread as `Terminated`, like Ctrl-C, so that the run's clean-up code runs."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from .failures import Terminated


class StopSignal:
    """Whether SIGTERM arrived. Later ones are ignored: the grace period has begun, and SIGKILL ends it."""

    def __init__(self) -> None:
        self.is_received = False
        self._pid = os.getpid()
        self._callback: Callable[[], object] | None = None

    def install(self) -> None:
        """Handle SIGTERM from now on; only in the main thread."""
        signal.signal(signal.SIGTERM, self._receive)

    @staticmethod
    def ignore() -> None:
        """Ignore SIGTERM from now on: during the interpreter's own end it would replace the exit code."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    @contextmanager
    def redirect(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call `callback` on SIGTERM instead of raising, for example to cancel a task of an event loop."""
        self._callback = callback
        try:
            yield
        finally:
            self._callback = None

    def pause(self, seconds: float) -> None:
        """Wait between two attempts of a request; raises `Terminated` once the run is to stop."""
        if self.is_received:
            raise Terminated
        time.sleep(seconds)

    def _receive(self, _number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            # A process that user code forked, such as a worker of multiprocessing: it ends as any other would.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        if self.is_received:
            return
        self.is_received = True
        if self._callback is None:
            raise Terminated
        self._callback()
