"""What requests see of the engine: descriptions of runs, usage, the engine itself."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.api.routes import usage as usage_routes
from runyard.app.engine import LARGEST_DESCRIPTION_BYTES, Anchor, EngineRefusal, EngineUnavailable, Usage
from runyard.app.places import Orphan, SweepFindings, Verdict, write_findings
from runyard.app.sessions import engine_views
from runyard.pods.snapshot import Snapshot, Unseen, sum_allocatable
from runyard.store.runs import SqlRuns
from tests.engines.interactive import NOON, InteractiveEngine
from tests.engines.memory import MemoryEngine
from tests.http_servers import Server, serve
from tests.parsed_documents import record_parsed
from tests.unit.api.engine_runs import ANCHOR, mark_running, submit_run

RUN = "/api/v1/-/demo/runs/r1"
SUMS = ("/api/v1/projects/demo/metrics/k8s", "/api/v1/users/me/metrics/k8s", "/api/v1/metrics/k8s")
NODES: tuple[dict[str, Any], ...] = (
    {"status": {"allocatable": {"cpu": "7500m", "memory": "30Gi", "nvidia.com/gpu": "2"}}},
    {"status": {"allocatable": {"cpu": "500m", "memory": "2Gi"}}, "spec": {}},
    {"status": {"allocatable": {"cpu": "64"}}, "spec": {"unschedulable": True}},
    {"status": {"allocatable": {"cpu": "many"}}},
    {},
)


class SeenEngine(InteractiveEngine):
    """Describes what the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: Any = {"job": {"kind": "Job"}}
        self.seen = Snapshot(at="2026-11-15T12:00:00Z")
        self.described: list[Anchor] = []

    async def describe(self, anchor: Anchor) -> Any:
        await self._enter("describe")
        self.described.append(anchor)
        return self.objects

    async def snapshot(self) -> Snapshot:
        await self._enter("snapshot")
        return self.seen


@dataclass
class Demo:
    engine: SeenEngine
    client: httpx2.AsyncClient
    server: Server

    async def describe(self) -> dict[str, Any]:
        answer = await self.client.get(RUN, params={"describe": "true"})
        assert answer.status_code == 200, answer.text
        status: dict[str, Any] = answer.json()["status"]
        return status


@pytest.fixture
async def demo_run(tmp_path: Path) -> AsyncIterator[Demo]:
    engine = SeenEngine()
    async with serve(tmp_path, engine=engine) as server, server.client() as client:
        await submit_run(client)
        mark_running(tmp_path)
        yield Demo(engine, client, server)


async def test_run_is_described_when_asked(demo_run: Demo) -> None:
    assert (await demo_run.describe())["k8s"] == {"job": {"kind": "Job"}}
    (anchor,) = demo_run.engine.described
    run = await demo_run.server.find_run("demo", "r1")
    assert anchor == Anchor(run_uid=run.uid, run_id="r1", project="demo", action="job", uid=ANCHOR)


async def test_engine_is_not_called_when_no_description_is_asked_for(demo_run: Demo) -> None:
    for path in (RUN, "/api/v1/-/demo/runs", f"{RUN}?describe=false", f"{RUN}/effective", f"{RUN}/events"):
        answer = await demo_run.client.get(path)
        assert answer.status_code == 200
        assert "k8s" not in answer.text
    assert demo_run.engine.calls == []


async def test_description_is_not_stored_when_it_was_shown(demo_run: Demo) -> None:
    before = await demo_run.server.find_run("demo", "r1")
    shown = (await demo_run.client.get(RUN, params={"describe": "true"})).json()
    answer = await demo_run.client.put(RUN, json=shown)
    assert answer.status_code == 200, answer.text
    stored = await demo_run.server.find_run("demo", "r1")
    assert stored.status == before.status


@pytest.mark.parametrize("anchor", [None, ANCHOR])
async def test_run_is_shown_without_description_when_there_is_no_anchor_or_no_engine(
    tmp_path: Path, anchor: str | None
) -> None:
    engine = None if anchor else SeenEngine()
    async with serve(tmp_path, engine=engine) as server, server.client() as client:
        await submit_run(client)
        mark_running(tmp_path, anchor=anchor)
        status = (await client.get(RUN, params={"describe": "true"})).json()["status"]
        assert not {"k8s", "k8s_error"} & status.keys()
        assert engine is None or engine.calls == []


