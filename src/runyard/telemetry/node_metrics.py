"""The metrics of a node agent. Labels have few, fixed values."""

from prometheus_client import Gauge, Histogram, generate_latest

from runyard.telemetry.metrics import make_loop_failures, make_registry

_BIND_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)


class NodeMetrics:
    """One agent's metrics."""

    def __init__(self) -> None:
        self.registry = make_registry("agent")
        self._pods = Gauge("runyard_node_pods", "Pods by where they are.", ("place",), registry=self.registry)
        self._link = Gauge("runyard_node_link_up", "Whether the provider can be reached.", registry=self.registry)
        self._leading = Gauge("runyard_node_leading", "Whether this replica leads.", registry=self.registry)
        self._binds = Histogram(
            "runyard_node_bind_seconds",
            "Time of a binding, by how it ended.",
            ("outcome",),
            buckets=_BIND_BUCKETS,
            registry=self.registry,
        )
        self._streams = Gauge("runyard_node_open_streams", "Logs and sessions that are open.", registry=self.registry)
        self._bytes = Gauge(
            "runyard_node_stream_bytes",
            "Bytes of logs and sessions since the start of this term, by direction.",
            ("direction",),
            registry=self.registry,
        )
        self._failures = make_loop_failures(self.registry)

    def set_pods(self, *, bound: int, waiting: int) -> None:
        """Set how many pods hold resources of the node, and how many wait for it."""
        self._pods.labels("bound").set(bound)
        self._pods.labels("waiting").set(waiting)

    def set_link(self, *, is_up: bool) -> None:
        """Set whether the provider can be reached."""
        self._link.set(is_up)

    def set_leading(self, *, is_leading: bool) -> None:
        """Set whether this replica leads."""
        self._leading.set(is_leading)

    def observe_bind(self, seconds: float, outcome: str) -> None:
        """Note a binding: `bound` or `not bound`."""
        self._binds.labels(outcome).observe(seconds)

    def set_streams(self, *, is_open: int, sent_bytes: int, received_bytes: int) -> None:
        """Set how many logs and sessions are open, and what they have carried."""
        self._streams.set(is_open)
        self._bytes.labels("to_client").set(sent_bytes)
        self._bytes.labels("from_client").set(received_bytes)

    def count_failure(self, loop: str) -> None:
        """Count a failure of a background loop."""
        self._failures.labels(loop).inc()

    def render(self) -> bytes:
        """The metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
