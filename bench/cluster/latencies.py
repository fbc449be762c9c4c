"""How long it takes until something is visible: a submitted run as a Job, and a pod's end as the state of its run."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from bench.cluster.beds import Bed
from bench.cluster.raw_api import RawApi
from bench.cluster.raw_runs import watch_runs
from bench.cluster.recorded_objects import record_template
from bench.cluster.server import IMAGE, ClusterServer, open_server
from bench.report import progress

NAMESPACE = "submit"
RAW_NAMESPACE = "submit-raw"
SHOWN_SECONDS = 30.0
POLL_SECONDS = 0.005
PAUSE_SECONDS = 0.2
"""Before each submit and each raw create: the controllers have finished with the Job before."""
RUN_LABEL = "runyard.io/run"


@dataclass(frozen=True, slots=True)
class Submits:
    """Seconds until a watch shows the Job, sorted."""

    server: Sequence[float]
    raw: Sequence[float]


@dataclass(frozen=True, slots=True)
class Ends:
    """Seconds from a pod's end, as a watch shows it, until the state of its run is stored, sorted."""

    active: int
    steady: Sequence[float]
    """One after another, at an even pace."""
    burst: Sequence[float]
    """All at once; from the first byte of each event at the watch."""
    steady_per_second: float


async def measure_submits(bed: Bed, *, runs: int) -> Submits:
    """One at a time, in turns: a run submitted over HTTP, and a Job created by the raw client."""
    async with bed.connect("bench") as api, bed.connect("bench-raw") as raw_api:
        for namespace in (NAMESPACE, RAW_NAMESPACE):
            await bed.create_namespace(api, namespace)
        async with open_server(bed, namespace=NAMESPACE) as server:
            template = await record_template(server, api)
            async with watch_runs(raw_api, template, namespace=RAW_NAMESPACE) as raw:
                shown = _ShownJobs(api, NAMESPACE)
                following = asyncio.create_task(shown.follow())
                await shown.opened.wait()
                ours, theirs = [], []
                for number in range(runs):
                    await asyncio.sleep(PAUSE_SECONDS)
                    theirs.append(await raw.measure_visible(f"raw-{number}"))
                    await asyncio.sleep(PAUSE_SECONDS)
                    ours.append(await _measure_submit(server, shown))
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
    return Submits(sorted(ours), sorted(theirs))


async def _measure_submit(server: ClusterServer, shown: "_ShownJobs") -> float:
    began = time.perf_counter()
    await server.submit("short")
    async with asyncio.timeout(SHOWN_SECONDS):
        seconds = await shown.times.get() - began
    await server.wait_none("settled_at IS NULL")
    return seconds


class _Kind(msgspec.Struct):
    type: str


_KINDS = msgspec.json.Decoder(_Kind)


class _ShownJobs:
    """When a watch showed each new Job of a namespace."""

    def __init__(self, api: RawApi, namespace: str) -> None:
        self._api = api
        self._path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self.times: asyncio.Queue[float] = asyncio.Queue()
        self.opened = asyncio.Event()

    async def follow(self) -> None:
        async for line in self._api.watch(self._path, on_open=self.opened.set):
            if _KINDS.decode(line).type == "ADDED":
                self.times.put_nowait(time.perf_counter())


async def measure_ends(bed: Bed, server: ClusterServer, *, events: int, seconds: float, seed: int) -> Ends:
    """Pods of active runs end: so many at an even pace within that time, then as many at once."""
    active = server.count("state = 'RUNNING'")
    async with bed.connect("bench") as api:
        pods = await _list_pods(api, server.namespace)
        random.Random(seed).shuffle(pods)
        steady, burst = pods[:events], pods[events : 2 * events]
        progress(f"ends: {len(steady)} of {active} at an even pace")
        paced = await _end_pods(bed, api, server, steady, seconds=seconds)
        progress(f"ends: {len(burst)} of {active - len(steady)} at once")
        at_once = await _end_pods(bed, api, server, burst, seconds=0.0)
    progress(f"ends: p99 {_find_p99(paced):.2f} s at an even pace, {_find_p99(at_once):.2f} s at once")
    return Ends(active, sorted(paced), sorted(at_once), len(steady) / seconds)