@pytest.mark.parametrize(
    ("error", "reason", "message"),
    [
        (EngineUnavailable("engine.timeout", "no answer"), "engine.timeout", "no answer"),
        (RuntimeError("password=1234"), "engine.failed", "the call failed: RuntimeError"),
    ],
)
async def test_run_is_shown_with_the_reason_when_the_engine_fails(
    demo_run: Demo, error: Exception, reason: str, message: str
) -> None:
    demo_run.engine.failures.append(error)  # type: ignore[arg-type] # one that the port does not name, too
    status = await demo_run.describe()
    assert status["state"] == "RUNNING"
    assert "k8s" not in status
    assert status["k8s_error"] == {"reason": reason, "message": message}


async def test_run_is_shown_with_the_reason_when_it_lives_in_another_place(demo_run: Demo, tmp_path: Path) -> None:
    mark_running(tmp_path, place="memory/b")
    message = "run r1 lives in memory/b; this server's engine acts in memory/a and cannot reach it"
    assert (await demo_run.describe())["k8s_error"] == {"reason": "place.other", "message": message}
    usage = await demo_run.client.get(f"{RUN}/usage")
    assert (usage.status_code, usage.json()["errorCode"], usage.json()["message"]) == (400, "place.other", message)
    assert demo_run.engine.calls == []


async def test_run_is_shown_with_the_reason_when_the_engine_does_not_answer(
    demo_run: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_views, "VIEW_SECONDS", 0.05)

    async def hang(_point: str) -> None:
        await asyncio.Event().wait()

    demo_run.engine.at = hang
    status = await demo_run.describe()
    assert status["k8s_error"] == {
        "reason": "engine.timeout",
        "message": "the engine did not answer within 0.05 s",
    }


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ({"a": "x" * (LARGEST_DESCRIPTION_BYTES - 8)}, None),
        ({"a": "x" * (LARGEST_DESCRIPTION_BYTES - 7)}, "the description has more than 4 MiB"),
        ({"a": ["é" * 100] * 30_000}, "the description has more than 4 MiB"),
        ({"a": float("nan")}, "the description is not JSON: ValueError"),
        ({"a": object()}, "the description is not JSON: TypeError"),
    ],
    ids=["largest", "larger", "in UTF-8", "nan", "object"],
)
async def test_description_is_left_out_when_it_is_too_large_or_no_json(
    demo_run: Demo, objects: Any, message: str | None
) -> None:
    demo_run.engine.objects = objects
    status = await demo_run.describe()
    if message is None:
        assert status["k8s"] == objects
    else:
        assert status["k8s_error"] == {"reason": "engine.failed", "message": message}


async def test_engine_is_asked_for_few_views_at_a_time_when_many_are_wanted(demo_run: Demo) -> None:
    busy, most, gate = 0, 0, asyncio.Event()

    async def count(_point: str) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await gate.wait()
        busy -= 1

    demo_run.engine.at = count
    asked = [asyncio.ensure_future(demo_run.describe()) for _ in range(20)]
    async with asyncio.timeout(60):
        while busy < engine_views.VIEWS_AT_ONCE:  # noqa: ASYNC110 - until the requests are there
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    gate.set()
    assert ["k8s" in status for status in await asyncio.gather(*asked)] == [True] * 20
    assert most == engine_views.VIEWS_AT_ONCE


async def test_usage_is_listed_when_the_engine_measures_it(demo_run: Demo) -> None:
    demo_run.engine.usage = [
        Usage(at=NOON, pod="r1-0", container="main", cpu_cores=0.25, memory_bytes=1 << 20),
        Usage(at=NOON, pod="r1-0", container="side"),
    ]
    answer = await demo_run.client.get(f"{RUN}/usage")
    assert answer.status_code == 200, answer.text
    at = "2026-11-15T12:00:00.000000Z"
    assert answer.json() == {
        "run": "r1",
        "containers": [
            {"pod": "r1-0", "container": "main", "at": at, "cpu_cores": 0.25, "memory_bytes": 1 << 20},
            {"pod": "r1-0", "container": "side", "at": at},
        ],
    }


async def test_usage_is_summed_up_when_it_is_asked_for_as_digitalhub_does(demo_run: Demo) -> None:
    demo_run.engine.usage = [
        Usage(at=NOON, pod="r1-0", container="main", cpu_cores=0.25, memory_bytes=1 << 20),
        Usage(at=NOON, pod="r1-0", container="side", cpu_cores=0.5, memory_bytes=1),
        Usage(at=NOON, pod="r1-1", container="main"),
    ]
    demo_run.engine.disk_bytes = 1 << 30
    amounts = {"pods": 2, "containers": 3, "cpu": 0.75, "memory": (1 << 20) + 1, "disk": 1 << 30}
    answer = await demo_run.client.get(f"{RUN}/metrics/k8s")
    counts = {"counted_runs": 1, "total_runs": 1}
    assert (answer.status_code, answer.json()) == (200, {"name": "r1", "usage": amounts, **counts})
    answer = await demo_run.client.get("/api/v1/projects/demo/metrics/k8s")
    assert (answer.status_code, answer.json()) == (200, {"name": "demo", "usage": amounts, **counts})


