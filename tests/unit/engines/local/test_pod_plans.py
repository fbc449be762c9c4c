"""An admitted pod in, a plan of `procs` out: as a kubelet would read it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.app.engine import EngineRefusal
from runyard.domain.effective_spec import Disk, EffectiveSpec
from runyard.domain.reasons import Reason
from runyard.engines.local.local_engine import LAUNCHER
from runyard.engines.local.pod_plans import (
    AdmittedRun,
    Owner,
    Paths,
    PlanInputs,
    Preparation,
    choose_identity,
    describe_service,
    expand,
    find_not_enforced,
    list_kept_claims,
    make_plan,
    read_admitted,
)
from runyard.manifests.identity import PlatformInputs, RunIdentity
from runyard.manifests.render import render_run
from runyard.procs import Identity, Mount, Readiness
from runyard.spec.environment import SecretUse
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.resources import Sides
from runyard.spec.services import ServicePort
from runyard.spec.volumes import Volume

FOLDER = Path("/place/runs/r/releases/1")
PATHS = Paths(
    work=FOLDER / "work",
    temporary=FOLDER / "tmp",
    termination=FOLDER / "termination",
    volumes=FOLDER / "volumes",
    run_claims=Path("/place/runs/r/claims"),
    kept_volumes=Path("/place/projects/p/volumes"),
)
SERVER = Owner(user=1000, groups=frozenset({1000, 27}), project_user=None)
ROOT = Owner(user=0, groups=frozenset({0}), project_user=600_000_001)


def make_run(**fields: Any) -> AdmittedRun:
    """A run as `manifests` renders it."""
    spec = EffectiveSpec(**{"kind": "python", "action": "job", "image": "python", "command": ("sh",), **fields})
    platform = PlatformInputs(endpoint="http://localhost:8080", has_token=True, launcher=LAUNCHER)
    identity = RunIdentity(run_id="r1", run_uid="r", project="p", platform=platform)
    values = {use.name: f"value of {use.name}" for use in spec.secrets}
    return read_admitted(render_run(spec, identity, secret_values=values, token="the token"))


def make_inputs(run: AdmittedRun, **fields: Any) -> PlanInputs:
    return PlanInputs(**{"run": run, "identity": None, "paths": PATHS, **fields})


def test_command_runs_with_its_words_and_the_platforms_variables_when_it_has_one() -> None:
    run = make_run(command=("python3", "train.py"), args=("--n", "5"), envs={"COLOUR": "red"})
    main = make_plan(make_inputs(run)).main
    assert main.argv == ("python3", "train.py", "--n", "5")
    assert main.cwd == str(PATHS.work)
    assert {name: main.env[name] for name in ("RUN_ID", "RUNYARD_TOKEN", "COLOUR", "RUNYARD_WORK")} == {
        "RUN_ID": "r1",
        "RUNYARD_TOKEN": "the token",
        "COLOUR": "red",
        "RUNYARD_WORK": str(PATHS.work),
    }
    assert main.env["RUNYARD_TERMINATION_LOG"] == make_plan(make_inputs(run)).termination_path


def test_launcher_starts_the_function_when_it_has_no_command() -> None:
    preparation = Preparation(python="/env/bin/python3", launcher=Path("/place/launcher.pyz"), path=("/env/bin",))
    plan = make_plan(make_inputs(make_run(command=()), preparation=preparation))
    assert plan.main.argv == ("/env/bin/python3", "-u", "/place/launcher.pyz")
    assert plan.main.env["PATH"].startswith("/env/bin:/usr/local/sbin:")
    assert "/place/launcher.pyz" in plan.reachable
    assert plan.mounts == ()


def test_any_port_is_free_to_choose_when_the_launcher_serves() -> None:
    preparation = Preparation(python="/env/bin/python3", launcher=Path("/place/launcher.pyz"))
    run = make_run(command=(), action="serve", service_ports=(ServicePort(port=80, target_port=8080),))
    plan = make_plan(make_inputs(run, preparation=preparation))
    assert plan.ports == {8080: None}
    assert plan.main.env["RUNYARD_PORT"] == "$(PORT_8080)"


def test_run_is_refused_when_it_has_neither_a_command_nor_a_launcher() -> None:
    with pytest.raises(EngineRefusal) as refusal:
        make_plan(make_inputs(make_run(command=())))
    assert refusal.value.code == Reason.START_FAILED


def test_secrets_are_variables_and_files_in_memory_when_a_run_uses_them() -> None:
    uses = (SecretUse(name="KEY"), SecretUse(name="CERT", mount_path="/keys/cert.pem"))
    plan = make_plan(make_inputs(make_run(secrets=uses)))
    assert plan.main.env["KEY"] == "value of KEY"
    assert "CERT" not in plan.main.env
    assert plan.mounts == (
        Mount(
            target="/keys/cert.pem",
            kind="files",
            sub_path="CERT",
            is_read_only=True,
            contents={"CERT": "value of CERT"},
            mode=0o444,
        ),
    )
    assert "value of" not in repr(plan.mounts)


def test_volumes_are_folders_files_and_memory_when_a_run_mounts_them() -> None:
    volumes = (
        Volume(name="kept", type="shared_volume", mount_path="/kept", claim_name="claim", sub_path="a/b"),
        Volume(name="own", type="persistent_volume_claim", mount_path="/own", size=Quantity.parse("1Gi")),
        Volume(name="empty", type="empty_dir", mount_path="/empty"),
        Volume(name="shm", type="empty_dir", mount_path="/dev/shm", size=Quantity.parse("64Mi")),
        Volume(name="config", type="config_map", mount_path="/config", data={"a.yaml": "x: 1"}),
    )
    run = make_run(volumes=volumes, disk=Disk(size=Quantity.parse("1Gi")))
    own = next(iter(run.claims))
    mounts = {mount.target: mount for mount in make_plan(make_inputs(run)).mounts}
    assert mounts["/kept"].source == "/place/projects/p/volumes/claim/data"
    assert mounts["/kept"].sub_path == "a/b"
    assert mounts["/own"].source == f"/place/runs/r/claims/{own}"
    assert mounts["/empty"].source == str(PATHS.volumes / "empty")
    assert mounts["/shared"].source == str(PATHS.volumes / "runyard-scratch")
    assert (mounts["/dev/shm"].kind, mounts["/dev/shm"].size_bytes) == ("tmpfs", 64 << 20)
    assert (mounts["/config"].kind, mounts["/config"].contents) == ("files", {"a.yaml": "x: 1"})
    assert list_kept_claims(run) == ["claim"]


def test_image_volume_is_refused_when_the_run_is_a_process() -> None:
    volume = Volume(name="model", type="image", mount_path="/model", image="models/m:1")
    with pytest.raises(EngineRefusal) as refusal:
        make_plan(make_inputs(make_run(volumes=(volume,))))
    assert refusal.value.code == Reason.MOUNT_IMPOSSIBLE


def test_limits_retries_and_grace_are_the_pods_when_it_has_them() -> None:
    sides = {
        "cpu": Sides(requests=Quantity.parse("1"), limits=Quantity.parse("1500m")),
        "mem": Sides(requests=Quantity.parse("1Gi"), limits=Quantity.parse("2Gi")),
    }
    run = make_run(resources=sides, backoff_limit=2, grace_period_seconds=7)
    plan = make_plan(make_inputs(run, log_bytes=1000, processes=50))
    assert (plan.limits.cpu_millis, plan.limits.memory_bytes) == (1500, 2 << 30)
    assert (plan.limits.log_bytes, plan.limits.processes) == (1000, 50)
    assert (plan.retries, plan.is_restarted, plan.grace_seconds) == (2, False, 7)
    assert make_plan(make_inputs(make_run())).grace_seconds == 30


def test_service_is_restarted_and_has_ports_and_readiness_when_it_serves() -> None:
    ports = (ServicePort(port=80, target_port=9000), ServicePort(port=81, target_port=9001))
    run = make_run(action="serve", service_ports=ports, readiness_path="/healthz")
    plan = make_plan(make_inputs(run))
    assert plan.is_restarted
    assert plan.ports == {9000: 9000, 9001: 9001}
    assert plan.readiness == Readiness(port=9000, path="/healthz", period_seconds=1, timeout_seconds=5)
    assert plan.main.env["RUNYARD_PORT"] == "$(PORT_9000)"
    assert plan.main.env["RUNYARD_HOST"] == "127.0.0.1"
    service = describe_service(run)
    assert service is not None
    assert [(port["port"], port["target_port"]) for port in service["ports"]] == [(80, 9000), (81, 9001)]
    assert describe_service(make_run()) is None


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A) and $(B)", "1 and $(B)"),
        ("$$(A)", "$(A)"),
        ("$A ${A} $()", "$A ${A} $()"),
        ("$(A", "$(A"),
        ("100$$", "100$"),
    ],
)
def test_variables_are_expanded_as_kubelet_does_when_a_text_names_them(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


@pytest.mark.parametrize("field", ["envs", "args"])
def test_run_is_refused_when_its_variables_double_each_other(field: str) -> None:
    envs = {"A00": "x" * 1000} | {
        f"A{n:02}": f"$(A{n - 1:02})$(A{n - 1:02})" for n in range(1, 14 if field == "envs" else 9)
    }
    run = make_run(envs=envs, args=("$(A08)",) * (10 if field == "args" else 0))
    with pytest.raises(EngineRefusal) as refusal:
        make_plan(make_inputs(run))
    assert refusal.value.code == Reason.START_FAILED
    assert "too large once its variables are expanded; allowed: at most 2097152 characters" in str(refusal.value)


def test_user_is_the_projects_own_when_the_server_is_root() -> None:
    assert choose_identity(make_run(), ROOT) == Identity(uid=600_000_001, gid=600_000_001)


def test_user_and_groups_are_those_that_the_run_names_when_the_server_is_root() -> None:
    run = make_run(run_as_user=1234, run_as_group=1235, fs_group=1236)
    assert choose_identity(run, ROOT) == Identity(uid=1234, gid=1235, groups=(1236,))


@pytest.mark.parametrize("field", ["run_as_user", "run_as_group", "fs_group"])
def test_run_is_refused_when_it_names_the_user_of_another_project(field: str) -> None:
    with pytest.raises(EngineRefusal) as refusal:
        choose_identity(make_run(**{field: 600_000_002}), ROOT)
    assert refusal.value.code == Reason.USER_IMPOSSIBLE
    assert f"{field} 600000002 is impossible: it is a number of projects on this machine" in str(refusal.value)
    own = choose_identity(make_run(**{field: 600_000_001}), ROOT)
    assert own is not None
    assert own.uid == 600_000_001


@pytest.mark.parametrize("field", ["run_as_user", "run_as_group", "fs_group"])
def test_run_is_refused_when_it_names_an_account_of_the_machine(field: str) -> None:
    owner = replace(ROOT, accounts={1000: "ada"}, account_groups={1000: "ada"})
    with pytest.raises(EngineRefusal) as refusal:
        choose_identity(make_run(**{field: 1000}), owner)
    assert f"{field} 1000 is impossible: it is a number of ada on this machine" in str(refusal.value)


def test_run_is_refused_when_its_project_has_no_user_and_the_server_is_root() -> None:
    with pytest.raises(EngineRefusal):
        choose_identity(make_run(), replace(ROOT, project_user=None))


def test_user_is_the_servers_own_when_it_is_not_root() -> None:
    assert choose_identity(make_run(), SERVER) is None
    assert choose_identity(make_run(run_as_user=1000, run_as_group=27, fs_group=27), SERVER) is None


@pytest.mark.parametrize("field", ["run_as_user", "run_as_group", "fs_group"])
def test_run_is_refused_with_the_reason_when_a_server_that_is_not_root_cannot_be_its_user(field: str) -> None:
    with pytest.raises(EngineRefusal) as refusal:
        choose_identity(make_run(**{field: 4711}), SERVER)
    assert refusal.value.code == Reason.USER_IMPOSSIBLE
    assert f"{field} 4711 is impossible" in str(refusal.value)


def test_everything_that_one_machine_does_not_do_is_listed_when_a_run_asks_for_it() -> None:
    run = make_run(
        action="serve",
        node_selector={"gpu": "a100"},
        tolerations=({"key": "x", "operator": "Exists"},),
        affinity={"nodeAffinity": {}},
        topology_spread=({"maxSkew": 1},),
        runtime_class="gvisor",
        priority_class="high",
        scheduler_name="mine",
        service_account="builder",
        host_aliases=({"ip": "10.0.0.1", "hostnames": ("db",)},),
        service_type="NodePort",
        disk=Disk(size=Quantity.parse("1Gi")),
        resources={"ephemeral-storage": Sides(limits=Quantity.parse("1Gi"))},
    )
    told = " ".join(find_not_enforced(run, replicas=3))
    for word in (
        "node_selector",
        "tolerations",
        "affinity",
        "topology_spread",
        "runtime_class",
        "priority_class",
        "scheduler_name",
        "service_account",
        "host_aliases",
        "service_type NodePort",
        "size 1Gi of volume runyard-scratch",
        "ephemeral-storage",
        "replicas 3",
    ):
        assert word in told
    assert find_not_enforced(make_run(), replicas=1) == []
