"""What a cluster can have besides a node: metrics, fake nodes, GPUs, an audit log, flags, images of one's own."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import images
from testbed.cluster import Cluster
from testbed.errors import TestbedError
from testbed.pytest_plugin import kubernetes_version, require_machine
from testbed.site import Options
from tests.cluster.testbed.manifests import create, pod, wait

FAKE_NODES = 40


@pytest.fixture(scope="module")
def rich() -> Iterator[Cluster]:
    """A cluster with every option."""
    require_machine(node=True)
    options = Options(
        kubernetes=kubernetes_version(),
        dns=False,
        storage=False,
        metrics=True,
        audit=True,
        gpus=2,
        fake_nodes=FAKE_NODES,
        flags=(("kube-apiserver", "--event-ttl=10m"),),
    )
    cluster = Cluster.up(f"rich-{os.getpid()}", options, outlives_us=False)
    yield cluster
    cluster.down()


def test_fake_nodes_run_pods_when_kwok_keeps_them(rich: Cluster) -> None:
    tolerations = [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]
    spec: dict[str, Any] = {"tolerations": tolerations, "nodeSelector": {"type": "kwok"}}
    large = {"limits": {"nvidia.com/gpu": "8", "cpu": "48", "memory": "400Gi"}}
    create(rich, "default", pod("large", "unused", spec=spec, resources=large))
    wait(rich, "default", "pod/large", until="jsonpath={.status.phase}=Running")
    assert rich.kubectl("get", "pod", "large", "-o", "jsonpath={.spec.nodeName}").startswith("fake-")
    nodes = json.loads(rich.kubectl("get", "nodes", "-l", "type=kwok", "-o", "json"))["items"]
    ready = [
        node
        for node in nodes
        if any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])
    ]
    assert len(ready) == FAKE_NODES


def test_metrics_are_served_when_asked_for(rich: Cluster) -> None:
    create(rich, "default", pod("worker", "while true; do :; done", resources={"limits": {"cpu": "200m"}}))
    wait(rich, "default", "pod/worker", until="condition=Ready")
    deadline = time.monotonic() + 90
    while True:
        try:
            cpu = rich.kubectl("top", "pod", "worker", "--no-headers").split()[1]
            break
        except TestbedError:
            assert time.monotonic() < deadline, "no metrics within 90 s"
            time.sleep(2)
    assert cpu.endswith("m")
    assert int(cpu.removesuffix("m")) > 0


def test_requests_are_in_the_audit_log_when_asked_for(rich: Cluster) -> None:
    rich.kubectl("create", "configmap", "audited")
    lines = (rich.site.logs / "audit.log").read_text().splitlines()
    events = [json.loads(line) for line in lines if '"audited"' in line]
    assert [(event["verb"], event["user"]["username"]) for event in events] == [("create", "admin")]


def test_patches_and_deletions_are_audited_with_their_bodies_when_they_are_about_jobs(rich: Cluster) -> None:
    rich.kubectl("create", "job", "audited-job", "--image=unused", "--dry-run=none")
    patch = '[{"op":"add","path":"/spec/suspend","value":true}]'
    rich.kubectl("patch", "job", "audited-job", "--type=json", "--patch", patch)
    rich.kubectl("delete", "job", "audited-job", "--wait=false")
    lines = (rich.site.logs / "audit.log").read_text().splitlines()
    events = [json.loads(line) for line in lines if '"audited-job"' in line]
    ours = {event["verb"]: event for event in events if event["user"]["username"] == "admin"}
    assert ours["create"]["responseObject"]["metadata"]["uid"]
    assert ours["patch"]["requestObject"] == json.loads(patch)
    assert ours["delete"]["requestObject"]["kind"] == "DeleteOptions"


def test_pods_have_gpus_of_their_own_when_the_kubelet_was_restarted_between_them(rich: Cluster) -> None:
    def start(name: str) -> str:
        resources = {"limits": {"nvidia.com/gpu": "1"}}
        create(rich, "default", pod(name, "echo $NVIDIA_VISIBLE_DEVICES; exec sleep 3600", resources=resources))
        wait(rich, "default", f"pod/{name}", until="condition=Ready")
        return rich.kubectl("logs", name).strip()

    before = start("before")
    rich.kill("kubelet")
    rich.start("kubelet")
    deadline = time.monotonic() + 60
    # Until then the new kubelet has no GPUs, and fails a pod that was bound to its node for one.
    while (rich.site.logs / "device-plugin.log").read_text().count("offered 2 of nvidia.com/gpu") < 2:
        assert time.monotonic() < deadline, "the device plugin did not register with the new kubelet within 60 s"
        time.sleep(0.1)
    after = start("after")
    assert before.startswith("GPU-")
    assert after.startswith("GPU-")
    assert before != after
    restarts = "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}"
    assert rich.kubectl("get", "pod", "before", "-o", restarts) == "Running 0"


def test_component_stands_still_and_counts_as_alive_when_it_is_frozen(rich: Cluster) -> None:
    pid = rich.components()["kube-scheduler"].pid

    def read_state() -> str:
        return rich.run_inside(["sed", "-n", "s/^State:\\t//p", f"/proc/{pid}/status"]).split()[0]

    rich.freeze("kube-scheduler")
    try:
        while read_state() != "T":  # a signal is delivered when the process gets its next turn
            time.sleep(0.05)
        rich.check_alive()
    finally:
        rich.thaw("kube-scheduler")
    assert read_state() != "T"
    assert not rich.components()["kube-scheduler"].was_stopped


def test_kubeconfig_of_a_service_account_is_that_account_when_it_is_used(rich: Cluster, tmp_path: Path) -> None:
    token = rich.kubectl("create", "token", "default").strip()
    path = rich.write_kubeconfig(tmp_path / "kubeconfig", token=token)
    assert path.stat().st_mode & 0o077 == 0
    who = rich.kubectl("--kubeconfig", str(path), "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    assert who == "system:serviceaccount:default:default"


def test_flag_reaches_the_component_when_given(rich: Cluster) -> None:
    pid = rich.components()["kube-apiserver"].pid
    assert "--event-ttl=10m" in rich.run_inside(["cat", f"/proc/{pid}/cmdline"]).split("\0")


def test_own_image_runs_when_it_was_loaded(rich: Cluster, tmp_path: Path) -> None:
    package = tmp_path / "greeting"
    package.mkdir()
    (package / "__init__.py").write_text("print('hello from an image of my own')\n")
    image = images.ensure_python(extra=[tmp_path], tag="localhost/own:1")
    rich.load_image(image.archive)
    spec = {"securityContext": {"runAsUser": 4321}}
    own = pod("own", "unused", spec=spec, image="localhost/own:1", command=["python3", "-c", "import greeting"])
    create(rich, "default", own)
    wait(rich, "default", "pod/own", until="jsonpath={.status.phase}=Succeeded")
    assert rich.kubectl("logs", "own") == "hello from an image of my own\n"


def test_load_image_says_why_when_the_archive_is_missing_or_broken(rich: Cluster, tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="no image archive"):
        rich.load_image(tmp_path / "none.tar")
    broken = tmp_path / "broken.tar"
    broken.write_bytes(b"not a tar")
    with pytest.raises(TestbedError, match=r"broken\.tar cannot be imported"):
        rich.load_image(broken)