async def test_usage_of_users_and_of_the_server_is_summed_up_when_those_who_may_ask_for_it(tmp_path: Path) -> None:
    engine = SeenEngine()
    engine.usage = [Usage(at=NOON, pod="r1-0", container="main", cpu_cores=0.5, memory_bytes=1 << 20)]
    usage = {"pods": 1, "containers": 1, "cpu": 0.5, "memory": 1 << 20, "disk": 0}
    amounts = {"usage": usage, "counted_runs": 1, "total_runs": 1}
    nothing = {"usage": dict.fromkeys(usage, 0), "counted_runs": 0, "total_runs": 0}
    mine, all_of_it = "/api/v1/users/me/metrics/k8s", "/api/v1/metrics/k8s"
    async with serve(tmp_path, is_open=False, engine=engine) as server:
        for name in ("ada", "bob"):
            await server.add_user(name)
        await server.add_user("root", is_admin=True)
        async with server.client("ada") as ada, server.client("bob") as bob, server.client("root") as root:
            await submit_run(ada)
            mark_running(tmp_path)
            assert (await ada.post("/api/v1/projects/demo/share?user=bob&role=editor")).is_success
            assert (await ada.get(mine)).json() == {"name": "ada", **amounts}
            assert (await bob.get(mine)).json() == {"name": "bob", **nothing}
            assert (await root.get(all_of_it)).json() == {"name": "runyard", **amounts}
            mark_running(tmp_path, state="COMPLETED")
            assert (await ada.get(mine)).json() == {"name": "ada", **nothing}
            assert (await root.get(all_of_it)).json() == {"name": "runyard", **nothing}


async def test_usage_is_nothing_when_the_run_has_ended_meanwhile(demo_run: Demo, tmp_path: Path) -> None:
    demo_run.engine.failures = [EngineRefusal("run.not_running", "it has ended")]
    nothing = {"pods": 0, "containers": 0, "cpu": 0, "memory": 0, "disk": 0}
    answer = await demo_run.client.get(f"{RUN}/metrics/k8s")
    assert (answer.status_code, answer.json()) == (
        200,
        {"name": "r1", "usage": nothing, "counted_runs": 1, "total_runs": 1},
    )
    mark_running(tmp_path, state="COMPLETED")
    for path, name in ((RUN, "r1"), ("/api/v1/projects/demo", "demo")):
        answer = await demo_run.client.get(f"{path}/metrics/k8s")
        assert (answer.status_code, answer.json()) == (
            200,
            {"name": name, "usage": nothing, "counted_runs": 0, "total_runs": 0},
        )
    assert demo_run.engine.calls == ["list_usage"]


async def _run_more(demo_run: Demo, folder: Path, *, last: int) -> None:
    """Runs r2 to that one, which run."""
    for number in range(2, last + 1):
        body = {
            "kind": "container+job:run",
            "id": f"r{number}",
            "spec": {"task": "container+job://demo/t1"},
            "metadata": {"description": "hoard"},
        }
        assert (await demo_run.client.post("/api/v1/-/demo/runs", json=body)).status_code == 200
        mark_running(folder, f"r{number}", anchor=f"anchor-{number}")


