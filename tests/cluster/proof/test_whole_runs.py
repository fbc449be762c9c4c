"""Runs that use every field at once: what their containers find, how services are reached, which templates apply."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.cluster import Cluster
from tests.cluster.proof.container_report import make_inspection, read_report
from tests.cluster.proof.proof_core import Json, ProofProject, open_project, run_proof_core
from tests.core_process import CoreProcess

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

_TEMPLATES = Path(__file__).parents[2] / "data" / "digitalhub"
TEMPLATE_FILES = [_TEMPLATES / name for name in ("a100.yaml", "small.yaml", "own.yaml")]
GIB = 1 << 30
PAGE_BYTES = 4096
SMALL = {"cpu": {"requests": "30m", "limits": "500m"}, "mem": {"requests": "24Mi", "limits": "48Mi"}, "gpu": 2}
SERVE = 'mkdir /tmp/www; echo "from $HOSTNAME" >/tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www'
READ_OFTEN = 'for number in $(seq 1 40); do sleep 0.1; wget -q -O - "http://$0/"; done'
"""A pod asks a service again and again: its cluster address spreads requests over the replicas."""


@pytest.fixture(scope="module")
def core(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoreProcess]:
    """A server with templates of DigitalHub, as they are."""
    profiles = {file.name: file.read_text() for file in TEMPLATE_FILES}
    with run_proof_core(cluster, tmp_path_factory.mktemp("core"), profiles=profiles) as core:
        yield core


@pytest.fixture
async def project(cluster: Cluster, core: CoreProcess) -> AsyncIterator[ProofProject]:
    async with open_project(cluster, core) as project:
        yield project


def make_affinity(cluster: Cluster) -> Json:
    """A node affinity that only the node of the cluster satisfies."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [cluster.node_name]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


