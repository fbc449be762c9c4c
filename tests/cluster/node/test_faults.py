"""Kills, cuts and restarts of everything around the agent, with pods in flight: nothing is lost, doubled or left over.

The provider's nodes are KWOK's: what is counted are objects. Its audit log says what was created how often.
"""

import json
import os
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from testbed.cluster import Cluster
from testbed.errors import TestbedError
from testbed.faults import FaultPlan, Rule, Stall
from testbed.pytest_plugin import kubernetes_version, require_machine
from testbed.site import Options
from tests.chaos.audit_log import iter_entries
from tests.cluster.node.agent_bed import (
    NODE,
    AgentBed,
    find_condition,
    free_port,
    is_ready,
    open_bed,
    proxied,
    run_command,
    wait_for,
)
from tests.cluster.node.test_seed import FAKE, make_fake_class

PODS = 20
FAULTS = {"stalled": 5, "reset": 6}
"""So many requests break before the link is whole again."""
TENANT = "tenant"
OFFER = {
    "capacity": {"cpu": "100", "memory": "400Gi", "nvidia.com/gpu": "64", "pods": "200"},
    "shapes": [
        {
            "name": "small",
            "handler": "nvidia",
            "limits": {"cpu": "500m", "memory": "1Gi", "gpu": "0"},
            "remote_class": FAKE,
        }
    ],
}


@pytest.fixture(scope="module")
def provider() -> Iterator[Cluster]:
    require_machine(node=False)
    options = Options(kubernetes=kubernetes_version(), node=False, dns=False, storage=False, fake_nodes=2, audit=True)
    cluster = Cluster.up(f"np-{os.getpid()}", options, outlives_us=False)
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(make_fake_class()))
    yield cluster
    cluster.down()


@pytest.fixture(scope="module")
def bed(local_cluster: Cluster, provider: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentBed]:
    with open_bed(local_cluster, provider, TENANT, tmp_path_factory.mktemp("faults"), offer=OFFER) as bed:
        yield bed


@pytest.fixture(autouse=True)
def agents(bed: AgentBed) -> Iterator[None]:
    """Every test starts its own agent and leaves no pods."""
    bed.start()
    bed.wait_ready()
    bed.wait_filling("small")
    yield
    try:
        bed.local.kubectl("delete", "pods", "--all", "--wait=false")
        wait_for("no pods on either side", lambda: not bed.get("pods")["items"] and not bed.get_remote("pods")["items"])
    finally:
        bed.close()
        bed.processes.clear()


def make_pods(prefix: str, count: int = PODS) -> list[dict[str, Any]]:
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "3600"]}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{prefix}-{number}", "namespace": "default"},
            "spec": {"runtimeClassName": "small", "containers": [container]},
        }
        for number in range(count)
    ]


def wait_all_running(bed: AgentBed, count: int = PODS, *, seconds: float = 90.0) -> dict[str, str]:
    """The names of the pods at the provider by local uid, once all run."""

    def look() -> bool:
        phases = [pod["status"].get("phase") for pod in bed.get("pods")["items"]]
        return phases == ["Running"] * count

    wait_for(f"{count} pods that run", look, seconds=seconds)
    return {pod["metadata"]["labels"]["k8s.gpu/uid"]: pod["metadata"]["uid"] for pod in bed.get_remote("pods")["items"]}


def check_once(bed: AgentBed, remote: dict[str, str]) -> None:
    """Every local pod has one pod at the provider, which was created once."""
    uids = {pod["metadata"]["uid"] for pod in bed.get("pods")["items"]}
    assert set(remote) == uids
    created = Counter(
        entry.name
        for entry in iter_entries(bed.provider.site.logs, namespace=TENANT)
        if entry.verb == "create" and entry.resource == "pods" and entry.is_done
    )
    assert {name: count for name, count in created.items() if count > 1} == {}


def check_ledger(bed: AgentBed, count: int) -> None:
    expected = {"cpu": f"{100 * 1000 - 500 * count}m", "pods": str(200 - count)}

    def look() -> bool:
        found = bed.read_allocatable()
        cpu = found["cpu"]
        millis = int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)
        return (f"{millis}m", found["pods"]) == (expected["cpu"], expected["pods"])

    wait_for("a ledger that is the truth", look)


