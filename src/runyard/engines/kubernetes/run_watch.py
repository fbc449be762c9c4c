"""Observes runs as their objects change, and tells subscribers. Absence is told only after asking the cluster itself.

An anchor that the watch no longer shows may have lost a label only, or the list that lacked it may be another
cluster's: so it is read by its name, and is absent if there is none or one of another UID.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload
from weakref import WeakSet

from runyard.app.engine import Anchor, ContainerEnd, Observation
from runyard.domain.outcomes import Seen
from runyard.engines.kubernetes.cluster_cache import MOST_PODS, ClusterCache
from runyard.engines.kubernetes.kube_errors import engine_errors
from runyard.engines.kubernetes.observations import is_finished, observe_absence, observe_run
from runyard.engines.kubernetes.run_objects import (
    AnchorView,
    GonePod,
    RunObjects,
    get_project,
    get_run_id,
    get_run_uid,
)
from runyard.engines.kubernetes.views import DeploymentView, JobView, PodView, read_view
from runyard.engines.subscriber import Subscriber
from runyard.kube import Client, KubeError, NotFound, Object
from runyard.kube.resources import DEPLOYMENTS, JOBS, PODS
from runyard.manifests.metadata import RUN_UID_LABEL, to_label_value

RUNS_AT_A_TIME = 50
"""How many runs are observed before other work gets a turn."""
CONFIRMATIONS_AT_A_TIME = 8
"""About how many runs the cluster is asked at once."""
MOST_ASKED = 10_000
"""How many anchors are remembered of which the cluster has said that they are gone, so that it is not asked again."""
CONFIRM_RETRY_SECONDS = 2.0
"""How long a question about a run waits after the cluster did not answer."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _ReadPods:
    """The pods of an anchor as they were read live, because their watch was behind."""

    uid: str
    epoch: int
    pods: tuple[PodView, ...]


def choose_newer(known: Observation, other: Observation) -> Observation:
    """The newer of two observations of one run; the other one if it cannot be told. A UID does not come back."""
    if known.uid != other.uid:
        return known if other.seen is Seen.ABSENT else other
    if other.seen is Seen.ABSENT:
        return other
    is_older = (other.epoch, other.version) < (known.epoch, known.version)
    return known if known.seen is Seen.ABSENT or is_older else other


class ObservedAnchors(Sequence[tuple[Anchor, Observation]]):
    """Anchors and their observations, which are made when they are asked for, from the objects as they were listed.

    All observations at once would take as much memory as the views of all objects. A slice leaves out what cannot be
    observed; `note_failure` is called with its run key in the block of the exception.
    """

    def __init__(
        self,
        listed: Sequence[RunObjects],
        observe: Callable[[RunObjects], Observation],
        note_failure: Callable[[str], None],
    ) -> None:
        self._listed = listed
        self._observe = observe
        self._note_failure = note_failure

    def __len__(self) -> int:
        return len(self._listed)

    @overload
    def __getitem__(self, index: int) -> tuple[Anchor, Observation]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[Anchor, Observation]]: ...

    def __getitem__(self, index: int | slice) -> tuple[Anchor, Observation] | list[tuple[Anchor, Observation]]:
        if isinstance(index, slice):
            return [*self._make_each(self._listed[index])]
        return self._make(self._listed[index])

    def _make_each(self, listed: Iterable[RunObjects]) -> Iterator[tuple[Anchor, Observation]]:
        for objects in listed:
            try:
                made = self._make(objects)
            except Exception:  # noqa: BLE001 - a bug in one observation must not hide all others
                self._note_failure(objects.anchor.metadata.labels.run_uid)
            else:
                yield made

    def _make(self, objects: RunObjects) -> tuple[Anchor, Observation]:
        return make_anchor(objects.anchor), self._observe(objects)


