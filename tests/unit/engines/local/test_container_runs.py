import json
from pathlib import Path
from typing import Any

import pytest

from runyard.app.engine import EngineRefusal
from runyard.domain.reasons import Reason
from runyard.engines.local import container_runs
from runyard.engines.local.capacity.machine import Gpu
from runyard.engines.local.container_runs import ContainerRuns, choose_container_identity, name_container
from runyard.engines.local.containers import ContainerRuntime, RuntimeMissing
from runyard.engines.local.folders.place import open_place
from runyard.engines.local.pod_plans import AdmittedRun, Owner, Paths, PlanInputs
from runyard.procs import Identity, Plan

_RUNTIME = ContainerRuntime(program="podman", path="/usr/bin/podman", version="4.3.1", place_uid="p", memory=Path("/m"))
_PATHS = Paths(
    work=Path("/r/work"),
    temporary=Path("/r/tmp"),
    termination=Path("/r/termination"),
    volumes=Path("/r/volumes"),
    run_claims=Path("/r/claims"),
    kept_volumes=Path("/p/volumes"),
)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ContainerRuns:
    monkeypatch.setattr(container_runs, "find_runtime", lambda *_, **__: _RUNTIME)
    monkeypatch.setattr(container_runs, "has_image", lambda *_: True)
    return ContainerRuns(open_place(tmp_path / "place"))


def _admit(container: dict[str, Any], **pod: Any) -> AdmittedRun:
    spec = {"template": {"spec": {"containers": [{"image": "busybox:1.36", **container}], **pod}}, "backoffLimit": 2}
    secrets = {"run-secret": {"KEY": "v4lue", "FILE": "c0ntent"}}
    return AdmittedRun(workload={"kind": "Job", "spec": spec}, secrets=secrets, config_maps={"cfg": {"a": "b"}})


def _plan(
    runs: ContainerRuns, run: AdmittedRun, *, gpus: tuple[Gpu, ...] = ()
) -> tuple[Plan, dict[str, Any], list[str]]:
    inputs = PlanInputs(run=run, identity=Identity(uid=7, gid=8), paths=_PATHS, log_bytes=1000, processes=99)
    plan, warnings = runs.plan(inputs, run_uid="u1", release=3, gpus=gpus)
    assert plan.main.stdin is not None
    return plan, json.loads(plan.main.stdin), warnings


def _options(order: dict[str, Any], name: str) -> list[str]:
    argv = order["argv"]
    return [argv[index + 1] for index, part in enumerate(argv) if part == name]


def test_variables_are_expanded_and_secrets_known_when_a_pod_has_them(runs: ContainerRuns) -> None:
    reference = {"secretKeyRef": {"name": "run-secret", "key": "KEY"}}
    env = [{"name": "KEY", "valueFrom": reference}, {"name": "A", "value": "x"}, {"name": "B", "value": "$(A)-$$(A)"}]
    _, order, _ = _plan(runs, _admit({"env": env, "command": ["echo", "$(B)"], "args": ["$(NONE)"]}))
    assert order["files"][0]["text"] == "KEY=v4lue\nA=x\n"
    assert _options(order, "--env") == ["B=x-$(A)"]
    assert order["argv"][-2:] == ["x-$(A)", "$(NONE)"]
    assert "v4lue" not in str(order["argv"])


def test_every_kind_of_volume_is_mounted_when_a_pod_has_them(runs: ContainerRuns) -> None:
    secret = {"secretName": "run-secret", "defaultMode": 0o440, "items": [{"key": "FILE", "path": "FILE"}]}
    volumes = [
        {"name": "s", "secret": secret},
        {"name": "c", "configMap": {"name": "cfg"}},
        {"name": "d", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "k", "persistentVolumeClaim": {"claimName": "kept"}},
        {"name": "i", "image": {"reference": "acme/model:1", "pullPolicy": "IfNotPresent"}},
    ]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in "cdmki"]
    mounts.append({"name": "s", "mountPath": "/s/file", "subPath": "FILE"})
    _, order, _ = _plan(runs, _admit({"volumeMounts": mounts}, volumes=volumes))
    assert _options(order, "--volume") == [
        "/m/containers/runyard-u1-3/files/0:/c:ro",
        "/r/volumes/d:/d",
        "/p/volumes/kept/data:/k",
        "/m/containers/runyard-u1-3/files/4/FILE:/s/file:ro",
        "/r/termination/message:/dev/termination-log",
    ]
    assert _options(order, "--tmpfs") == ["/m:rw,exec,nosuid,nodev,mode=1777,size=1048576"]
    assert _options(order, "--mount") == ["type=image,source=docker.io/acme/model:1,destination=/i,rw=false"]


