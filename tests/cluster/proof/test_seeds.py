"""Every snippet of the texts that Runyard began with, through the API to a real pod.

All runs are submitted at once; each test then reads what the container of one of them said of itself, and its pod.
"""

import asyncio
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.yaml.loader import load_documents
from testbed.cluster import Cluster
from testbed.pytest_plugin import SESSION_GPUS
from tests.cluster.proof.container_report import ContainerReport, make_inspection, read_report
from tests.cluster.proof.proof_core import (
    DEFAULT_USER,
    Json,
    ProofProject,
    get_run_id,
    open_project,
    run_proof_core,
)
from tests.cluster.proof.snippet_proofs import (
    LARGE,
    NODE_LABELS,
    PROFILES,
    PROOFS,
    REFUSED_FLATTENED,
    SECRETS,
    Expected,
    scale_down,
)
from tests.core_process import CoreProcess
from tests.unit.cli.snippets import list_flattened, list_snippets, read_snippet

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

PAGE_BYTES = 4096
"""The unit of a cgroup's memory limit."""
FLATTENED = sorted({*list_flattened()} - {*REFUSED_FLATTENED})


@dataclass(slots=True)
class Outcome:
    """What became of a run."""

    run: Json
    """As the API shows it at the end; of a run that waits, while it waited."""
    report: ContainerReport | None = None
    pod: Json = field(default_factory=dict)
    claims: list[Json] = field(default_factory=list)


@dataclass(slots=True)
class Proven:
    """What became of all snippets."""

    outcomes: dict[str, Outcome]
    """By name; `scaled/` before it if it was scaled down, `unlabelled/` while no node had its label."""
    refusals: dict[str, Json]
    allocatable: dict[str, Quantity]

    def is_too_large(self, name: str) -> bool:
        """Whether the machine lacks what a snippet asks for as it is written."""
        expected = PROOFS[name]
        has_cpu = (expected.cpu_millis or 0) <= self.allocatable["cpu"].milli_value
        return not has_cpu or (expected.memory_bytes or 0) > self.allocatable["memory"].value