def test_nothing_is_lost_or_doubled_when_the_agent_is_killed_with_pods_in_flight(bed: AgentBed) -> None:
    bed.apply(*make_pods("agent"))
    for _ in range(3):
        time.sleep(0.7)  # somewhere between bindings, starts and statuses
        bed.processes[-1].kill()
        bed.start()
    remote = wait_all_running(bed)
    check_once(bed, remote)
    check_ledger(bed, PODS)
    assert is_ready(bed.get("node", NODE))


def test_pods_live_on_when_the_agent_restarts(bed: AgentBed) -> None:
    bed.apply(*make_pods("restart", 5))
    before = wait_all_running(bed, 5)
    assert bed.processes[-1].stop() == 0
    bed.start()
    wait_for("a leader", lambda: "leading" in bed.processes[-1].log.read_text())
    check_ledger(bed, 5)
    assert wait_all_running(bed, 5) == before


def test_nothing_is_lost_or_doubled_when_the_providers_apiserver_is_killed(bed: AgentBed) -> None:
    bed.apply(*make_pods("remote"))
    time.sleep(0.5)
    bed.provider.kill("kube-apiserver")
    time.sleep(1.0)
    bed.provider.start("kube-apiserver")
    bed.provider.wait_ready()
    remote = wait_all_running(bed)
    check_once(bed, remote)
    check_ledger(bed, PODS)


def test_nothing_is_lost_or_doubled_when_both_sides_restart_at_once(bed: AgentBed) -> None:
    bed.apply(*make_pods("both"))
    time.sleep(0.5)
    bed.provider.kill("kube-apiserver")
    bed.local.kill("kube-apiserver")
    bed.processes[-1].kill()
    for cluster in (bed.provider, bed.local):
        cluster.start("kube-apiserver")
    for cluster in (bed.provider, bed.local):
        cluster.wait_ready()
    bed.start()
    remote = wait_all_running(bed)
    check_once(bed, remote)
    check_ledger(bed, PODS)


def test_node_stays_ready_and_takes_nothing_new_when_the_link_is_cut(bed: AgentBed) -> None:
    bed.processes[-1].stop()
    with proxied(bed) as proxy:
        bed.start("--unready-after=3")
        bed.apply(*make_pods("cut", 5))
        before = wait_all_running(bed, 5)
        proxy.refuse(30.0)
        proxy.sever()
        condition = wait_for("the condition", lambda: find_link(bed, "False"))
        assert "pods live on" in condition["message"]
        bed.apply(*make_pods("late", 1))
        wait_for("the reason", lambda: find_reason(bed, "late-0") == "ProviderUnreachable")
        assert is_ready(bed.get("node", NODE))
        wait_for("unready pods", lambda: not any(map(is_ready, bed.get("pods")["items"])))
        wait_for("the link", lambda: find_link(bed, "True"), seconds=90)
        after = wait_all_running(bed, 6)
        assert before.items() <= after.items()
        # Whether they are ready is KWOK's word again, which may call its nodes lost on a busy machine.
        wait_for("their own state", lambda: "ProviderUnreachable" not in bed.local.kubectl("get", "pods", "-o", "yaml"))
    check_once(bed, after)
    bed.processes[-1].kill()  # its link is gone for good
    bed.start()


@pytest.mark.parametrize("kind", [*FAULTS])
def test_nothing_is_lost_or_doubled_when_the_link_breaks_with_pods_in_flight(bed: AgentBed, kind: str) -> None:
    """Of a stalled request nobody knows whether it was done; of a reset one neither, and its answer is lost."""
    bed.processes[-1].stop()
    with proxied(bed) as proxy:
        bed.start()
        wait_for("a leader", lambda: "leading" in bed.processes[-1].log.read_text())
        wait_for("the link", lambda: find_link(bed, "True"))
        since = find_condition(bed.get("node", NODE), "Ready")["lastTransitionTime"]
        proxy.plan = make_plan(kind)
        bed.apply(*make_pods(kind))
        wait_for("faults", lambda: sum(proxy.counts.values()) >= FAULTS[kind])
        proxy.sever()
        proxy.plan = FaultPlan()
        proxy.sever()
        remote = wait_all_running(bed, seconds=120)
        check_once(bed, remote)
        check_ledger(bed, PODS)
        ready = find_condition(bed.get("node", NODE), "Ready")
        assert (ready["status"], ready["lastTransitionTime"]) == ("True", since)
    bed.processes[-1].kill()  # its link is gone for good
    bed.start()


def make_plan(kind: str, *, seed: int = 15) -> FaultPlan:
    """Every request stalls after it was forwarded; or three of five are reset, cut or lose their answer."""
    if kind == "stalled":
        return FaultPlan(rules=[Rule(Stall(), times=None)])
    return FaultPlan(seed=seed, rates={"reset": 0.25, "cut": 0.1, "lose-answer": 0.25})


