"""The seed's first pod through `runyard node`, between two real clusters, with exactly the printed rights."""

import json
import os
import pty
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from testbed.cluster import Cluster
from testbed.errors import TestbedError
from testbed.faults import FaultPlan, Rule, Stall
from tests.cluster.node.agent_bed import NODE, AgentBed, find_condition, open_bed, proxied, run_command, wait_for

SHAPE = "seeweb-nvidia-1xa6000"
OFFER = {
    "capacity": {"cpu": "1600m", "memory": "1Gi", "nvidia.com/gpu": "4", "pods": "8"},
    "shapes": [{"name": SHAPE, "handler": "nvidia", "limits": {"cpu": "200m", "memory": "128Mi", "gpu": "1"}}],
}


@pytest.fixture(scope="module")
def bed(local_cluster: Cluster, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentBed]:
    folder: Path = tmp_path_factory.mktemp("agent")
    with open_bed(local_cluster, cluster, f"tenant-{secrets.token_hex(3)}", folder, offer=OFFER) as bed:
        bed.start()
        bed.wait_ready()
        bed.wait_filling(SHAPE)
        yield bed
        cluster.kubectl("delete", "namespace", bed.provider_namespace, "--wait=false")


def make_pod(name: str, script: str, **limits: str) -> dict[str, Any]:
    resources = {"resources": {"limits": limits}} if limits else {}
    container = {"name": "nvidia", "image": "busybox:1.36", "command": ["sh", "-c"], "args": [script], **resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"restartPolicy": "OnFailure", "runtimeClassName": SHAPE, "containers": [container]},
    }


def run_in_terminal(bed: AgentBed, *arguments: str) -> tuple[int, str]:
    """kubectl with a terminal, as a user has it: its exit code and what was shown."""
    main, other = pty.openpty()
    program = [str(bed.local.directory / "bin/kubectl"), f"--kubeconfig={bed.local.kubeconfig}"]
    with subprocess.Popen(
        ["setsid", "--ctty", "--wait", *program, *arguments], stdin=other, stdout=other, stderr=other
    ) as running:
        os.close(other)
        shown = b""
        with suppress(OSError):  # a terminal whose last user has left
            while piece := os.read(main, 4096):
                shown += piece
        os.close(main)
        return running.wait(30), shown.decode()


def test_node_and_classes_are_there_when_the_agent_has_started(bed: AgentBed) -> None:
    listed = bed.local.kubectl("get", "nodes", "--no-headers").split()
    assert listed[:3] == [NODE, "Ready", "agent"]
    wait_for("the RuntimeClass", lambda: SHAPE in bed.local.kubectl("get", "runtimeclasses", "-l", "k8s.gpu"))
    annotations = bed.get("runtimeclass", SHAPE)["metadata"]["annotations"]
    assert annotations == {
        "limits.k8s.gpu/cpu": "200m",
        "limits.k8s.gpu/memory": "128Mi",
        "limits.k8s.gpu/default": "1",
    }
    lease = bed.get("lease", NODE, "-n", "kube-node-lease")
    assert lease["metadata"]["ownerReferences"][0]["uid"] == bed.get("node", NODE)["metadata"]["uid"]


