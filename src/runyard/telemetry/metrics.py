"""The server's Prometheus metrics, in a registry of their own."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from runyard import __version__

_REQUEST_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WEBSOCKET"})
NO_ROUTE = "none"


def make_registry(program: str) -> CollectorRegistry:
    """A registry of one program, with its version."""
    # Otherwise every metric has a second `_created` series.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    info = Gauge("runyard_build_info", f"The version of this {program}.", ("version",), registry=registry)
    info.labels(__version__).set(1)
    return registry


def make_loop_failures(registry: CollectorRegistry) -> Counter:
    """Counts failures of supervised loops (`loop_supervision`), by name."""
    text = "Failures of background loops; a failed loop is restarted."
    return Counter("runyard_loop_failures", text, ("loop",), registry=registry)


class Metrics:
    """The server's metrics. Labels have few, fixed values: methods, route templates, states, names of loops."""

    def __init__(self) -> None:
        self.registry = make_registry("server")
        self._requests = Histogram(
            "runyard_http_request_seconds",
            "Time from a request to the start of its response.",
            ("method", "route", "status"),
            buckets=_REQUEST_BUCKETS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "runyard_http_requests_in_flight",
            "Requests in progress, including streams.",
            registry=self.registry,
        )
        self._sent = Counter("runyard_http_sent_bytes", "Bytes sent in responses.", registry=self.registry)
        self._runs = Gauge("runyard_runs", "Runs by state.", ("state",), registry=self.registry)
        self._orphans = Gauge(
            "runyard_orphans",
            "Objects of the engine that no run knows, by what is done with them.",
            ("verdict",),
            registry=self.registry,
        )
        self._failures = make_loop_failures(self.registry)
        self._children: dict[tuple[str, str, str], Histogram] = {}

    def count_request(self, *, method: str, route: str | None, status: int | None, seconds: float) -> None:
        """Count a finished request. `status` is None if the client disconnected before a response started."""
        key = (method if method in _METHODS else "other", route or NO_ROUTE, f"{status // 100}xx" if status else "none")
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._requests.labels(*key)
        child.observe(seconds)

    def count_sent(self, size: int) -> None:
        """Count bytes sent in a response."""
        self._sent.inc(size)

    def set_runs(self, counts: Mapping[str, int]) -> None:
        """Set the number of runs by state. States that are not in `counts` have none."""
        self._runs.clear()
        for state, number in counts.items():
            self._runs.labels(state).set(number)

    def set_orphans(self, counts: Mapping[str, int]) -> None:
        """Set the number of orphans by verdict."""
        for verdict, number in counts.items():
            self._orphans.labels(verdict).set(number)

    def count_failure(self, loop: str) -> None:
        """Count a failure of a background loop."""
        self._failures.labels(loop).inc()

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
