import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from runyard.app.engine import EngineRefusal
from runyard.domain.reasons import Reason
from runyard.engines.local.containers import Container, ContainerPlan, ContainerRuntime, plan_container
from runyard.procs import Identity, Limits, Mount

_USER = Identity(uid=600_100_001, gid=600_100_002, groups=(7,))
_PODMAN = ContainerRuntime(
    program="podman", path="/usr/bin/podman", version="4.3.1", place_uid="p1", memory=Path("/run/x"), has_cgroup=True
)
_ROOTLESS = dataclasses.replace(_PODMAN, is_rootless=True, has_cgroup=False, has_limits=False, has_port_mapping=False)
_DOCKER = ContainerRuntime(
    program="docker", path="/usr/bin/docker", version="28.2", place_uid="p1", memory=Path("/run/x"), exposure="it does"
)


def _plan(runtime: ContainerRuntime = _PODMAN, **fields: Any) -> ContainerPlan:
    chosen: dict[str, Any] = {"name": "c1", "image": "busybox:1.36", "identity": _USER, **fields}
    return plan_container(runtime, Container(**chosen))


def _order(plan: ContainerPlan) -> dict[str, Any]:
    assert plan.main.stdin is not None
    order: dict[str, Any] = json.loads(plan.main.stdin)
    return order


def _options(plan: ContainerPlan, name: str) -> list[str]:
    argv: list[str] = _order(plan)["argv"]
    return [argv[index + 1] for index, part in enumerate(argv) if part == name]


def test_command_replaces_the_entrypoint_when_the_pod_has_one() -> None:
    order = _order(_plan(command=("sh", "-c"), args=("echo hi", "x"), working_dir="/work"))
    expected = ["--workdir", "/work", "--entrypoint", "sh", "$(RUNYARD_IMAGE)", "-c", "echo hi", "x"]
    assert order["argv"][-8:] == expected


def test_entrypoint_of_the_image_stays_when_the_pod_has_only_arguments() -> None:
    plan = _plan(args=("--fast",))
    assert _options(plan, "--entrypoint") == []
    assert _order(plan)["argv"][-2:] == ["$(RUNYARD_IMAGE)", "--fast"]


@pytest.mark.parametrize(
    ("image", "names"),
    [
        ("busybox:1.36", ["docker.io/library/busybox:1.36", "busybox:1.36"]),
        ("acme/tool", ["docker.io/acme/tool:latest", "acme/tool"]),
        ("localhost/mine:1", ["localhost/mine:1"]),
        ("ghcr.io/a/b@sha256:" + "0" * 64, ["ghcr.io/a/b@sha256:" + "0" * 64]),
    ],
)
def test_image_is_looked_for_by_its_full_name_first_when_it_names_no_registry(image: str, names: list[str]) -> None:
    assert _order(_plan(image=image))["images"] == names


def test_container_is_marked_when_it_is_of_a_place() -> None:
    plan = _plan(labels={"io.runyard.run": "u1"})
    assert _options(plan, "--label") == ["io.runyard.place=p1", "io.runyard.run=u1"]
    assert _options(plan, "--name") == ["c1"]


def test_container_has_no_privileges_when_it_runs() -> None:
    plan = _plan()
    assert _options(plan, "--cap-drop") == ["all"]
    assert _options(plan, "--security-opt") == ["no-new-privileges"]
    assert _options(plan, "--user") == ["600100001:600100002"]
    assert _options(plan, "--group-add") == ["7"]
    assert _options(plan, "--pull") == ["never"]


def test_user_is_mapped_to_the_servers_own_when_podman_has_no_root() -> None:
    assert _options(_plan(_ROOTLESS), "--userns") == ["keep-id:uid=600100001,gid=600100002"]
    plan = _plan(_ROOTLESS, identity=None)
    assert _options(plan, "--userns") == ["keep-id"]
    assert _options(plan, "--user") == [f"{os.geteuid()}:{os.getegid()}"]


def test_chosen_user_is_refused_when_podman_without_root_is_too_old() -> None:
    with pytest.raises(EngineRefusal, match=r"run_as_user 600100001: podman 4\.1 without root cannot") as refused:
        _plan(dataclasses.replace(_ROOTLESS, version="4.1", has_chosen_user=False))
    assert refused.value.code == Reason.USER_IMPOSSIBLE


def test_limits_are_the_runtimes_when_it_can_enforce_them() -> None:
    plan = _plan(limits=Limits(memory_bytes=64 << 20, cpu_millis=1500, log_bytes=1000))
    assert _options(plan, "--memory") == _options(plan, "--memory-swap") == [f"{64 << 20}b"]
    assert _options(plan, "--cpus") == ["1.500"]
    assert _options(plan, "--cgroup-parent") == ["/runyard-containers/c1"]
    assert plan.limits == Limits(log_bytes=1000)
    assert plan.warnings == ()


def test_memory_is_left_to_the_watchdog_when_the_runtime_cannot_limit_it() -> None:
    plan = _plan(_ROOTLESS, limits=Limits(memory_bytes=64 << 20, cpu_millis=1500, log_bytes=1000))
    assert _options(plan, "--memory") == []
    assert plan.limits == Limits(memory_bytes=64 << 20, log_bytes=1000)
    assert plan.hooks.runtime_bytes == 64 << 20
    assert plan.warnings == ("CPU limit: podman 4.3.1 without root cannot enforce it with this machine's cgroups",)