def test_pod_is_filled_bound_run_read_and_removed_when_it_states_nothing(bed: AgentBed) -> None:
    bed.apply(make_pod("nvidia-smi", "echo hello; trap 'echo bye; exit 0' TERM; while true; do sleep 0.1; done"))
    pod = bed.wait_phase("nvidia-smi", "Running")
    assert pod["spec"]["schedulerName"] == NODE
    assert pod["spec"]["nodeName"] == NODE
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "200m", "memory": "128Mi", "nvidia.com/gpu": "1"}
    assert pod["status"]["qosClass"] == "Guaranteed"
    assert bed.read_allocatable() == {"cpu": "1400m", "memory": "896Mi", "nvidia.com/gpu": "3", "pods": "7"}
    remote = bed.get_remote("pods")["items"]
    assert [item["metadata"]["labels"]["k8s.gpu/uid"] for item in remote] == [pod["metadata"]["uid"]]

    wait_for("the log", lambda: "hello" in bed.local.kubectl("logs", "nvidia-smi"))
    assert bed.local.kubectl("exec", "nvidia-smi", "--", "sh", "-c", "echo in; hostname") == "in\nnvidia-smi\n"
    with pytest.raises(TestbedError, match="exit code 7"):
        bed.local.kubectl("exec", "nvidia-smi", "--", "sh", "-c", "exit 7")
    code, shown = run_in_terminal(bed, "exec", "-it", "nvidia-smi", "--", "sh", "-c", "tty; exit 3")
    assert (code, "/dev/pts/" in shown) == (3, True), shown
    describe = bed.local.kubectl("describe", "pod", "nvidia-smi")
    assert "Successfully assigned default/nvidia-smi to k8s.gpu" in describe
    assert "Started" in describe

    follower = subprocess.Popen(
        [bed.local.directory / "bin/kubectl", f"--kubeconfig={bed.local.kubeconfig}", "logs", "-f", "nvidia-smi"],
        stdout=subprocess.PIPE,
    )
    time.sleep(1)  # the follower must be attached: the last words come once
    bed.local.kubectl("delete", "pod", "nvidia-smi", "--wait=false")
    followed, _ = follower.communicate(timeout=60)
    assert followed.decode().splitlines() == ["hello", "bye"]
    bed.wait_gone("nvidia-smi")
    assert bed.get_remote("pods")["items"] == []
    full = {"cpu": "1600m", "memory": "1Gi", "nvidia.com/gpu": "4", "pods": "8"}
    wait_for("all of it free", lambda: bed.read_allocatable() == full)


def test_pod_waits_with_figures_when_it_is_above_its_class(bed: AgentBed) -> None:
    bed.apply(make_pod("nvidia-smi-unschedulable", "true", **{"nvidia.com/gpu": "2", "memory": "64Gi", "cpu": "1"}))

    def look() -> Any:
        condition = find_condition(bed.get_pod("nvidia-smi-unschedulable"), "PodScheduled")
        return condition if condition.get("reason") == "RuntimeClassLimitExceeded" else None

    condition = wait_for("the reason", look)
    assert condition["status"] == "False"
    for words in ("nvidia.com/gpu", "memory", "64Gi", "128Mi", "cpu"):
        assert words in condition["message"]
    pod = bed.get_pod("nvidia-smi-unschedulable")
    assert pod["status"]["phase"] == "Pending"
    assert "nodeName" not in pod["spec"]
    assert "FailedScheduling" in bed.local.kubectl("describe", "pod", "nvidia-smi-unschedulable")
    bed.local.kubectl("delete", "pod", "nvidia-smi-unschedulable")


def test_exit_code_and_message_come_back_when_a_pod_ends(bed: AgentBed) -> None:
    pod = make_pod("fails", "echo no > /dev/termination-log; exit 3")
    pod["spec"]["restartPolicy"] = "Never"
    bed.apply(pod)
    ended = bed.wait_phase("fails", "Failed")
    terminated = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["message"]) == (3, "no\n")
    wait_for("its resources", lambda: bed.read_allocatable()["pods"] == "8")
    bed.local.kubectl("delete", "pod", "fails")
    wait_for("nothing left at the provider", lambda: bed.get_remote("pods")["items"] == [])


def test_job_fails_when_its_pods_do(bed: AgentBed) -> None:
    template = make_pod("unused", "echo tried; exit 6")["spec"] | {"restartPolicy": "Never"}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "fails", "namespace": "default"},
        "spec": {"backoffLimit": 1, "template": {"spec": template}},
    }
    bed.apply(job)
    failed = wait_for("the Job's failure", lambda: find_condition(bed.get("job", "fails"), "Failed"), seconds=120)
    assert (failed["status"], failed["reason"]) == ("True", "BackoffLimitExceeded")
    pods = bed.get("pods", "-l", "job-name=fails")["items"]
    codes = [pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for pod in pods]
    assert codes == [6, 6]
    assert bed.local.kubectl("logs", "job/fails") == "tried\n"
    bed.local.kubectl("delete", "job", "fails")
    wait_for("nothing left at the provider", lambda: bed.get_remote("pods")["items"] == [])


