"""The output of a run's containers: which there is, and every byte of it once and in order.

A position is the text of `kube.streams.LogPosition`, or `END` behind the gap that ends an output. Whatever cannot be
read anymore is a gap with its cause; what may be readable later raises `EngineUnavailable`.
"""

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime

from runyard.app.engine import Anchor, EngineUnavailable, LogChunk, LogGap, LogSource
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.log_follow import DEADLINE_SECONDS, SourceFollow, find_run_span
from runyard.engines.kubernetes.log_gaps import END, Cause, is_on_lost_node, make_gap, parse_time
from runyard.engines.kubernetes.log_sources import (
    count_pods,
    find_span,
    is_start_unknown,
    list_known_uids,
    list_sources,
    list_unseen,
    tells_all,
)
from runyard.engines.kubernetes.namespaces import Namespaces
from runyard.engines.kubernetes.pod_cache import PodCache
from runyard.engines.kubernetes.pod_creations import PodCreations
from runyard.engines.kubernetes.rendered_runs import name_anchor
from runyard.engines.kubernetes.run_objects import RunObjects
from runyard.engines.kubernetes.views import JobView
from runyard.kube import Client, KubeError, NotFound
from runyard.kube.rate_limiter import Priority
from runyard.kube.resources import JOBS, PODS
from runyard.kube.streams import LogPosition
from runyard.manifests.metadata import RUN_UID_LABEL
from runyard.manifests.pod import CONTAINER

UNREADABLE_SECONDS = 30.0
"""How long the log of an ended instance is asked for that its node does not give, before it counts as removed."""
MOST_UNREADABLE_LOGS = 10_000
"""Of how many such logs it is remembered since when."""
MOST_COUNTED_RUNS = 20_000
"""For how many runs it is remembered how many of their pods nobody saw."""


