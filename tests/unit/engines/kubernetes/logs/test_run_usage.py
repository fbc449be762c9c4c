"""Usage by metrics.k8s.io: one request per namespace, and peaks that are kept."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from runyard.app.engine import Anchor, ContainerEnd, EngineRefusal, EngineUnavailable
from runyard.engines.kubernetes import run_usage
from runyard.engines.kubernetes.run_usage import RunUsage
from runyard.kube.client import Client
from tests.unit.engines.kubernetes.logs.played_pods import RUN, PlayedCache, make_job, make_pod, running, waiting
from tests.unit.kube.scripted_apiserver import Step, answer, refuse, serve

ANCHOR = Anchor(run_uid=RUN, run_id="r1", project="p", action="job", uid="job-uid")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def metrics(memory: object = "64Mi", cpu: object = "250m", *, pod: str = "pod") -> Step:
    item = {
        "metadata": {"name": pod, "namespace": "ns"},
        "timestamp": "2026-11-16T12:00:00Z",
        "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": memory}}],
    }
    return answer({"kind": "PodMetricsList", "metadata": {}, "items": [item]})


def make_cache(restarts: int = 0) -> PlayedCache:
    return PlayedCache(make_pod(running(restarts=restarts)), job=make_job())


async def test_one_request_answers_all_when_several_ask_at_once() -> None:
    clock = Clock()
    async with serve(metrics()) as server, Client.connect(server.config()) as client:
        usage = RunUsage(client, make_cache(), clock=clock)
        first, second = await asyncio.gather(usage.list_usage(ANCHOR), usage.list_usage(ANCHOR))
        assert first == second
        assert len(server.requests) == 1
        clock.now += run_usage.USAGE_SECONDS
        await usage.list_usage(ANCHOR)
        assert len(server.requests) == 2
    (found,) = first
    assert (found.pod, found.container, found.cpu_cores, found.memory_bytes) == ("pod", "main", 0.25, 64 << 20)
    assert found.at.isoformat() == "2026-11-16T12:00:00+00:00"
    assert "labelSelector=runyard.io%2Frun-uid" in server.requests[0].target


@pytest.mark.parametrize(("memory", "cpu"), [("nonsense", "-1"), (7, None), ("1e30", "1e30")])
async def test_figures_are_left_out_when_they_are_not_amounts(memory: object, cpu: object) -> None:
    async with serve(metrics(memory, cpu)) as server, Client.connect(server.config()) as client:
        (found,) = await RunUsage(client, make_cache()).list_usage(ANCHOR)
    assert (found.cpu_cores, found.memory_bytes) == (None, None)


async def test_containers_are_listed_without_figures_when_the_cluster_measures_nothing() -> None:
    clock = Clock()
    async with serve(refuse(404, "NotFound")) as server, Client.connect(server.config()) as client:
        usage = RunUsage(client, make_cache(), clock=clock)
        for _ in range(2):
            (found,) = await usage.list_usage(ANCHOR)
            assert (found.container, found.memory_bytes) == ("main", None)
            clock.now += 60
        assert len(server.requests) == 1
        clock.now += run_usage.MISSING_SECONDS
        await usage.list_usage(ANCHOR)
        assert len(server.requests) == 2


async def test_usage_is_unavailable_when_the_metrics_api_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_usage, "DEADLINE_SECONDS", 0.2)
    async with serve(refuse(503, "ServiceUnavailable")) as server, Client.connect(server.config()) as client:
        with pytest.raises(EngineUnavailable):
            await RunUsage(client, make_cache()).list_usage(ANCHOR)


async def test_nothing_is_asked_when_no_container_runs() -> None:
    other = Anchor(run_uid=RUN, run_id="r1", project="p", action="job", uid="other")
    async with serve(refuse(500, "InternalError")) as server, Client.connect(server.config()) as client:
        usage = RunUsage(client, PlayedCache(make_pod(waiting()), job=make_job()))
        assert await usage.list_usage(ANCHOR) == []
        with pytest.raises(EngineRefusal):
            await usage.list_usage(other)
    assert server.requests == []


def make_end(**fields: Any) -> ContainerEnd:
    return ContainerEnd(**{"pod": "pod", "container": "main", **fields})


async def test_peak_of_an_instance_is_kept_when_it_used_less_later() -> None:
    clock, cache, steps = Clock(), make_cache(), [metrics("10Mi"), metrics("90Mi"), metrics("20Mi"), metrics("5Mi")]

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        return await steps.pop(0)(request)

    async with serve(respond) as server, Client.connect(server.config()) as client:
        usage = RunUsage(client, cache, clock=clock)
        for restarts in (0, 0, 0, 1):
            cache.pods = make_cache(restarts).pods
            await usage.list_usage(ANCHOR)
            clock.now += 60
    ends = [make_end(), make_end(instance=1), make_end(peak_bytes=7), make_end(pod="other")]
    assert [end.peak_bytes for end in usage.add_peaks(ends)] == [90 << 20, 5 << 20, 7, None]
    # A sample says nothing about the moment at which the memory ran out.
    ends = [make_end(is_out_of_memory=True), make_end(is_out_of_memory=True, peak_bytes=512 << 20)]
    assert [end.peak_bytes for end in usage.add_peaks(ends)] == [None, 512 << 20]


async def test_all_namespaces_are_measured_when_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_usage, "SAMPLE_SECONDS", 0.01)
    monkeypatch.setattr(run_usage, "MOST_SAMPLED_NAMESPACES", 1)
    asked, both = set(), asyncio.Event()

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        asked.add("/namespaces/ns/" in request.path)
        response = await metrics("10Mi")(request)
        if len(asked) == 2:
            both.set()
        return response

    async with serve(respond) as server, Client.connect(server.config()) as client:
        usage = RunUsage(client, make_cache())
        sampling = asyncio.ensure_future(usage.run(lambda: {"empty", "ns"}))
        async with asyncio.timeout(60):
            await both.wait()
            while usage.add_peaks([make_end()])[0].peak_bytes is None:  # noqa: ASYNC110 - the answer is on its way
                await asyncio.sleep(0.01)
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)
        assert usage.add_peaks([make_end()])[0].peak_bytes == 10 << 20
