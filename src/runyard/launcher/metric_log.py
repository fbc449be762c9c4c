"""Metrics of the run: collected in memory, and sent in the background, so that user code never waits for the server."""

import math
import sys
import threading
import time

from .failures import NotReported
from .run_api import RunApi

MOST_METRICS = 256
"""Metrics of a run; the server's own limit."""
MOST_POINTS = 50_000
"""Points of a metric; the server's own limit. When it is reached, every second point is dropped."""
SEND_SECONDS = 2.0
"""Between two reports of metrics that changed; longer while reports themselves take long."""


class _Closed(Exception):
    """The run has ended: its main thread sends the rest."""


class MetricLog:
    """The metrics of one run. Thread-safe; `close` sends what is left."""

    def __init__(self, api: RunApi) -> None:
        self._api = api
        self._series: dict[str, list[float]] = {}
        self._changed: set[str] = set()
        self._lock = threading.Lock()
        self._is_closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._warned: set[str] = set()

    def add(self, name: str, value: float) -> None:
        """Append a point to a metric."""
        if not name:
            raise ValueError("a metric needs a name")
        number = float(value)
        if not math.isfinite(number):
            self._warn(name, f"metric {name}: {number} is not a finite number and is left out")
            return
        with self._lock:
            if name not in self._series and len(self._series) >= MOST_METRICS:
                raise ValueError(f"a run has at most {MOST_METRICS} metrics")
            series = self._series.setdefault(name, [])
            if len(series) >= MOST_POINTS:
                del series[::2]
                self._warn(name, f"metric {name} has more than {MOST_POINTS} points; every second one is dropped")
            series.append(number)
            self._changed.add(name)
            if self._thread is None and not self._is_closing.is_set():
                self._thread = threading.Thread(target=self._run, name="runyard-metrics", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Send what was not sent yet, with the retries of the run's API."""
        self._is_closing.set()
        if self._thread is not None:
            self._thread.join()
        self._send(self._api)

    def _run(self) -> None:
        api, took = self._api.with_pause(self._pause), 0.0
        try:
            while not self._is_closing.wait(max(SEND_SECONDS, took * 10)):
                begun = time.monotonic()
                self._send(api)
                took = time.monotonic() - begun
        except _Closed:
            pass

    def _pause(self, seconds: float) -> None:
        if self._is_closing.wait(seconds):
            raise _Closed

    def _send(self, api: RunApi) -> None:
        while True:
            with self._lock:
                if not self._changed:
                    return
                name = self._changed.pop()
                values = list(self._series[name])
            try:
                api.put_metric(name, values)
            except NotReported as error:
                self._warn(name, f"metric {name[:80]} is not stored: {error}")
            except BaseException:
                with self._lock:
                    self._changed.add(name)
                raise

    def _warn(self, name: str, text: str) -> None:
        """Print a warning, once per metric."""
        if name not in self._warned and len(self._warned) <= MOST_METRICS:
            self._warned.add(name)
            sys.stderr.write(f"runyard: {text}\n")