def test_job_is_retried_and_limited_when_its_pod_says_so(runs: ContainerRuns) -> None:
    limits = {"limits": {"memory": "64Mi", "cpu": "1500m"}}
    context = {"capabilities": {"drop": ["ALL"]}}
    run = _admit({"resources": limits, "securityContext": context}, terminationGracePeriodSeconds=9)
    plan, order, _ = _plan(runs, run, gpus=(Gpu("GPU-1"),))
    assert (plan.retries, plan.is_restarted, plan.grace_seconds) == (2, False, 9)
    assert plan.termination_path == "/r/termination/message"
    assert plan.steps == ()
    assert _options(order, "--memory") == [f"{64 << 20}b"]
    assert _options(order, "--cpus") == ["1.500"]
    assert _options(order, "--pids-limit") == ["99"]
    assert _options(order, "--cap-drop") == ["all"]
    assert _options(order, "--device") == ["nvidia.com/gpu=GPU-1"]
    assert _options(order, "--user") == ["7:8"]


def test_capabilities_stay_when_the_pod_does_not_drop_them(runs: ContainerRuns) -> None:
    assert _options(_plan(runs, _admit({}))[1], "--cap-drop") == []


def test_names_of_hosts_are_known_when_a_pod_has_aliases(runs: ContainerRuns) -> None:
    aliases = [{"ip": "10.0.0.1", "hostnames": ["db", "db.local"]}]
    assert _options(_plan(runs, _admit({}, hostAliases=aliases))[1], "--add-host") == [
        "db:10.0.0.1",
        "db.local:10.0.0.1",
    ]


def test_ignored_fields_are_said_when_a_pod_has_them(runs: ContainerRuns) -> None:
    _, _, warnings = _plan(runs, _admit({"image": "acme/tool"}, imagePullSecrets=[{"name": "x"}]))
    assert warnings == [
        "image_pull_secrets has no effect: images are pulled with the credentials of the machine",
        "image acme/tool: not pulled again if the machine has it; set image_pull_policy to Always",
    ]


def test_image_is_looked_for_first_when_it_is_not_there(runs: ContainerRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_runs, "has_image", lambda *_: False)
    plan, _, _ = _plan(runs, _admit({}))
    assert [step.name for step in plan.steps] == ["image"]


def test_run_is_refused_with_the_sentence_when_there_is_no_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[Path] = []

    def find(folder: Path, **_: str) -> ContainerRuntime:
        searches.append(folder)
        raise RuntimeMissing("this machine has no container runtime that works: podman is not installed")

    monkeypatch.setattr(container_runs, "find_runtime", find)
    runs = ContainerRuns(open_place(tmp_path / "place"))
    for _ in range(2):
        with pytest.raises(
            EngineRefusal, match="has no container runtime that works: podman is not installed"
        ) as refused:
            _plan(runs, _admit({}))
        assert refused.value.code == Reason.RUNTIME_MISSING
    assert len(searches) == 1, "a missing runtime is not searched again at once"


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({}, None),
        ({"runAsUser": 5}, Identity(uid=5, gid=5)),
        ({"runAsUser": 5, "runAsGroup": 6}, Identity(uid=5, gid=6)),
        ({"runAsGroup": 6}, Identity(uid=1000, gid=6)),
    ],
)
def test_user_is_honoured_when_the_server_is_not_root(context: dict[str, int], expected: Identity | None) -> None:
    owner = Owner(user=1000, groups=frozenset({1000}), project_user=None)
    assert choose_container_identity(_admit({}, securityContext=context), owner) == expected


def test_nothing_is_looked_for_when_no_container_ever_ran(runs: ContainerRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_runs, "find_runtime", None)
    assert runs.remove_strays(is_kept=lambda *_: False) == []


def test_release_is_found_by_the_name_when_containers_are_swept(
    runs: ContainerRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [name_container("u-1", 12), name_container("u-2", 1), "runyard-x", "other-1"]
    asked: list[tuple[str, int]] = []

    def is_kept(run_uid: str, release: int) -> bool:
        asked.append((run_uid, release))
        return run_uid == "u-1"

    def sweep(_: ContainerRuntime, *, is_kept: Any) -> list[str]:
        return [name for name in names if not is_kept(name)]

    monkeypatch.setattr(container_runs, "remove_strays", sweep)
    runs.get_runtime()
    assert runs.remove_strays(is_kept=is_kept) == ["runyard-u-2-1", "runyard-x", "other-1"]
    assert asked[:2] == [("u-1", 12), ("u-2", 1)]