def test_pods_of_another_tenant_cannot_be_read_when_they_share_the_provider(bed: AgentBed) -> None:
    other = f"{bed.provider_namespace}-other"
    bed.provider.kubectl("apply", "-f", "-", stdin=run_command("node", "manifests", f"--provider-side={other}/tenant"))
    secret = make_pod("theirs", "echo secret; sleep 3600")
    del secret["spec"]["runtimeClassName"]
    secret["metadata"]["namespace"] = other
    bed.provider.kubectl("apply", "-f", "-", stdin=json.dumps(secret))
    bed.provider.kubectl("wait", "-n", other, "pod/theirs", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")
    try:
        # The account at the provider has no rights in the other tenant's namespace, whatever the agent asks for.
        for verb in (("get", "pods"), ("logs", "theirs"), ("exec", "theirs", "--", "true"), ("get", "secrets")):
            done = subprocess.run(
                [
                    bed.provider.directory / "bin/kubectl",
                    f"--kubeconfig={bed.folder / 'provider.kubeconfig'}",
                    f"--namespace={other}",
                    *verb,
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, "Forbidden" in done.stderr) == (1, True), verb
        # Nor does the kubelet port know it, even for an admin of the local cluster.
        for path in (f"containerLogs/{other}/theirs/nvidia", f"containerLogs/{bed.provider_namespace}/theirs/nvidia"):
            with pytest.raises(TestbedError, match=r"NotFound|not found"):
                bed.local.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/{path}")
        listed = bed.local.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/pods")
        assert "theirs" not in listed
    finally:
        bed.provider.kubectl("delete", "namespace", other, "--wait=false")


def test_doctor_finds_nothing_missing_when_the_agent_runs(bed: AgentBed) -> None:
    printed = run_command(
        "node",
        "doctor",
        f"--kubeconfig={bed.folder / 'local.kubeconfig'}",
        f"--provider-kubeconfig={bed.folder / 'provider.kubeconfig'}",
        f"--provider-namespace={bed.provider_namespace}",
        f"--offer={bed.offer_file}",
    )
    assert "ERROR" not in printed
    assert "node k8s.gpu has Ready=True" in printed


def test_log_that_is_followed_ends_with_words_when_the_provider_vanishes_without_any(bed: AgentBed) -> None:
    bed.processes[-1].stop()
    with proxied(bed) as proxy:
        bed.start()
        bed.apply(make_pod("followed", "echo hello; trap 'exit 0' TERM; while true; do sleep 0.1; done"))
        bed.wait_phase("followed", "Running")
        wait_for("the log", lambda: "hello" in bed.local.kubectl("logs", "followed"))
        proxy.plan = FaultPlan(rules=[Rule(Stall(after_bytes=len("hello\n")), path="*/log", times=None)])
        kubectl = [str(bed.local.directory / "bin/kubectl"), f"--kubeconfig={bed.local.kubeconfig}"]
        with subprocess.Popen([*kubectl, "logs", "-f", "followed"], stdout=subprocess.PIPE) as follower:
            assert follower.stdout is not None
            assert follower.stdout.readline() == b"hello\n"
            proxy.plan = FaultPlan(rules=[Rule(Stall(), times=None)])
            followed, _ = follower.communicate(timeout=180)
        assert b"the log breaks off here: the provider cannot be reached since" in followed
        bed.processes[-1].stop()
    bed.start()
    bed.local.kubectl("delete", "pod", "followed", "--wait=false")
    bed.wait_gone("followed")


def test_node_comes_back_when_somebody_deletes_it(bed: AgentBed) -> None:
    before = bed.get("node", NODE)["metadata"]["uid"]
    bed.local.kubectl("delete", "node", NODE)
    node = bed.wait_ready()
    assert node["metadata"]["uid"] != before
    assert {"key": "k8s.gpu/agent", "effect": "NoSchedule"} in node["spec"]["taints"]