class Prover:
    """Brings the snippets to pods."""

    def __init__(self, project: ProofProject) -> None:
        self._project = project
        self._ids: dict[str, str] = {}

    async def prove(self) -> Proven:
        project = self._project
        await project.set_secrets(SECRETS)
        node = json.loads(project.cluster.kubectl("get", "node", project.cluster.node_name, "-o", "json"))
        allocatable = {name: Quantity.parse(text) for name, text in node["status"]["allocatable"].items()}
        proven = Proven({}, {}, allocatable)
        for name in list_snippets():
            await self._submit(name)
        for name in LARGE:
            await self._submit_scaled(name)
        for name in list_flattened():
            await self._submit_flattened(name, proven)
        await self._see_waiting(proven)
        labels = [f"{key}={value}" for key, value in NODE_LABELS.items()]
        project.cluster.kubectl("label", "node", project.cluster.node_name, "--overwrite", *labels)
        for run_id, run in (await project.finish([*self._ids.values()])).items():
            report = read_report(await project.read_log(run_id))
            proven.outcomes[self._get_name(run_id)] = Outcome(run, report)
        await self._read_objects(proven)
        return proven

    async def _submit(self, name: str) -> None:
        """As it is written: a snippet of YAML byte for byte, a call of the SDK as the document that it sends."""
        run_id = self._name(name)
        more: dict[str, Any] = {"command": "sh", "args": make_inspection(*_list_paths(PROOFS[name]))}
        if name.endswith(".py"):
            spec = {**_read_call(name), **more}
            await self._project.submit(self._project.make_run(run_id, **spec))
            return
        answer = await self._project.post_yaml(run_id, read_snippet(name).decode(), **more)
        assert answer.status_code == 200, f"{name}: {answer.text}"

    async def _submit_scaled(self, name: str) -> None:
        fields = _read_call(name) if name.endswith(".py") else load_documents(read_snippet(name))[0].data
        more: dict[str, Any] = {"command": "sh", "args": make_inspection(*_list_paths(PROOFS[name]))}
        run_id = self._name(f"scaled/{name}")
        await self._project.submit(self._project.make_run(run_id, **scale_down(fields), **more))

    async def _submit_flattened(self, name: str, proven: Proven) -> None:
        run_id = self._name(f"flattened/{name}")
        text = read_snippet(f"flattened/{name}").decode()
        answer = await self._project.post_yaml(run_id, text, command="sh", args=make_inspection())
        if name in REFUSED_FLATTENED:
            del self._ids[f"flattened/{name}"]
            proven.refusals[name] = {"status": answer.status_code, **answer.json()}
        else:
            assert answer.status_code == 200, f"{name}: {answer.text}"

    async def _see_waiting(self, proven: Proven) -> None:
        """Runs that no node takes: what they are told. Those that never will be taken are stopped and deleted."""
        large = [name for name in LARGE if proven.is_too_large(name)]
        selecting = [name for name, expected in PROOFS.items() if expected.node_selector]
        runs = await self._project.wait_for_all([self._ids[name] for name in (*large, *selecting)], _is_told)
        for name in large:
            proven.outcomes[name] = Outcome(runs[self._ids[name]])
        for name in selecting:
            proven.outcomes[f"unlabelled/{name}"] = Outcome(runs[self._ids[name]])
        for name in large:
            await self._project.stop(self._ids[name])
        await self._project.delete([self._ids.pop(name) for name in large])

    async def _read_objects(self, proven: Proven) -> None:
        for pod in await self._project.list_objects("pods"):
            proven.outcomes[self._get_name(get_run_id(pod))].pod = pod
        for claim in await self._project.list_objects("persistentvolumeclaims"):
            proven.outcomes[self._get_name(get_run_id(claim))].claims.append(claim)

    def _get_name(self, run_id: str) -> str:
        return next(name for name, named in self._ids.items() if named == run_id)

    def _name(self, name: str) -> str:
        self._ids[name] = name.replace("/", "-").replace(".", "-")
        return self._ids[name]


def _is_told(status: Json) -> bool:
    """Whether the run knows that no node takes it."""
    return str(status.get("reason")).startswith(("placement.", "resources."))


def _list_paths(expected: Expected) -> list[str]:
    return [*expected.claims, *expected.scratch]


def _read_call(name: str) -> dict[str, Any]:
    """What a call of the SDK sends, without the function and task of its document."""
    spec: dict[str, Any] = json.loads(read_snippet(name))["spec"]
    return {key: value for key, value in spec.items() if key not in ("task", "function", "local_execution")}


@pytest.fixture(scope="module")
def core(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoreProcess]:
    with run_proof_core(cluster, tmp_path_factory.mktemp("core"), profiles={"1xa100.yaml": PROFILES}) as core:
        yield core


@pytest.fixture(scope="module")
def proven(cluster: Cluster, core: CoreProcess) -> Iterator[Proven]:
    async def prove() -> Proven:
        async with open_project(cluster, core) as project:
            return await Prover(project).prove()

    try:
        yield asyncio.run(prove())
    finally:
        cluster.kubectl("label", "node", cluster.node_name, *(f"{key}-" for key in NODE_LABELS))


def check_pod(outcome: Outcome, expected: Expected) -> None:
    """The pod asks for what is expected, and for nothing else."""
    spec = outcome.pod["spec"]
    (container,) = spec["containers"]
    requests, limits = container["resources"].get("requests", {}), container["resources"].get("limits", {})
    cpu, memory, gpu = expected.cpu_millis, expected.memory_bytes, expected.gpus
    assert _read_amounts(requests) == _leave_blanks_out(
        {"cpu": cpu and cpu / 1000, "memory": memory, "nvidia.com/gpu": gpu or None}
    )
    limit = expected.cpu_limit_millis
    assert _read_amounts(limits) == _leave_blanks_out(
        {"cpu": limit and limit / 1000, "memory": expected.memory_limit_bytes, "nvidia.com/gpu": gpu or None}
    )
    assert spec.get("nodeSelector", {}) == expected.node_selector
    context = spec["securityContext"]
    assert context["runAsUser"] == (expected.user or DEFAULT_USER)
    assert context["runAsGroup"] == (expected.group or DEFAULT_USER)
    assert context.get("fsGroup") == expected.fs_group
    assert context["runAsNonRoot"] is True