def find_link(bed: AgentBed, status: str, reason: str | None = None) -> dict[str, Any] | None:
    condition = find_condition(bed.get("node", NODE), "ProviderReachable")
    is_so = condition.get("status") == status and reason in (None, condition.get("reason"))
    return condition if is_so else None


def test_one_node_is_kept_when_two_agents_run_and_the_leader_dies(bed: AgentBed) -> None:
    bed.start()
    bed.apply(*make_pods("pair", 3))
    remote = wait_all_running(bed, 3)
    leader = next(agent for agent in bed.processes if "leading" in agent.log.read_text())
    other = next(agent for agent in bed.processes if agent is not leader)
    assert "leading" not in other.log.read_text()
    leader.kill()
    wait_for("the other one leads", lambda: "leading" in other.log.read_text())
    bed.apply(*make_pods("later", 2))
    after = wait_all_running(bed, 5)
    assert remote.items() <= after.items()
    assert is_ready(bed.get("node", NODE))
    assert len(bed.get("nodes")["items"]) == 1


def test_pods_are_looked_after_when_a_new_leader_waits_for_its_certificate(bed: AgentBed) -> None:
    bed.apply(*make_pods("kept", 2))
    wait_all_running(bed, 2)
    role = bed.get("clusterrole", "runyard-node")
    role["rules"] = [rule for rule in role["rules"] if "signers" not in rule["resources"]]
    bed.local.kubectl("replace", "-f", "-", stdin=json.dumps(role))
    try:
        bed.processes[-1].kill()
        agent = bed.start()
        before = read_heartbeat(bed)
        wait_for("another leader", lambda: "leading" in agent.log.read_text())
        bed.local.kubectl("label", "pod", "kept-0", "stage=late")
        wait_for("the label at the provider", lambda: bed.get_remote("pods", "-l", "stage=late")["items"])
        wait_for("a heartbeat", lambda: read_heartbeat(bed) != before)
        assert "the kubelet port does not answer yet" not in agent.log.read_text()
    finally:
        bed.apply_manifests()
    assert is_ready(bed.get("node", NODE))


def read_heartbeat(bed: AgentBed) -> str:
    return str(bed.get("lease", NODE, "-n", "kube-node-lease")["spec"]["renewTime"])


def test_a_node_that_is_drained_and_left_is_gone_when_its_agent_was_stopped(bed: AgentBed) -> None:
    bed.apply(*make_pods("drained", 2))
    wait_all_running(bed, 2)
    kubeconfig = f"--kubeconfig={bed.local.kubeconfig}"
    with pytest.raises(AssertionError, match=r"an agent of node k8s\.gpu runs"):
        run_command("node", "leave", kubeconfig)
    printed = run_command("node", "drain", kubeconfig)
    assert "node k8s.gpu is empty" in printed
    bed.processes[-1].stop()
    printed = run_command("node", "leave", kubeconfig)
    assert "node k8s.gpu deleted" in printed
    with pytest.raises(TestbedError, match="not found"):
        bed.get("node", NODE)
    assert bed.get("runtimeclasses", "-l", NODE)["items"] == []
    bed.start()
    bed.wait_ready()


def test_pods_are_left_alone_when_the_flags_lead_to_another_provider(bed: AgentBed) -> None:
    bed.apply(*make_pods("tied", 3))
    before = wait_all_running(bed, 3)
    bed.processes[-1].stop()
    bed.provider.kubectl("create", "namespace", "other")
    flags = [f"--provider-kubeconfig={bed.provider.kubeconfig}", "--provider-namespace=other"]
    health = free_port()
    bed.start(*flags, f"--health-port={health}")
    condition = wait_for("the condition", lambda: find_link(bed, "False", "ProviderChanged"))
    uid = get_uid(bed, "other")
    assert get_uid(bed, TENANT) in condition["message"]
    assert f"--accept-provider={uid}" in condition["message"]
    bed.apply(*make_pods("late", 1))
    wait_for("the reason", lambda: find_reason(bed, "late-0") == condition["reason"])
    wait_for("the event", lambda: "ProviderChanged" in bed.local.kubectl("describe", "node", NODE))
    assert condition["message"].removesuffix("; pods live on") in read_readiness(health)
    with pytest.raises(AssertionError):
        run_command("node", "doctor", f"--kubeconfig={bed.local.kubeconfig}", *flags)
    assert is_ready(bed.get("node", NODE))
    phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in bed.get("pods")["items"]}
    assert phases == {"tied-0": "Running", "tied-1": "Running", "tied-2": "Running", "late-0": "Pending"}

    bed.processes[-1].stop()
    bed.start()
    after = wait_all_running(bed, 4)
    assert before.items() <= after.items()

    bed.processes[-1].stop()
    bed.start(*flags, f"--accept-provider={uid}")
    wait_for("the link", lambda: find_link(bed, "True"))
    for name in phases:
        assert bed.wait_phase(name, "Failed")["status"]["reason"] == "RemotePodGone"
    bed.provider.kubectl("delete", "pods", "--all", "-n", TENANT, "--wait=false")