TOLERATIONS: list[Json] = [
    {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
]
VOLUMES: list[Json] = [
    {"volume_type": "persistent_volume_claim", "name": "own", "mount_path": "/own", "spec": {"size": "16Mi"}},
    {"volume_type": "shared_volume", "name": "common", "mount_path": "/common", "spec": {"claim_name": "datasets"}},
    {"volume_type": "ephemeral", "name": "scratch", "mount_path": "/scratch", "spec": {"size": "16Mi"}},
    {"volume_type": "empty_dir", "name": "shm", "mount_path": "/dev/shm", "spec": {"size_limit": "8Mi"}},
    {"volume_type": "config_map", "name": "stored", "mount_path": "/stored", "spec": {"name": "settings"}},
    {
        "volume_type": "config_map",
        "name": "written",
        "mount_path": "/written",
        "spec": {"data": {"a.toml": "x = 1\ny = 'ü'\n"}},
    },
]


async def test_container_finds_every_field_as_asked_when_a_run_sets_all_of_them(
    cluster: Cluster, project: ProofProject, classes: str
) -> None:
    await project.set_secrets({"TOKEN": "t0ken $HOME", "kaggle": '{"key": "ü"}'})
    await project.create("volumes", {"name": "datasets", "spec": {"size": "16Mi"}})
    settings = {"kind": "configmap", "name": "settings", "spec": {"data": {"train.toml": "epochs = 3\n"}}}
    await project.create("configmaps", settings)
    files = ("/secrets/kaggle.json", "/stored/train.toml", "/written/a.toml")
    folders = ("/own", "/common", "/scratch", "/dev/shm")
    selector = {"kubernetes.io/os": "linux"}
    run: dict[str, Any] = {
        "command": "sh",
        "args": make_inspection(*folders, *files),
        "working_dir": "/tmp",
        "envs": {"PLAIN": "a b", "ODD": "$(PLAIN) $$ 'x' \"ü\"", "NUMBER": 3},
        "secrets": ["TOKEN", {"name": "kaggle", "mount_path": "/secrets/kaggle.json"}],
        "volumes": VOLUMES,
        "resources": SMALL,
        "run_as_user": 1234,
        "run_as_group": 2345,
        "fs_group": 3456,
        "node_selector": selector,
        "affinity": make_affinity(cluster),
        "tolerations": TOLERATIONS,
        "runtime_class": classes,
        "priority_class": classes,
        "grace_period": 7,
    }
    report = read_report(await project.run_to_end(project.make_run("everything", **run)))
    (pod,) = await project.list_pods("everything")
    spec, (container,) = pod["spec"], pod["spec"]["containers"]

    assert (report.user, report.group, report.groups) == (1234, 2345, {2345, 3456})
    assert report.memory_bytes == 48 << 20
    assert report.cpu_limit == 0.5
    assert report.cpu_shares in (None, 30)
    assert len({*report.gpus}) == len(report.gpus) == 2
    assert report.sections["folder"] == ["/tmp"]
    wanted = {"PLAIN": "a b", "ODD": "a b $ 'x' \"ü\"", "NUMBER": "3", "TOKEN": "t0ken $HOME"}
    assert wanted.items() <= report.envs.items()  # `$(NAME)` and `$$` as Kubernetes reads them
    assert report.envs["RUN_ID"] == "everything"
    assert report.envs["PROJECT_NAME"] == project.name

    assert report.get_content("/secrets/kaggle.json") == '{"key": "ü"}'
    assert report.get_content("/stored/train.toml") == "epochs = 3"
    assert report.get_content("/written/a.toml") == "x = 1\ny = 'ü'"
    assert report.get_mode("/secrets/kaggle.json").split()[2] == "3456"
    assert report.get_mode("/stored/train.toml").split()[2] == "3456"
    assert "ro" in str(report.find_mount("/stored")).split(",")
    assert {path: report.get_written(path)[0] for path in folders} == dict.fromkeys(folders, "written")
    assert report.get_written("/dev/shm")[1] == "3456"
    assert report.find_file_system("/dev/shm") == "tmpfs"

    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "48Mi", "nvidia.com/gpu": "2"}
    assert container["resources"]["requests"] == {"cpu": "30m", "memory": "24Mi", "nvidia.com/gpu": "2"}
    assert spec["nodeSelector"] == selector
    assert spec["affinity"] == make_affinity(cluster)
    assert [one for one in spec["tolerations"] if one in TOLERATIONS] == TOLERATIONS
    assert (spec["runtimeClassName"], spec["priorityClassName"], spec["priority"]) == (classes, classes, 1000)
    assert spec["terminationGracePeriodSeconds"] == 7
    assert spec["automountServiceAccountToken"] is False


async def test_volume_keeps_what_a_run_wrote_when_another_run_mounts_it(project: ProofProject) -> None:
    await project.create("volumes", {"name": "models", "spec": {"size": "16Mi"}})
    mount = {"volume_type": "shared_volume", "name": "models", "mount_path": "/models"}
    first = project.make_run("writes", command="sh", args=["-c", "echo 42 >/models/answer"], volumes=[mount])
    assert await project.run_to_end(first) == ""
    await project.delete(["writes"])
    second = project.make_run("reads", command="sh", args=["-c", "cat /models/answer"], volumes=[mount])
    assert await project.run_to_end(second) == "42\n"


async def test_service_is_reached_in_all_its_replicas_when_a_pod_asks_for_its_url(project: ProofProject) -> None:
    served = project.make_run(
        "served",
        action="serve",
        command="sh",
        args=["-c", SERVE],
        replicas=2,
        service_ports=[{"port": 80, "target_port": 8080}],
        service_name="front",
        readiness_path="/index.html",
    )
    await project.submit(served)
    run = await project.wait_until("served", lambda status: _count_ready(status) == 2)
    service = run["status"]["service"]
    assert run["status"]["state"] == "RUNNING"
    assert service["url"].endswith(f".{project.namespace}:80")
    pods = {pod["metadata"]["name"] for pod in await project.list_pods("served")}
    assert len(pods) == 2

    answers = [
        project.run_to_end(project.make_run(f"asks-{number}", command="sh", args=["-c", READ_OFTEN, url]))
        for number, url in enumerate([service["url"], *service["aliases"]])
    ]
    logs = await asyncio.gather(*answers)
    assert len(logs) == 2  # its url, and the name that the run chose
    for log in logs:
        assert {line.removeprefix("from ") for line in log.splitlines()} == pods

    await project.stop("served")
    left = [status for pod in await project.list_pods("served") for status in pod["status"]["containerStatuses"]]
    assert not [status for status in left if "running" in status["state"]]