class RunWatch:
    """Observations of the runs in a cache. Its task is `run`."""

    def __init__(
        self,
        client: Client,
        cache: ClusterCache,
        *,
        request_seconds: float,
        add_peaks: Callable[[Iterable[ContainerEnd]], tuple[ContainerEnd, ...]] = tuple,
    ) -> None:
        """`add_peaks` completes ended containers with the memory that was measured while they ran."""
        self._client = client
        self._add_peaks = add_peaks
        self._cache = cache
        self._seconds = request_seconds
        self._subscribers: WeakSet[Subscriber] = WeakSet()
        self._changed: dict[str, None] = {}
        self._news = asyncio.Event()
        self._doubtful: dict[str, None] = {}
        """Keys of runs that the cluster has to be asked about, before they are told."""
        self._doubts = asyncio.Event()
        self._absent: OrderedDict[str, None] = OrderedDict()
        """UIDs of anchors that are gone by the word of the cluster."""
        self._read_pods: dict[str, _ReadPods] = {}
        """By run key. Dropped when the watch of pods has come as far, or the anchor is gone."""
        cache.listen(self._note)

    def subscribe(self) -> AsyncIterator[Sequence[Observation]]:
        """Every change from now on."""
        subscriber = Subscriber(choose_newer)
        self._subscribers.add(subscriber)
        return subscriber.iterate()

    async def run(self) -> None:
        """Observe what changes, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._observe_changed())
            for _ in range(CONFIRMATIONS_AT_A_TIME):
                group.create_task(self._resolve_doubts())

    async def observe(self, anchor: Anchor, *, namespace: str, name: str) -> Observation:
        """The observation of an anchor: from the cache, or by asking the cluster. Raises `EngineUnavailable`."""
        run_key = to_label_value(anchor.run_uid)
        objects = self._cache.find_by_key(run_key)
        with engine_errors(f"read the anchor {name}"):
            if objects is not None and objects.anchor.metadata.uid == anchor.uid:
                return await self._observe_surely(objects)
            live = await self.read_anchor(anchor.action, namespace=namespace, name=name)
        return self._observe_live(anchor, live)

    async def read_anchor(self, action: str, *, namespace: str, name: str) -> AnchorView | None:
        """The object of that name, live; None if there is none. Raises `KubeError`."""
        found = await self.read_object(action, namespace=namespace, name=name)
        return None if found is None else view_anchor(found)

    async def read_object(self, action: str, *, namespace: str, name: str) -> Object | None:
        """As `read_anchor`, all of it."""
        resource = JOBS if action == "job" else DEPLOYMENTS
        try:
            return await self._client.get(resource, name, namespace=namespace, deadline_seconds=self._seconds)
        except NotFound:
            return None

    async def list_observations(self) -> ObservedAnchors:
        """The anchors in the cache with their observations. Asks nothing; other work gets turns meanwhile.

        Those that may have ended come first: after a start, thousands of others say nothing new. A run that the cluster
        has to be asked about, or that cannot be observed, is left out: then the cache is not current, so that the list
        does not count as complete. The background asks, and tells the answer.
        """
        listed: list[RunObjects] = []
        incomplete, left_out = self._cache.incomplete_runs, set[str]()
        pending = [view.metadata.labels.run_uid for view in self._cache.iter_anchors()]
        while pending:
            for count, run_key in enumerate(pending, start=1):
                if (found := self._find_observed(run_key)) is not None:
                    listed.append(found)
                elif run_key in incomplete:
                    left_out.add(run_key)
                if count % RUNS_AT_A_TIME == 0:
                    await asyncio.sleep(0)
            # The background may have had its answer meanwhile: then they are not incomplete anymore, and belong here.
            pending = [run_key for run_key in left_out if run_key not in incomplete]
            left_out.difference_update(pending)
        listed.sort(key=lambda objects: not _may_have_ended(objects))
        return ObservedAnchors(listed, lambda objects: self._complete(observe_run(objects)), self._note_failure)

    def _note_failure(self, run_key: str) -> None:
        """Of a run that could not be observed: log the exception, and let no later list count as complete."""
        _log.exception("a run could not be observed", extra={"run_key": run_key})
        self._cache.incomplete_runs.add(run_key)

    def _find_observed(self, run_key: str) -> RunObjects | None:
        """The objects by which a run can be observed; None if it is gone, or incomplete, which is noted."""
        try:
            objects = self._cache.find_by_key(run_key)
            if objects is None:
                return None
            # Others are observed once, when the list is read: if a Job counts no end, no pods of it are missing.
            is_checked = _has_counted_ends(objects) or run_key in self._cache.incomplete_runs
            is_doubtful = is_checked and self._is_doubtful(objects, self._observe(objects))
        except Exception:  # noqa: BLE001 - a bug in one observation must not hide all others
            self._note_failure(run_key)
            return None
        if is_doubtful:
            self._cache.incomplete_runs.add(run_key)
            self._doubt(run_key)
            return None
        self._cache.incomplete_runs.discard(run_key)
        read = self._find_read_pods(objects)
        return objects if read is None else replace(objects, pods=read.pods)

    def _note(self, run_keys: Iterable[str]) -> None:
        self._changed.update(dict.fromkeys(run_keys))
        self._news.set()

    async def _observe_changed(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            changed, self._changed = self._changed, {}
            for count, run_key in enumerate(changed, start=1):
                self._observe_run(run_key)
                if count % RUNS_AT_A_TIME == 0:
                    await asyncio.sleep(0)

    def _observe_run(self, run_key: str) -> None:
        """Tell what is seen of a run, or ask first. A failure concerns this run only: the others are observed."""
        try:
            objects = self._cache.find_by_key(run_key)
            gone = self._cache.find_gone_anchor(run_key)
            if objects is None:
                self._read_pods.pop(run_key, None)
            observation = None if objects is None else self._observe(objects)
            if objects is not None and observation is not None and not self._is_doubtful(objects, observation):
                self._tell(observation)
            elif objects is not None or (gone is not None and gone.metadata.uid not in self._absent):
                self._doubt(run_key)
            elif gone is not None:
                self._tell(self._observe_live(make_anchor(gone), None))
        except Exception:  # noqa: BLE001 - a bug in one observation must not stop all others
            _log.exception("a run could not be observed", extra={"run_key": run_key})

    def _doubt(self, run_key: str) -> None:
        self._doubtful[run_key] = None
        self._doubts.set()

    async def _resolve_doubts(self) -> None:
        """Ask the cluster about one run after the other, and tell what it says."""
        while True:
            while not self._doubtful:
                self._doubts.clear()
                await self._doubts.wait()
            run_key = next(iter(self._doubtful))
            del self._doubtful[run_key]
            try:
                await self._resolve_doubt(run_key)
            except KubeError as error:
                _log.info("cannot ask about a run: %s", error)
                self._doubtful[run_key] = None
                await asyncio.sleep(CONFIRM_RETRY_SECONDS)
            except Exception:  # noqa: BLE001 - a bug in one observation must not stop all others
                _log.exception("a run could not be observed", extra={"run_key": run_key})

    async def _resolve_doubt(self, run_key: str) -> None:
        objects = self._cache.find_by_key(run_key)
        gone = self._cache.find_gone_anchor(run_key)
        if objects is not None:
            self._tell(await self._observe_surely(objects))
        elif gone is not None:
            anchor = make_anchor(gone)
            live = await self.read_anchor(anchor.action, namespace=gone.metadata.namespace, name=gone.metadata.name)
            is_absent = live is None or live.metadata.uid != anchor.uid
            if is_absent:
                self._note_absent(anchor.uid)
            self._tell(self._observe_live(anchor, live))
            if is_absent:
                self._cache.note_absent(run_key, uid=anchor.uid)

    def _is_doubtful(self, objects: RunObjects, observation: Observation) -> bool:
        """Whether the pods of a run must be read before its end is told."""
        return self._lacks_pods(objects, observation) and self._find_read_pods(objects) is None

    def _lacks_pods(self, objects: RunObjects, observation: Observation) -> bool:
        """Whether a Job has ended, and the pod that ended it is not shown, because the watch of pods is behind.

        A run that has ended stays as it is, so its exit code would never be known. If the watch of pods has come as
        far as the Job, there is nothing to wait for: the pod is gone.
        """
        has_ends = any(end.container for end in observation.ends)
        is_over = observation.seen in (Seen.SUCCEEDED, Seen.FAILED, Seen.STOPPED) and not has_ends
        return _has_counted_ends(objects) and is_over and not self._cache.has_pods_of(objects.anchor)

    def _find_read_pods(self, objects: RunObjects) -> _ReadPods | None:
        metadata = objects.anchor.metadata
        read = self._read_pods.get(metadata.labels.run_uid)
        return read if read is not None and (read.uid, read.epoch) == (metadata.uid, objects.epoch) else None

    async def _observe_surely(self, objects: RunObjects) -> Observation:
        """The observation of objects; if their pods may be missing, those are read live. Raises `KubeError`."""
        observation = self._observe(objects)
        metadata = objects.anchor.metadata
        run_key = metadata.labels.run_uid
        if self._is_doubtful(objects, observation):
            listed = await self._client.list(
                PODS,
                namespace=metadata.namespace,
                label_selector=f"{RUN_UID_LABEL}={run_key}",
                deadline_seconds=self._seconds,
            )
            pods = tuple(read_view(PodView, item) for item in listed.items[:MOST_PODS])
            if self._cache.find_anchor(run_key) is not None:
                self._read_pods[run_key] = _ReadPods(metadata.uid, objects.epoch, pods)
            observation = self._complete(observe_run(replace(objects, pods=pods)))
        self._cache.incomplete_runs.discard(run_key)
        return observation

    def _note_absent(self, uid: str) -> None:
        self._absent[uid] = None
        while len(self._absent) > MOST_ASKED:
            self._absent.popitem(last=False)

    def _observe_live(self, anchor: Anchor, live: AnchorView | None) -> Observation:
        run_key = to_label_value(anchor.run_uid)
        if live is not None and live.metadata.uid == anchor.uid:
            return self._observe(self._cache.collect(live))
        # Pods that are still there go with their anchor.
        left = (GonePod(pod, is_final=False) for pod in self._cache.list_pods_by_key(run_key))
        return self._complete(
            observe_absence(
                anchor,
                (*self._cache.list_gone_pods(anchor.run_uid), *left),
                past_ends=self._cache.list_past_ends(run_key),
                epoch=self._cache.epoch,
            )
        )

    def _observe(self, objects: RunObjects) -> Observation:
        observation = self._complete(observe_run(objects))
        if not self._lacks_pods(objects, observation):
            self._read_pods.pop(objects.anchor.metadata.labels.run_uid, None)
            return observation
        read = self._find_read_pods(objects)
        return observation if read is None else self._complete(observe_run(replace(objects, pods=read.pods)))

    def _complete(self, observation: Observation) -> Observation:
        return replace(observation, ends=self._add_peaks(observation.ends)) if observation.ends else observation

    def _tell(self, observation: Observation) -> None:
        for subscriber in self._subscribers:
            subscriber.tell(observation)


def _has_counted_ends(objects: RunObjects) -> bool:
    job = objects.anchor
    return isinstance(job, JobView) and bool(job.status.succeeded or job.status.failed)


def _may_have_ended(objects: RunObjects) -> bool:
    return _has_counted_ends(objects) or any(is_finished(pod) for pod in objects.pods)


def view_anchor(body: Object) -> AnchorView:
    """The view of a Job or Deployment."""
    return read_view(JobView, body) if body.get("kind") == JOBS.kind else read_view(DeploymentView, body)


def make_anchor(view: AnchorView) -> Anchor:
    """The anchor as the port knows it."""
    return Anchor(
        run_uid=get_run_uid(view),
        run_id=get_run_id(view),
        project=get_project(view),
        action=view.metadata.labels.action,
        uid=view.metadata.uid,
    )
