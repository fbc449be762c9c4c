"""The last states of deleted pods, by run: logs and ends of containers are read from them. Bounded, also in bytes."""

from collections import OrderedDict

from runyard.engines.kubernetes.run_objects import GonePod
from runyard.engines.kubernetes.views import narrow_pod

MOST_GONE_PODS = 20
"""How many deleted pods of a run are kept, the newest; of a run that had more at once, as many as it had: all of them
may be deleted before the log of the first is read."""
MOST_EXTRA_GONE_PODS = 10_000
"""How many more are kept of all runs that had more at once. Each takes some 2 KiB."""


class GonePods:
    """Runs are known by the same keys as in `ClusterCache`."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[GonePod, ...]] = {}
        self._most: dict[str, int] = {}
        """Of runs that had more than `MOST_GONE_PODS` at once: how many."""
        self._extra: OrderedDict[str, int] = OrderedDict()
        """Of those: how many are kept beyond `MOST_GONE_PODS`; the run whose last pod went first is the first."""

    def note_living(self, run_key: str, count: int) -> None:
        """So many pods of the run exist now."""
        if count > max(MOST_GONE_PODS, self._most.get(run_key, 0)):
            self._most[run_key] = count

    def add(self, run_key: str, gone: GonePod) -> None:
        """Keep the last state of a pod that was deleted now."""
        most = self._most.get(run_key, MOST_GONE_PODS)
        pods = self._pods[run_key] = (*self._pods.get(run_key, ()), gone)[-most:]
        extra = len(pods) - MOST_GONE_PODS
        if extra <= 0:
            return
        last = pods[extra - 1]
        self._pods[run_key] = (*pods[: extra - 1], GonePod(narrow_pod(last.pod), last.is_final), *pods[extra:])
        self._extra[run_key] = extra
        self._extra.move_to_end(run_key)
        while sum(self._extra.values()) > MOST_EXTRA_GONE_PODS:
            oldest, _ = self._extra.popitem(last=False)
            self._pods[oldest] = self._pods[oldest][-MOST_GONE_PODS:]

    def list(self, run_key: str) -> tuple[GonePod, ...]:
        """Those of a run, in the order of their deletion."""
        return self._pods.get(run_key, ())

    def forget(self, run_key: str) -> None:
        """Forget all of a run."""
        for known in (self._pods, self._most, self._extra):
            known.pop(run_key, None)