class RunLogs:
    """Lists and follows the outputs of runs."""

    def __init__(self, client: Client, cache: PodCache, namespaces: Namespaces) -> None:
        self._client = client.with_priority(Priority.LOGS)
        self._cache = cache
        self._namespaces = namespaces
        self._creations = PodCreations(self._client, cache)
        self._unseen: OrderedDict[str, tuple[int, int, int]] = OrderedDict()
        """By run: pods counted by the Job controller, pods known, and how many were found to be missing then."""
        self._unreadable: OrderedDict[LogSource, float] = OrderedDict()

    async def list_log_sources(self, anchor: Anchor) -> Sequence[LogSource]:
        """The outputs of the pods that exist, that were seen, and that only their controllers saw."""
        uid = anchor.run_uid
        pods, gone_pods = self._cache.list_pods(uid), self._cache.list_gone_pods(uid)
        found = list_sources(uid, pods, gone_pods)
        objects = self._cache.find(uid)
        is_there = objects is not None and objects.anchor.metadata.uid == anchor.uid
        known = {pod.metadata.name for pod in (*pods, *(gone.pod for gone in gone_pods))}
        try:
            created = await self._creations.list_unseen(
                anchor.uid if anchor.action == "job" else name_anchor(anchor),
                namespace=self._namespaces.get_namespace(anchor.project),
                known=known,
            )
        except KubeError as error:
            raise EngineUnavailable(Reason.ENGINE_FAILED, f"the pods of a run cannot be listed: {error}") from error
        # An anchor tells itself since when its pods may have run.
        unseen = [
            LogSource(run_uid=uid, pod=pod.name, container=CONTAINER, since=None if is_there else pod.at)
            for pod in created
        ]
        found = [*unseen, *found]
        if objects is None or not is_there or not isinstance(objects.anchor, JobView):
            return found
        count = await self._count_unseen(objects, objects.anchor) - len(unseen)
        return [*list_unseen(uid, objects.anchor, max(0, count)), *found]

    async def follow_log(self, source: LogSource, *, after: str | None = None) -> AsyncIterator[LogChunk | LogGap]:
        """The output after a position, to its end."""
        if after == END:
            return
        if source.is_unseen:
            yield self._make_unseen_gap(source)
            return
        if after is None and (gap := self._find_unknown(source)) is not None:
            yield gap
            return
        follow = SourceFollow(
            self._client,
            self._cache,
            source,
            position=_parse_position(after),
            is_given_up=lambda: self._is_given_up(source),
            on_read=lambda: self._note_read(source),
        )
        async with aclosing(follow.run()) as items:
            async for item in items:
                self._note_read(source)
                yield item

    async def _count_unseen(self, objects: RunObjects, job: JobView) -> int:
        """How many pods of a Job its controller has counted that nobody saw.

        The caches of Jobs and pods do not show one moment. So a difference is believed only after both were read, the
        Job first: a pod that it counts and that is not in the list then is gone.
        """
        known, counted = list_known_uids(objects), count_pods(job)
        if counted <= len(known):
            return 0
        run_uid = job.metadata.labels.run_uid
        last = self._unseen.get(run_uid)
        if last is not None and last[:2] == (counted, len(known)):
            return last[2]
        missing = await self._read_unseen(job, known)
        self._unseen[run_uid] = (counted, len(known), missing)
        while len(self._unseen) > MOST_COUNTED_RUNS:
            self._unseen.popitem(last=False)
        return missing

    async def _read_unseen(self, job: JobView, known: set[str]) -> int:
        namespace, labels = job.metadata.namespace, f"{RUN_UID_LABEL}={job.metadata.labels.run_uid}"
        try:
            live = await self._client.get(
                JOBS, job.metadata.name, namespace=namespace, deadline_seconds=DEADLINE_SECONDS
            )
            pods = await self._client.list(
                PODS, namespace=namespace, label_selector=labels, deadline_seconds=DEADLINE_SECONDS
            )
        except NotFound:
            return 0
        except KubeError as error:
            raise EngineUnavailable(Reason.ENGINE_FAILED, f"the pods of a run cannot be counted: {error}") from error
        if live["metadata"]["uid"] != job.metadata.uid:
            return 0
        status = live.get("status", {})
        counted = sum(int(status.get(name, 0)) for name in ("active", "succeeded", "failed"))
        return max(0, counted - len(known | {pod["metadata"]["uid"] for pod in pods.items}))

    def _make_unseen_gap(self, source: LogSource) -> LogGap:
        since, until = find_run_span(self._cache, source.run_uid)
        return make_gap(Cause.UNSEEN, since=since, until=until, now=datetime.now(UTC))

    def _find_unknown(self, source: LogSource) -> LogGap | None:
        """The gap of a pod of which nobody can say whether it ran. A lost node may come back with its log."""
        uid = source.run_uid
        pods = [(pod, True) for pod in self._cache.list_pods(uid)]
        gone = [(one.pod, tells_all(one)) for one in self._cache.list_gone_pods(uid)]
        for pod, is_final in (*pods, *gone):
            if pod.metadata.name == source.pod and not is_on_lost_node(pod):
                if not is_start_unknown(pod, is_final=is_final):
                    return None
                # It was never reported ready, so the time since which it is not says nothing of its end.
                began, _ = find_span(pod, source)
                until = parse_time(pod.metadata.deleted_at)
                return make_gap(Cause.MAYBE_RAN, since=began, until=until, now=datetime.now(UTC))
        return None

    def _note_read(self, source: LogSource) -> None:
        self._unreadable.pop(source, None)

    def _is_given_up(self, source: LogSource) -> bool:
        """Whether the node has given a message in place of this log for long."""
        now = time.monotonic()
        since = self._unreadable.setdefault(source, now)
        while len(self._unreadable) > MOST_UNREADABLE_LOGS:
            self._unreadable.popitem(last=False)
        return now - since >= UNREADABLE_SECONDS


def _parse_position(text: str | None) -> LogPosition | None:
    """A stored position; None, which is the beginning, if it is none of ours."""
    try:
        return None if text is None else LogPosition.parse(text)
    except ValueError:
        return None
