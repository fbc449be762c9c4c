"""Pods that came and went while nobody watched, and that no Job counts: an evicted pod uses up no retry."""

from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from runyard.app.engine import Anchor, EngineUnavailable, LogGap
from runyard.engines.kubernetes.run_logs import RunLogs
from runyard.kube import Client
from tests.unit.engines.kubernetes.logs.played_pods import NAMESPACES, RUN, PlayedCache, make_job, make_pod, running
from tests.unit.kube.scripted_apiserver import answer, refuse, serve

ANCHOR = Anchor(run_uid=RUN, run_id="r1", project="p", action="job", uid="job-uid")


def make_event(pod: str, *, uid: str = "job-uid", at: str = "2026-11-16T12:00:00Z", **more: Any) -> dict[str, Any]:
    involved = {"kind": "Job", "name": "run-r1", "uid": uid, **more}
    return {
        "involvedObject": involved,
        "reason": "SuccessfulCreate",
        "message": f"Created pod: {pod}",
        "lastTimestamp": at,
    }


class PlayedCluster:
    """Events, and pods by name."""

    def __init__(self, *events: dict[str, Any], pods: tuple[str, ...] = ()) -> None:
        self.events, self.pods = events, pods
        self.asked: list[str] = []

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path.endswith("/events"):
            assert request.query["fieldSelector"] == "reason=SuccessfulCreate"
            return await answer({"kind": "EventList", "metadata": {}, "items": list(self.events)})(request)
        name = request.path.rpartition("/")[2]
        step = answer({"metadata": {"name": name}}) if name in self.pods else refuse(404, "NotFound")
        return await step(request)


def make_cache(*, pod_lists: int = 1) -> PlayedCache:
    cache = PlayedCache(make_pod(running(), name="run-r1-new"), job=make_job(active=1))
    cache.pod_lists = pod_lists
    return cache


async def test_pod_that_was_evicted_unseen_is_a_gap_when_an_event_names_it() -> None:
    cluster = PlayedCluster(
        make_event("run-r1-new", at="2026-11-16T12:00:09Z"),
        make_event("run-r1-old"),
        make_event("run-r2-other", uid="another"),
    )
    async with serve(cluster.respond) as server, Client.connect(server.config()) as client:
        logs = RunLogs(client, make_cache(), NAMESPACES)
        sources = await logs.list_log_sources(ANCHOR)
        assert [(one.pod, one.container) for one in sources] == [("run-r1-old", "main"), ("run-r1-new", "main")]
        assert await logs.list_log_sources(ANCHOR) == sources
        (gap,) = [item async for item in logs.follow_log(sources[0])]
        assert isinstance(gap, LogGap)
        assert gap.cause.startswith("pod deleted")
    assert cluster.asked == ["/api/v1/namespaces/ns/events", "/api/v1/namespaces/ns/pods/run-r1-old"]


async def test_pod_of_a_deleted_job_is_a_gap_when_nobody_saw_it() -> None:
    """The server was started after the Job was gone with its pods."""
    cluster, cache = PlayedCluster(make_event("run-r1-old")), PlayedCache()
    cache.pod_lists = 1
    async with serve(cluster.respond) as server, Client.connect(server.config()) as client:
        logs = RunLogs(client, cache, NAMESPACES)
        (source,) = await logs.list_log_sources(ANCHOR)
        (gap,) = [item async for item in logs.follow_log(source)]
    assert source.pod == "run-r1-old"
    assert isinstance(gap, LogGap)
    assert gap.cause.startswith("pod deleted")
    assert gap.since == datetime(2026, 11, 16, 12, tzinfo=UTC)


async def test_pod_is_not_called_gone_when_only_the_cache_lags() -> None:
    cluster = PlayedCluster(make_event("run-r1-newest"), pods=("run-r1-newest",))
    async with serve(cluster.respond) as server, Client.connect(server.config()) as client:
        sources = await RunLogs(client, make_cache(), NAMESPACES).list_log_sources(ANCHOR)
    assert [one.pod for one in sources] == ["run-r1-new"]


async def test_events_are_read_again_only_when_the_pods_were_listed_again() -> None:
    cluster, cache = PlayedCluster(), make_cache(pod_lists=0)
    async with serve(cluster.respond) as server, Client.connect(server.config()) as client:
        logs = RunLogs(client, cache, NAMESPACES)
        for pod_lists, requests in ((0, 0), (1, 1), (1, 1), (2, 2)):
            cache.pod_lists = pod_lists
            await logs.list_log_sources(ANCHOR)
            assert len(cluster.asked) == requests


async def test_outputs_are_listed_later_when_the_events_cannot_be_read() -> None:
    async with serve(refuse(403, "Forbidden")) as server, Client.connect(server.config()) as client:
        with pytest.raises(EngineUnavailable):
            await RunLogs(client, make_cache(), NAMESPACES).list_log_sources(ANCHOR)