def check_container(outcome: Outcome, expected: Expected) -> None:
    """The container has what is expected, as its kernel and its environment say."""
    report = outcome.report
    assert report is not None
    assert (report.user, report.group) == (expected.user or DEFAULT_USER, expected.group or DEFAULT_USER)
    assert report.groups == {report.group} | ({expected.fs_group} if expected.fs_group else set())
    assert expected.envs.items() <= report.envs.items()
    assert report.envs["RUN_ID"] == outcome.run["id"]
    limit = expected.memory_limit_bytes
    assert report.memory_bytes == (None if limit is None else limit // PAGE_BYTES * PAGE_BYTES)
    cpu_limit = expected.cpu_limit_millis
    assert report.cpu_limit == (None if cpu_limit is None else cpu_limit / 1000)
    assert len({*report.gpus}) == len(report.gpus) == expected.gpus
    assert all(gpu.startswith("GPU-") for gpu in report.gpus)
    if report.cpu_shares is not None:
        assert report.cpu_shares == max(2, math.floor((expected.cpu_millis or 0) * 1024 / 1000))


def check_volumes(outcome: Outcome, expected: Expected) -> None:
    """The volumes are claims of that size, mounted and writable."""
    assert outcome.report is not None
    sizes = sorted(claim["spec"]["resources"]["requests"]["storage"] for claim in outcome.claims)
    assert sizes == sorted([*expected.claims.values(), *expected.scratch.values()])
    for claim in outcome.claims:
        assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
        assert claim["status"]["phase"] == "Bound"
    for path in _list_paths(expected):
        assert outcome.report.find_mount(path) is not None
        assert outcome.report.get_written(path)[0] == "written"


def _read_amounts(amounts: dict[str, str]) -> dict[str, float]:
    return {name: Quantity.parse(text).milli_value / 1000 for name, text in amounts.items()}


def _leave_blanks_out(amounts: dict[str, Any]) -> dict[str, float]:
    return {name: float(amount) for name, amount in amounts.items() if amount is not None}


def test_every_snippet_has_a_proof_when_one_is_added() -> None:
    assert sorted(PROOFS) == list_snippets()
    assert {*REFUSED_FLATTENED} < {*list_flattened()}
    assert len(PROOFS) == 35


@pytest.mark.parametrize("name", sorted({*PROOFS} - {*LARGE}))
def test_pod_and_container_have_what_the_snippet_says_when_it_runs_as_written(proven: Proven, name: str) -> None:
    outcome, expected = proven.outcomes[name], PROOFS[name]
    check_pod(outcome, expected)
    check_container(outcome, expected)
    check_volumes(outcome, expected)


@pytest.mark.parametrize("name", LARGE)
def test_pod_and_container_have_what_the_snippet_says_when_it_is_scaled_down(proven: Proven, name: str) -> None:
    outcome, expected = proven.outcomes[f"scaled/{name}"], PROOFS[name].scale_down()
    check_pod(outcome, expected)
    check_container(outcome, expected)
    check_volumes(outcome, expected)


@pytest.mark.parametrize("name", LARGE)
def test_run_waits_and_figures_are_named_when_the_machine_is_too_small_for_it_as_written(
    proven: Proven, name: str
) -> None:
    outcome, expected = proven.outcomes[name], PROOFS[name]
    if not proven.is_too_large(name):
        check_pod(outcome, expected)
        check_container(outcome, expected)
        return
    status = outcome.run["status"]
    assert (status["state"], status["reason"]) == ("PENDING", "resources.waiting")
    # Other runs may hold the GPUs meanwhile, so the node may lack those as well.
    message = status["message"].replace("; 1 has too little nvidia.com/gpu free", "")
    assert message == describe_wait(proven, expected)


def describe_wait(proven: Proven, expected: Expected) -> str:
    """What a run is told that no machine of this size can run."""
    lacks_cpu = (expected.cpu_millis or 0) > proven.allocatable["cpu"].milli_value
    lacks_memory = (expected.memory_bytes or 0) > proven.allocatable["memory"].value
    lacks = [f"1 has too little {name} free" for name, lacks in (("CPU", lacks_cpu), ("memory", lacks_memory)) if lacks]
    asks = {
        "cpu": expected.cpu_millis and expected.cpu_millis // 1000,
        "memory": expected.memory_bytes and f"{expected.memory_bytes >> 30}Gi",
        "nvidia.com/gpu": expected.gpus or None,
    }
    told = ", ".join(f"{name} {amount}" for name, amount in asks.items() if amount is not None)
    return f"no node fits (1 node): {'; '.join(lacks)}; the run requests {told}"


@pytest.mark.parametrize("name", sorted(name for name, expected in PROOFS.items() if expected.node_selector))
def test_run_waits_when_no_node_has_the_label_that_it_selects(proven: Proven, name: str) -> None:
    status = proven.outcomes[f"unlabelled/{name}"].run["status"]
    assert (status["state"], status["reason"]) == ("PENDING", "placement.unmatched")
    assert status["message"] == "no node fits (1 node): 1 does not match node_selector or affinity"


@pytest.mark.parametrize("name", FLATTENED)
def test_pod_and_container_have_what_the_snippet_says_when_it_had_no_indentation_to_lose(
    proven: Proven, name: str
) -> None:
    outcome, expected = proven.outcomes[f"flattened/{name}"], PROOFS[name]
    check_pod(outcome, expected)
    check_container(outcome, expected)


@pytest.mark.parametrize("name", sorted(REFUSED_FLATTENED))
def test_run_is_refused_with_its_cause_when_the_snippet_lost_its_indentation(proven: Proven, name: str) -> None:
    refusal = proven.refusals[name]
    assert refusal["status"] == 400
    for lost in REFUSED_FLATTENED[name]:
        assert f"`{lost}` belongs under `resources`" in refusal["message"]
    if not REFUSED_FLATTENED[name]:
        assert "indentation" in refusal["message"]


async def test_gpu_runs_share_no_device_and_the_next_waits_when_they_hold_too_many(
    cluster: Cluster, core: CoreProcess
) -> None:
    """Three runs hold one GPU each, so that at most one is left, and a fourth asks for one more than that."""
    more: dict[str, Any] = {"command": "sh", "args": ["-c", "echo $NVIDIA_VISIBLE_DEVICES; exec sleep 600"]}
    async with open_project(cluster, core) as project:
        for name in ("000-gpu.yaml", "002-gpu.yaml"):
            await project.post_yaml(name[:3], read_snippet(name).decode(), **more)
        await project.submit(project.make_run("sdk", **_read_call("002-gpu.py"), **more))
        held = {run_id: await _read_gpus(project, run_id) for run_id in ("000", "002", "sdk")}
        assert [len(ids) for ids in held.values()] == [1, 1, 1]
        assert len({*itertools.chain(*held.values())}) == SESSION_GPUS - 1

        await project.submit(project.make_run("next", resources={"gpu": 2}, **more))
        waiting = await project.wait_until("next", _is_told)
        assert (waiting["status"]["state"], waiting["status"]["reason"]) == ("PENDING", "resources.waiting")
        assert waiting["status"]["message"] == (
            "no node fits (1 node): 1 has too little nvidia.com/gpu free; the run requests nvidia.com/gpu 2"
        )
        await project.stop("000")
        given = await _read_gpus(project, "next")
        assert len({*given}) == len(given) == 2
        assert not {*given} & {*held["002"], *held["sdk"]}


async def _read_gpus(project: ProofProject, run_id: str) -> list[str]:
    """The ids of its GPUs, which the program of a run prints."""
    return (await project.wait_for_output(run_id)).strip().split(",")