def _find_p99(seconds: Sequence[float]) -> float:
    return sorted(seconds)[int(0.99 * len(seconds))]


async def end_some(bed: Bed, api: RawApi, namespace: str, *, count: int, seed: int) -> list[str]:
    """Let the pods of so many runs succeed; returns the ids of the runs."""
    pods = await _list_pods(api, namespace)
    random.Random(seed).shuffle(pods)
    chosen = pods[:count]
    await _patch_phases(bed, api, f"/api/v1/namespaces/{namespace}/pods", chosen, seconds=0.0)
    return [pod.run_id for pod in chosen]


@dataclass(frozen=True, slots=True)
class _RunningPod:
    name: str
    uid: str
    run_id: str


async def _list_pods(api: RawApi, namespace: str) -> list[_RunningPod]:
    """Every pod that runs."""
    found, after = [], ""
    while True:
        page = await api.get(f"/api/v1/namespaces/{namespace}/pods?limit=500{after}")
        found += [
            _RunningPod(pod["metadata"]["name"], pod["metadata"]["uid"], pod["metadata"]["labels"][RUN_LABEL])
            for pod in page["items"]
            if pod["status"].get("phase") == "Running"
        ]
        token = page["metadata"].get("continue")
        if not token:
            return found
        after = f"&continue={token}"


class _Named(msgspec.Struct):
    name: str


class _Phase(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Named
    status: _Phase = msgspec.field(default_factory=_Phase)


class _PodEvent(msgspec.Struct):
    type: str
    object: _Pod


_POD_EVENTS = msgspec.json.Decoder(_PodEvent)


async def _end_pods(
    bed: Bed, api: RawApi, server: ClusterServer, pods: Sequence[_RunningPod], *, seconds: float
) -> list[float]:
    path = f"/api/v1/namespaces/{server.namespace}/pods"
    runs = {pod.name: pod.run_id for pod in pods}
    shown: dict[str, float] = {}
    stored: dict[str, float] = {}
    opened = asyncio.Event()

    async def watch() -> None:
        async for line in api.watch(path, on_open=opened.set):
            event = _POD_EVENTS.decode(line)
            name = event.object.metadata.name
            if event.object.status.phase == "Succeeded" and name in runs:
                shown.setdefault(runs[name], time.perf_counter())

    async def read() -> None:
        waiting = set(runs.values())
        while waiting:
            rows = server.fetch("SELECT id FROM runs WHERE state = 'COMPLETED'")
            now = time.perf_counter()
            for (run_id,) in rows:
                if run_id in waiting:
                    waiting.discard(run_id)
                    stored[run_id] = now
            await asyncio.sleep(POLL_SECONDS)

    watching = asyncio.create_task(watch())
    await opened.wait()
    reading = asyncio.create_task(read())
    await _patch_phases(bed, api, path, pods, seconds=seconds)
    await asyncio.wait_for(reading, 120)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    # A state that is stored before this process has read the event took no time.
    return [max(0.0, stored[run_id] - shown.get(run_id, stored[run_id])) for run_id in runs.values()]


async def _patch_phases(bed: Bed, api: RawApi, path: str, pods: Sequence[_RunningPod], *, seconds: float) -> None:
    """Let pods succeed, as a kubelet reports it; 16 at once if there is no pace."""
    began, pause = time.perf_counter(), seconds / len(pods)
    left = iter(enumerate(pods))

    async def work() -> None:
        for number, pod in left:
            await asyncio.sleep(max(0.0, began + number * pause - time.perf_counter()))
            await api.merge(f"{path}/{pod.name}/status", _make_success(pod))
            bed.end_log(pod.name)

    await asyncio.gather(*(work() for _ in range(16 if pause == 0 else 4)))


def _make_success(pod: _RunningPod) -> dict[str, Any]:
    """The status of a pod that has succeeded, as KWOK would write it (`testbed/kwok-stages.yaml`)."""
    container_id, at = f"kwok://{pod.uid}-main", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at, "containerID": container_id}
    status = {
        "name": "main",
        "image": IMAGE,
        "imageID": "",
        "containerID": container_id,
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    return {"status": {"phase": "Succeeded", "containerStatuses": [status]}}