def test_ports_are_published_on_loopback_when_a_service_has_some() -> None:
    plan = _plan(ports=(8080, 9090))
    assert _options(plan, "--publish") == [
        "127.0.0.1:$(RUNYARD_PORT_8080):8080/tcp",
        "127.0.0.1:$(RUNYARD_PORT_9090):9090/tcp",
    ]
    assert plan.main.argv[-2:] == ("8080=$(PORT_8080)", "9090=$(PORT_9090)")
    assert _options(plan, "--network") == []
    assert plan.ports == {8080: None, 9090: None}


def test_machines_network_is_used_and_said_when_ports_cannot_be_published() -> None:
    plan = _plan(_ROOTLESS, ports=(8080,))
    assert _options(plan, "--network") == ["host"]
    assert plan.ports == {8080: 8080}
    assert plan.warnings[0].startswith("ports 8080: podman 4.3.1 without root cannot publish ports on this machine")


def test_servers_loopback_is_reached_when_a_container_has_no_ports() -> None:
    plan = _plan(env={"RUNYARD_ENDPOINT": "http://127.0.0.1:8000"})
    assert _options(plan, "--network") == ["host"]
    assert plan.warnings == ()


def test_unreachable_server_is_said_when_a_container_has_ports() -> None:
    plan = _plan(env={"RUNYARD_ENDPOINT": "http://127.0.0.1:8000"}, ports=(8080,))
    (warning,) = plan.warnings
    assert warning == (
        "RUNYARD_ENDPOINT http://127.0.0.1:8000: a container with ports has a network of its own, from which the "
        "server's loopback address cannot be reached"
    )


def test_secrets_are_only_in_the_order_when_a_container_has_some() -> None:
    plan = _plan(
        env={"KEY": "v4lue", "PEM": "v4lue\nend"},
        secret_variables=frozenset({"KEY", "PEM"}),
        mounts=(Mount(target="/s/key", kind="files", sub_path="key", contents={"key": "v4lue"}, mode=0o440),),
    )
    order = _order(plan)
    shown = [*plan.main.argv, *plan.steps[0].argv, *plan.hooks.stop, *plan.hooks.inspect, *plan.hooks.cleanup]
    shown += [*order["argv"], *plan.main.env.values(), *plan.hooks.env.values(), repr(plan)]
    assert not [text for text in shown if "v4lue" in text]
    assert order["env"] == {"PEM": "v4lue\nend"}
    assert [(file["path"], file["text"]) for file in order["files"]] == [("env", "KEY=v4lue\n"), ("0/key", "v4lue")]


def test_mounts_are_volumes_and_tmpfs_when_a_container_has_some() -> None:
    plan = _plan(
        mounts=(
            Mount(target="/data", kind="bind", source="/place/v1"),
            Mount(target="/in", kind="bind", source="/place/v2", is_read_only=True),
            Mount(target="/dev/shm", kind="tmpfs", size_bytes=1024),
            Mount(target="/cfg", kind="files", contents={"a": "x"}),
        ),
        image_mounts={"/model": "acme/model:1"},
        termination_path="/place/termination",
    )
    assert _options(plan, "--volume") == [
        "/place/v1:/data",
        "/place/v2:/in:ro",
        "/run/x/containers/c1/files/3:/cfg:ro",
        "/place/termination:/dev/termination-log",
    ]
    assert _options(plan, "--tmpfs") == ["/dev/shm:rw,exec,nosuid,nodev,mode=1777,size=1024"]
    assert _options(plan, "--mount") == ["type=image,source=docker.io/acme/model:1,destination=/model,rw=false"]


def test_sub_path_is_mounted_aside_first_when_the_server_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    plan = _plan(mounts=(Mount(target="/data", kind="bind", source="/place/v1", sub_path="a/b"),))
    assert _options(plan, "--volume") == ["/run/x/containers/c1/bind-0:/data"]
    assert _order(plan)["binds"] == [{"source": "/place/v1", "sub_path": "a/b"}]


def test_sub_path_is_refused_when_the_server_is_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EngineRefusal, match="mount the whole volume") as refused:
        _plan(mounts=(Mount(target="/data", kind="bind", source="/place/v1", sub_path="a/b"),))
    assert refused.value.code == Reason.MOUNT_IMPOSSIBLE


@pytest.mark.parametrize(("source", "target"), [("/a:b", "/c"), ("/a", "/c:d")])
def test_mount_is_refused_when_a_path_has_a_colon(source: str, target: str) -> None:
    with pytest.raises(EngineRefusal) as refused:
        _plan(mounts=(Mount(target=target, kind="bind", source=source),))
    assert refused.value.code == Reason.MOUNT_IMPOSSIBLE


def test_image_is_not_mounted_when_the_runtime_is_docker() -> None:
    with pytest.raises(EngineRefusal, match="cannot mount an image; podman can"):
        _plan(_DOCKER, image_mounts={"/model": "acme/model:1"})


def test_secret_files_are_given_and_variables_refused_when_the_runtime_is_docker() -> None:
    plan = _plan(_DOCKER, mounts=(Mount(target="/s", kind="files", contents={"key": "v4lue"}),))
    assert _options(plan, "--volume") == ["/run/x/containers/c1/files/0:/s:ro"]
    with pytest.raises(EngineRefusal):
        _plan(_DOCKER, env={"KEY": "v4lue"}, secret_variables=frozenset({"KEY"}))


def test_gpus_and_hosts_are_given_when_a_container_has_some() -> None:
    fields: dict[str, Any] = {"gpus": ("GPU-1",), "hosts": {"db": "10.0.0.1"}}
    assert _options(_plan(**fields), "--device") == ["nvidia.com/gpu=GPU-1"]
    assert _options(_plan(_DOCKER, **fields), "--gpus") == ["device=GPU-1"]
    assert _options(_plan(**fields), "--add-host") == ["db:10.0.0.1"]
