"""Reminds the Job controller of Jobs that it has forgotten: released, not ended, and without a pod that lives.

A Job controller acts on what its watches show it. After an outage of the apiserver it may miss that a pod is gone, or
that a Job was changed, and it does not look again for hours: the run would wait for a pod that nobody creates
(Kubernetes 1.36, seen after its watches were refused by an apiserver that had just started). Any change of the Job
makes it look, so an annotation is enough. It decides as ever: nothing is created that it would not have created.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from runyard.engines.kubernetes.cluster_cache import ClusterCache
from runyard.engines.kubernetes.cluster_writes import ClusterWrites
from runyard.engines.kubernetes.observations import is_finished
from runyard.engines.kubernetes.views import JobView
from runyard.kube import KubeError
from runyard.manifests.patches import Remind

LOOK_SECONDS = 30.0
"""How often all Jobs are looked at."""
JOBS_AT_A_TIME = 100
"""How many are looked at before other work gets a turn."""
STALLED_SECONDS = 60.0
"""How long nothing may happen to such a Job before its controller is reminded."""
LONGEST_STALLED_SECONDS = 900.0
"""The time doubles with each reminder of a Job, up to this: a full quota, for instance, may last."""
MOST_REMINDERS = 20
"""How many Jobs are reminded of in one look, those first that were longest without news."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Stalled:
    """A Job since nothing happens to it."""

    state: tuple[str, ...]
    since: float
    pause: float


class StalledJobs:
    """Its task is `run`."""

    def __init__(
        self, cache: ClusterCache, writes: ClusterWrites, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cache = cache
        self._writes = writes
        self._clock = clock
        self._stalled: dict[str, _Stalled] = {}
        """By UID, only of Jobs that were stalled at the last look."""

    async def run(self) -> None:
        """Look from time to time, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # What a watch does not show may be there.
            if self._cache.is_current:
                await self.remind()

    async def remind(self) -> int:
        """Remind the controller of what is due; returns of how many Jobs. What fails is repeated at a later look."""
        due = await self._find_due()
        reminded = 0
        for job, stalled in due[:MOST_REMINDERS]:
            metadata = job.metadata
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            try:
                await self._writes.patch(
                    Remind(name=metadata.name, namespace=metadata.namespace, uid=metadata.uid, at=at)
                )
            except KubeError as error:
                _log.info("cannot remind the controller of Job %s: %s", metadata.name, error)
                continue
            _log.warning(
                "nothing happened to Job %s for %.0f s, and it has no pod: its controller was reminded",
                metadata.name,
                self._clock() - stalled.since,
            )
            pause = min(2 * stalled.pause, LONGEST_STALLED_SECONDS)
            self._stalled[metadata.uid] = _Stalled(stalled.state, self._clock(), pause)
            reminded += 1
        return reminded

    async def _find_due(self) -> list[tuple[JobView, _Stalled]]:
        now = self._clock()
        before, self._stalled = self._stalled, {}
        due = []
        for count, run_key in enumerate(self._cache.jobs.store.index_values("run"), start=1):
            if count % JOBS_AT_A_TIME == 0:
                await asyncio.sleep(0)
            job = self._cache.find_anchor(run_key)
            if not isinstance(job, JobView) or (state := self._find_stalled_state(job)) is None:
                continue
            known = before.get(job.metadata.uid)
            if known is None or known.state != state:
                known = _Stalled(state, now, STALLED_SECONDS)
            self._stalled[job.metadata.uid] = known
            if now - known.since >= known.pause:
                due.append((job, known))
        return sorted(due, key=lambda item: item[1].since)

    def _find_stalled_state(self, job: JobView) -> tuple[str, ...] | None:
        """What would change if anything happened to a Job for which nothing runs; None if something runs, or is over.

        The resourceVersion is not part of it: a reminder changes that.
        """
        if job.spec.suspend or job.metadata.deleted_at or job.has_ended:
            return None
        pods = self._cache.list_pods_by_key(job.metadata.labels.run_uid)
        if any(not is_finished(pod) for pod in pods):
            return None
        status = job.status
        counted = (str(status.active), str(status.succeeded), str(status.failed), status.started_at)
        return (str(job.metadata.generation), *counted, *(pod.metadata.uid for pod in pods))