def test_nothing_new_is_taken_when_the_providers_namespace_is_deleted(bed: AgentBed) -> None:
    bed.processes[-1].stop()
    bed.provider.kubectl("create", "namespace", "brief")
    hold = '{"metadata": {"finalizers": ["runyard.test/hold"]}}'
    bed.provider.kubectl("patch", "namespace", "brief", "--type=merge", "-p", hold)
    bed.start(f"--provider-kubeconfig={bed.provider.kubeconfig}", "--provider-namespace=brief")
    wait_for("the node's provider", lambda: get_uid(bed, "brief") == find_tie(bed))
    bed.provider.kubectl("delete", "namespace", "brief", "--wait=false")
    condition = wait_for("its end", lambda: find_link(bed, "False", "ProviderNamespaceTerminating"))
    assert "namespace brief is being deleted" in condition["message"]
    bed.apply(*make_pods("late", 1))
    wait_for("the reason", lambda: find_reason(bed, "late-0") == condition["reason"])
    bed.provider.kubectl("patch", "namespace", "brief", "--type=merge", "-p", '{"metadata": {"finalizers": []}}')
    wait_for("that it is missing", lambda: find_link(bed, "False", "ProviderNamespaceMissing"))
    bed.provider.kubectl("create", "namespace", "brief")
    bed.wait_phase("late-0", "Running")
    bed.local.kubectl("delete", "pod", "late-0", "--wait=false")
    wait_for("no pods", lambda: not bed.get("pods")["items"])


def find_reason(bed: AgentBed, pod: str) -> str | None:
    """Why a pod waits."""
    return find_condition(bed.get_pod(pod), "PodScheduled").get("reason")


def get_uid(bed: AgentBed, namespace: str) -> str:
    return bed.provider.kubectl("get", "namespace", namespace, "-o", "jsonpath={.metadata.uid}")


def find_tie(bed: AgentBed) -> str | None:
    annotation: str | None = bed.get("node", NODE)["metadata"].get("annotations", {}).get("k8s.gpu/provider")
    return annotation


def read_readiness(port: int) -> str:
    """What `/readyz` answers to an agent that is not ready."""
    with pytest.raises(urllib.error.HTTPError, match="503") as answer:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10)
    return str(answer.value.read().decode())


def test_node_lives_and_takes_nothing_new_when_no_agent_can_read_its_offer(bed: AgentBed) -> None:
    bed.apply(*make_pods("kept", 2))
    before = wait_all_running(bed, 2)
    bed.processes[-1].stop()
    bed.offer_file.write_text("capacity: a mistake")
    try:
        for _ in range(2):
            bed.start()
        lease = bed.get("lease", NODE, "-n", "kube-node-lease")["spec"]["renewTime"]
        bed.apply(*make_pods("late", 1))
        wait_for("the reason", lambda: find_reason(bed, "late-0") == "OfferUnreadable")
        wait_for("a heartbeat", lambda: bed.get("lease", NODE, "-n", "kube-node-lease")["spec"]["renewTime"] > lease)
        node = bed.get("node", NODE)
        assert is_ready(node)
        assert node["status"]["capacity"]["nvidia.com/gpu"] == "64"
        check_ledger(bed, 2)
        assert [one["metadata"]["name"] for one in bed.get("runtimeclasses", "-l", NODE)["items"]] == ["small"]
        bed.local.kubectl("delete", "pod", "kept-0", "--wait=false")
        wait_for("a pod that is gone on both sides", lambda: len(bed.get_remote("pods")["items"]) == 1)
    finally:
        bed.offer_file.write_text(bed.offer)
    after = wait_all_running(bed, 2)
    assert len(before.items() & after.items()) == 1
    check_ledger(bed, 2)