def _count_ready(status: Json) -> int:
    return sum(bool(pod.get("is_ready")) for pod in status.get("pods", []))


async def test_template_of_digitalhub_decides_the_pod_when_it_is_loaded_as_it_is(
    cluster: Cluster, project: ProofProject
) -> None:
    await project.set_secrets({"WANDB_API_KEY": "w"})
    small = project.make_run("small", profile="small", command="sh", args=make_inspection(), resources={"mem": "6Gi"})
    await project.submit(small)
    await project.submit(project.make_run("a100", profile="1xa100", command="sh", resources={"mem": "6Gi"}))

    told = await project.wait_until("a100", lambda status: status.get("reason") == "service_account.missing")
    assert (told["status"]["state"], "trainer" in told["status"]["message"]) == ("PENDING", True)
    jobs = {job["metadata"]["labels"]["runyard.io/run"]: job for job in await project.list_objects("jobs")}
    check_a100(jobs["a100"]["spec"])

    unmatched = await project.wait_until("small", lambda status: status.get("reason") == "placement.unmatched")
    assert unmatched["status"]["state"] == "PENDING"
    cluster.kubectl("label", "node", cluster.node_name, "pool=general")
    try:
        await project.finish(["small"])
    finally:
        cluster.kubectl("label", "node", cluster.node_name, "pool-")
    report = read_report(await project.read_log("small"))
    assert report.memory_bytes == GIB * 11 // 10 // PAGE_BYTES * PAGE_BYTES  # the profile's, not the run's
    assert report.cpu_shares in (None, 512)
    assert jobs["small"]["spec"]["backoffLimit"] == 1


def check_a100(job: Json) -> None:
    """The Job that `a100.yaml` describes."""
    pod, (container,) = job["template"]["spec"], job["template"]["spec"]["containers"]
    assert job["backoffLimit"] == 2
    sides = (
        {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"},
        {"cpu": "12", "memory": "80Gi", "nvidia.com/gpu": "1"},
    )
    assert (container["resources"]["requests"], container["resources"]["limits"]) == sides
    assert pod["nodeSelector"] == {"accelerator": "a100"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    (preferred,) = pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["preference"]["matchExpressions"][0]["values"] == ["north"]
    assert (pod["runtimeClassName"], pod["priorityClassName"]) == ("nvidia", "training")
    assert (pod["serviceAccountName"], pod["schedulerName"]) == ("trainer", "gpu-scheduler")
    assert (pod["terminationGracePeriodSeconds"], container["imagePullPolicy"]) == (60, "Always")
    ids = {name: pod["securityContext"][name] for name in ("runAsUser", "runAsGroup", "fsGroup")}
    assert ids == {"runAsUser": 8877, "runAsGroup": 999, "fsGroup": 999}
    envs = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert {"NVIDIA_VISIBLE_DEVICES": "all", "OMP_NUM_THREADS": "8", "TZ": "Europe/Rome"}.items() <= envs.items()
    assert pod["hostAliases"] == [{"ip": "10.1.2.3", "hostnames": ["license.example.org"]}]
    assert pod["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    assert {"name": "registry"} in pod["imagePullSecrets"]
    assert job["template"]["metadata"]["labels"]["example.org/cost-centre"] == "research"
    (memory,) = [volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume]
    assert memory == {"medium": "Memory", "sizeLimit": "8Gi"}