async def test_sum_says_how_many_runs_it_leaves_out_when_there_are_too_many(
    demo_run: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _run_more(demo_run, tmp_path, last=4)
    mark_running(tmp_path, "r4", anchor=None)  # its client executes it
    monkeypatch.setattr(engine_views, "MOST_SUMMED_RUNS", 2)
    demo_run.engine.usage = [Usage(at=NOON, pod="pod", container="main", cpu_cores=0.5, memory_bytes=1)]
    for path in SUMS:
        answer = (await demo_run.client.get(path)).json()
        assert (answer["usage"]["containers"], answer["counted_runs"], answer["total_runs"]) == (2, 2, 3), path


async def test_documents_of_runs_are_not_read_when_their_usage_is_summed_up(
    demo_run: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand runs with large metadata would take hundreds of megabytes."""
    await _run_more(demo_run, tmp_path, last=3)
    parsed = record_parsed(monkeypatch)
    for path in SUMS:
        assert (await demo_run.client.get(path)).status_code == 200
    assert demo_run.engine.calls.count("list_usage") == 3 * len(SUMS)
    assert not [document for document in parsed if "hoard" in document]


@pytest.mark.parametrize("engine", [None, MemoryEngine()])
async def test_no_run_is_read_for_a_sum_when_the_engine_does_not_measure(
    tmp_path: Path, engine: MemoryEngine | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise AssertionError("runs were read")

    monkeypatch.setattr(SqlRuns, "list_running", refuse)
    monkeypatch.setattr(SqlRuns, "find_page", refuse)
    async with serve(tmp_path, engine=engine) as server, server.client() as client:
        await submit_run(client)
        for path in SUMS:
            assert (await client.get(path)).status_code == 501


def test_sums_take_the_turns_of_pages_when_a_user_asks_for_many() -> None:
    declared = [
        *usage_routes.routes.declared,
        *usage_routes.project_routes.declared,
        *usage_routes.user_routes.declared,
        *usage_routes.instance_routes.declared,
    ]
    sums = {route.path: route.has_many for route in declared if route.path.endswith("/k8s")}
    assert len(sums) == 4
    assert all(sums.values())


async def test_sum_of_a_project_is_missing_when_the_project_does_not_exist(demo_run: Demo) -> None:
    project = await demo_run.client.get("/api/v1/projects/nope")
    usage = await demo_run.client.get("/api/v1/projects/nope/metrics/k8s")
    assert (usage.status_code, usage.json()["message"]) == (404, project.json()["message"])
    assert demo_run.engine.calls == []


async def test_usage_is_cut_when_the_engine_lists_too_many(demo_run: Demo) -> None:
    demo_run.engine.usage = [Usage(at=NOON, pod=f"r1-{number}", container="main") for number in range(1001)]
    assert len((await demo_run.client.get(f"{RUN}/usage")).json()["containers"]) == 1000


@pytest.mark.parametrize(
    ("engine", "status", "code", "message"),
    [
        (None, 501, "engine.none", "this server has no engine: ask an operator to configure one"),
        (MemoryEngine(), 501, "engine.cannot", "the engine memory of this server does not support usage"),
    ],
)
async def test_usage_is_not_supported_when_the_engine_does_not_measure(
    tmp_path: Path, engine: MemoryEngine | None, status: int, code: str, message: str
) -> None:
    async with serve(tmp_path, engine=engine) as server, server.client() as client:
        await submit_run(client)
        mark_running(tmp_path)
        answer = await client.get(f"{RUN}/usage")
        assert (answer.status_code, answer.json()["errorCode"], answer.json()["message"]) == (status, code, message)


async def test_usage_is_refused_when_the_run_does_not_run(demo_run: Demo, tmp_path: Path) -> None:
    for state, anchor in (("READY", None), ("PENDING", ANCHOR), ("COMPLETED", ANCHOR), ("RUNNING", None)):
        mark_running(tmp_path, state=state, anchor=anchor)
        answer = await demo_run.client.get(f"{RUN}/usage")
        assert answer.status_code == 400
        assert answer.json()["errorCode"] == "run.not_running"
        assert answer.json()["message"] == f"run r1 is {state}; only a RUNNING run has containers"
    assert (await demo_run.client.get("/api/v1/-/demo/runs/r2/usage")).status_code == 404
    assert demo_run.engine.calls == []


async def test_usage_is_unavailable_when_the_engine_fails(demo_run: Demo) -> None:
    demo_run.engine.failures.append(EngineUnavailable("engine.timeout", "no answer"))
    answer = await demo_run.client.get(f"{RUN}/usage")
    assert (answer.status_code, answer.json()["errorCode"]) == (503, "engine.timeout")


async def test_engine_is_summarized_when_an_admin_asks(demo_run: Demo) -> None:
    unseen = Unseen(what="pods of other namespaces", missing="list pods in all namespaces")
    stale = Unseen(what="changes of nodes", missing="no answer", since="2026-11-15T11:00:00Z")
    demo_run.engine.seen = replace(demo_run.engine.seen, nodes=NODES, pods=({},) * 3, unseen=(unseen, stale))
    answer = await demo_run.client.get("/api/v1/engine")
    assert answer.json() == {
        "engine": "memory",
        "place": "memory/a",
        "capabilities": ["exec", "attach", "portforward", "usage"],
        "snapshot": {
            "at": "2026-11-15T12:00:00Z",
            "nodes": 5,
            "pods": 3,
            "allocatable": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"},
            "unseen": [
                {"what": unseen.what, "missing": unseen.missing},
                {"what": stale.what, "missing": stale.missing, "since": stale.since},
            ],
        },
    }


async def test_snapshot_is_taken_once_when_many_ask_within_seconds(
    demo_run: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.gather(*(demo_run.client.get("/api/v1/engine") for _ in range(10)))
    assert demo_run.engine.calls == ["snapshot"]
    monkeypatch.setattr(engine_views, "SNAPSHOT_SECONDS", 0.0)
    await demo_run.client.get("/api/v1/engine")
    assert demo_run.engine.calls == ["snapshot"] * 2


async def test_engine_is_shown_with_the_error_when_it_has_no_snapshot(demo_run: Demo) -> None:
    demo_run.engine.failures.append(EngineUnavailable("engine.failed", "the cluster is away"))
    answer = await demo_run.client.get("/api/v1/engine")
    assert answer.status_code == 200
    assert answer.json()["error"] == {"reason": "engine.failed", "message": "the cluster is away"}
    assert "snapshot" not in answer.json()


async def test_engine_is_shown_without_snapshot_when_the_user_is_no_admin(tmp_path: Path) -> None:
    engine = SeenEngine()
    async with serve(tmp_path, engine=engine, is_open=False) as server:
        await server.add_user("ada")
        async with server.client("ada") as client:
            answer = await client.get("/api/v1/engine")
    assert answer.json() == {
        "engine": "memory",
        "place": "memory/a",
        "capabilities": ["exec", "attach", "portforward", "usage"],
    }
    assert engine.calls == []


@pytest.mark.parametrize("engine", [None, MemoryEngine()])
async def test_no_capability_is_named_when_the_engine_has_none(tmp_path: Path, engine: MemoryEngine | None) -> None:
    async with serve(tmp_path, engine=engine) as server, server.client() as client:
        shown = (await client.get("/api/v1/engine")).json()
    assert (shown["engine"], shown["capabilities"]) == ("memory" if engine else None, [])


def test_only_so_many_resources_are_added_up_when_nodes_name_many() -> None:
    nodes = tuple({"status": {"allocatable": {f"example.com/r{number}": "1"}}} for number in range(200))
    assert len(sum_allocatable(Snapshot(at="", nodes=nodes))) == 100


async def test_orphans_are_listed_for_admins_when_a_sweep_found_some(demo_run: Demo) -> None:
    place = str(demo_run.engine.place)
    answer = await demo_run.client.get("/api/v1/engine/orphans")
    assert answer.json() == {"place": place, "at": None, "is_on": True, "count": 0, "orphans": []}
    orphan = Orphan(
        uid="a", run_uid="u", run_id="old", project="p", verdict=Verdict.REPORT, message="no run has this uid"
    )
    findings = SweepFindings(place=place, at="2026-11-15T12:00:00Z", is_on=True, count=1, orphans=(orphan,))
    await write_findings(demo_run.server.core, findings)
    answer = await demo_run.client.get("/api/v1/engine/orphans")
    assert answer.json() == {
        "place": place,
        "at": "2026-11-15T12:00:00Z",
        "is_on": True,
        "count": 1,
        "orphans": [
            {
                "uid": "a",
                "run_uid": "u",
                "run_id": "old",
                "project": "p",
                "verdict": "report",
                "message": "no run has this uid",
            }
        ],
    }


async def test_there_are_no_orphans_when_there_is_no_engine(tmp_path: Path) -> None:
    async with serve(tmp_path, engine=None) as server, server.client() as client:
        answer = await client.get("/api/v1/engine/orphans")
        assert answer.json() == {"place": None, "at": None, "is_on": True, "count": 0, "orphans": []}


async def test_usage_of_a_project_is_refused_when_the_engine_is_slow(
    demo_run: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of a thousand runs might take seconds."""
    await _run_more(demo_run, tmp_path, last=13)
    demo_run.engine.usage = [Usage(at=NOON, pod="pod", container="main", cpu_cores=0.5, memory_bytes=1)]
    path = "/api/v1/projects/demo/metrics/k8s"
    amounts = (await demo_run.client.get(path)).json()["usage"]
    assert amounts == {"pods": 13, "containers": 13, "cpu": 6.5, "memory": 13, "disk": 0}
    busy = most = 0

    async def wait(_call: str) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        try:
            await asyncio.sleep(0.5)
        finally:
            busy -= 1

    demo_run.engine.at = wait
    monkeypatch.setattr(engine_views, "SUM_SECONDS", 1.0)
    answer = await demo_run.client.get(path)
    assert (answer.status_code, answer.json()["errorCode"]) == (503, "engine.timeout")
    assert "of 13 runs within 1 s; ask for that of single runs" in answer.json()["message"]
    assert most == engine_views.SUMMED_AT_ONCE
