"""What is counted, in a registry of its own, and how it is shown to Prometheus."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from runyard import __version__

CONTENT_TYPE = CONTENT_TYPE_LATEST
_REQUEST_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE = "none"


class Metrics:
    """The server's metrics. Labels are few and known beforehand: methods, route templates, states, names of loops."""

    def __init__(self) -> None:
        # Without it there is a second series for each, which nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._requests = Histogram(
            "runyard_http_request_seconds",
            "Time from a request to the beginning of its answer.",
            ("method", "route", "status"),
            buckets=_REQUEST_BUCKETS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "runyard_http_requests_in_flight",
            "Requests that are being answered, streams among them.",
            registry=self.registry,
        )
        self._sent = Counter("runyard_http_sent_bytes", "Bytes of answers.", registry=self.registry)
        self._runs = Gauge("runyard_runs", "Runs by their state.", ("state",), registry=self.registry)
        self._failures = Counter(
            "runyard_loop_failures", "Times that a loop failed and was begun again.", ("loop",), registry=self.registry
        )
        Gauge("runyard_build_info", "The release.", ("version",), registry=self.registry).labels(__version__).set(1)
        self._children: dict[tuple[str, str, str], Histogram] = {}

    def count_request(self, *, method: str, route: str | None, status: int | None, seconds: float) -> None:
        """One that was answered; without a status, one whose client went away before."""
        key = (method if method in _METHODS else "other", route or NO_ROUTE, f"{status // 100}xx" if status else "none")
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._requests.labels(*key)
        child.observe(seconds)

    def count_sent(self, size: int) -> None:
        """Bytes of an answer."""
        self._sent.inc(size)

    def set_runs(self, counts: Mapping[str, int]) -> None:
        """How many runs there are, by state; a state that is not named has none."""
        self._runs.clear()
        for state, number in counts.items():
            self._runs.labels(state).set(number)

    def count_failure(self, loop: str) -> None:
        """A loop that failed, and is begun again."""
        self._failures.labels(loop).inc()

    def render(self) -> bytes:
        """All of it, in Prometheus' text; its type is `CONTENT_TYPE`."""
        return generate_latest(self.registry)
