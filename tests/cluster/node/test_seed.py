"""The seed's YAMLs and figures, in its order: on nodes of KWOK, because no machine here has 63 cores and 8 GPUs.

The provider is another namespace of the same cluster. The last tests change the node to `--allocatable=static`.
"""

import json
import os
import re
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.cluster import Cluster
from testbed.errors import TestbedError
from testbed.pytest_plugin import kubernetes_version, require_machine
from testbed.site import Options
from tests.cluster.node.agent_bed import (
    NODE,
    POLICY_FLAGS,
    AgentBed,
    admit_pod,
    find_condition,
    free_port,
    open_bed,
    run_command,
    wait_for,
)

SEED = Path(__file__).parents[2] / "data" / "virtual_node"
FAKE = "fake"
"""A RuntimeClass of the provider's, which leads pods to its pretended nodes."""
SEEWEB = "seeweb-nvidia"
TENANT, DOMAIN = "skg00000", "cloud.provider.tld"
EIGHTH = "eighth"
"""The third snapshot of the seed is exactly eight pods of this class."""
CAPACITY = {"cpu": "63", "memory": "263567056Ki", "nvidia.com/gpu": "8", "pods": "8"}
LIMITS = {
    f"{SEEWEB}-1xa6000": {"cpu": "8000m", "memory": "32861620Ki", "gpu": "1"},
    f"{SEEWEB}-2xa6000": {"cpu": "16000m", "memory": "65723240Ki", "gpu": "2"},
    f"{SEEWEB}-1xa100": {"cpu": "16000m", "memory": "120Gi", "gpu": "1"},
    EIGHTH: {"cpu": "7625m", "memory": "32900825Ki", "gpu": "1"},
}
HEALTH_PORT = free_port()
OFFER = {
    "capacity": CAPACITY,
    "shapes": [
        {"name": name, "handler": "nvidia", "limits": limits, "remote_class": FAKE} for name, limits in LIMITS.items()
    ],
}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentBed]:
    require_machine(node=False)
    version = kubernetes_version()
    options = Options(kubernetes=version, node=False, dns=False, storage=False, fake_nodes=2, flags=POLICY_FLAGS)
    cluster = Cluster.up(f"seed-{os.getpid()}", options, outlives_us=False)
    try:
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(make_fake_class()))
        with open_bed(cluster, cluster, "provider", tmp_path_factory.mktemp("seed"), offer=OFFER) as bed:
            bed.start(f"--tenant={TENANT}", f"--domain={DOMAIN}", "--routes=service")
            bed.wait_ready()
            bed.wait_filling(*LIMITS)
            yield bed
    finally:
        cluster.down()


def make_fake_class() -> dict[str, Any]:
    toleration = {"key": "kwok.x-k8s.io/node", "operator": "Exists"}
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": FAKE},
        "handler": "nvidia",
        "scheduling": {"nodeSelector": {"type": "kwok"}, "tolerations": [toleration]},
    }


def read_figures(bed: AgentBed) -> tuple[dict[str, str], dict[str, str]]:
    """As the seed asks for them; what jq prints as two documents is one line without it."""
    printed = bed.local.kubectl("get", "node", NODE, "-o", "jsonpath={.status.capacity}{.status.allocatable}")
    capacity, end = json.JSONDecoder().raw_decode(printed)
    return capacity, json.loads(printed[end:])


def apply_seed(bed: AgentBed, name: str) -> str:
    """A YAML of the seed, byte for byte; returns the name of the pod."""
    text = (SEED / f"{name}.yaml").read_text()
    bed.local.kubectl("apply", "-f", "-", stdin=text)
    return str(yaml.safe_load(text)["metadata"]["name"])


def remove(bed: AgentBed, *names: str) -> None:
    bed.local.kubectl("delete", "pod", *names, "--wait=false")
    wait_for("everything free", lambda: read_figures(bed)[1] == CAPACITY)


def test_classes_are_listed_as_in_the_seed(bed: AgentBed) -> None:
    listed = [line.split()[:2] for line in bed.local.kubectl("get", "runtimeclasses").splitlines()]
    assert listed[0] == ["NAME", "HANDLER"]
    for name in ("2xa6000", "1xa6000", "1xa100"):
        assert [f"{SEEWEB}-{name}", "nvidia"] in listed
    rows = [line.split() for line in bed.local.kubectl("get", "runtimeclasses", "-l", NODE).splitlines()]
    assert rows[0] == ["NAME", "HANDLER", "AGE"]
    assert {(row[0], row[1]) for row in rows[1:]} == {(name, "nvidia") for name in LIMITS}
    printed = bed.local.kubectl(
        "get", "runtimeclass", "seeweb-nvidia-1xa6000", "-o", "jsonpath={.metadata.annotations}"
    )
    assert json.loads(printed) == {
        "limits.k8s.gpu/cpu": "8000m",
        "limits.k8s.gpu/default": "1",
        "limits.k8s.gpu/memory": "32861620Ki",
    }


def test_capacity_is_free_when_nothing_runs(bed: AgentBed) -> None:
    assert read_figures(bed) == (CAPACITY, CAPACITY)


def test_missing_resources_come_from_the_class_when_the_first_pod_states_gpus_only(bed: AgentBed) -> None:
    name = apply_seed(bed, "first-pod")
    pod = bed.wait_phase(name, "Running")
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "8", "memory": "32861620Ki", "nvidia.com/gpu": "1"}
    remove(bed, name)


def test_figures_are_those_of_the_seed_when_its_pod_is_allocated(bed: AgentBed) -> None:
    name = apply_seed(bed, "allocated")
    bed.wait_phase(name, "Running")
    allocatable = {"cpu": "61", "memory": "246789840Ki", "nvidia.com/gpu": "7", "pods": "7"}
    assert read_figures(bed) == (CAPACITY, allocatable)
    remove(bed, name)


def test_pod_runs_when_it_is_below_its_class(bed: AgentBed) -> None:
    name = apply_seed(bed, "below-the-class")
    bed.wait_phase(name, "Running")
    remove(bed, name)


def test_pod_stays_pending_when_it_is_above_its_class(bed: AgentBed) -> None:
    name = apply_seed(bed, "above-the-class")
    condition = wait_for("a reason", lambda: find_condition(bed.get_pod(name), "PodScheduled"))
    assert condition["reason"] == "RuntimeClassLimitExceeded"
    assert "64Gi" in condition["message"]
    assert bed.get_pod(name)["status"]["phase"] == "Pending"
    bed.local.kubectl("delete", "pod", name)


def test_pod_runs_when_the_sum_of_its_containers_is_within_the_class(bed: AgentBed) -> None:
    name = apply_seed(bed, "two-containers")
    bed.wait_phase(name, "Running")
    assert read_figures(bed)[1] == {"cpu": "61", "memory": "230012624Ki", "nvidia.com/gpu": "6", "pods": "7"}
    remove(bed, name)


def test_service_is_listed_as_in_the_seed_when_its_yaml_is_applied(bed: AgentBed) -> None:
    name = apply_seed(bed, "service")
    uid = bed.get("service", name)["metadata"]["uid"]
    host = f"{uid}-{TENANT}.{DOMAIN}"
    wait_for("its host", lambda: host in bed.local.kubectl("get", "svc"))
    head, *rows = (re.split(r" {2,}", line.strip()) for line in bed.local.kubectl("get", "svc").splitlines())
    assert head == ["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"]
    shown = next(row for row in rows if row[0] == "inference")
    assert shown[1::2] == ["LoadBalancer", host, shown[5]]
    assert re.fullmatch(r"80:\d+/TCP", shown[4])
    bed.local.kubectl("delete", "svc", name, "--timeout=60s")


LOCAL_STORAGE = {
    "hostPath": {"path": "/data"},
    "persistentVolumeClaim": {"claimName": "data"},
}


def test_pods_that_break_the_seeds_restrictions_wait_and_the_field_is_named(bed: AgentBed) -> None:
    plain = make_eighth(0)["spec"]
    container = plain["containers"][0]
    broken: dict[str, tuple[dict[str, Any], str]] = {
        f"with-{kind.lower()}": ({**plain, "volumes": [{"name": "data", kind: volume}]}, f"spec.volumes[0].{kind}")
        for kind, volume in LOCAL_STORAGE.items()
    }
    ports = [{"containerPort": 80, "hostPort": 8080}]
    broken |= {
        "exposed": ({**plain, "containers": [{**container, "ports": ports}]}, "hostPort"),
        "host-network": ({**plain, "hostNetwork": True}, "hostNetwork"),
        "privileged": (
            {**plain, "containers": [{**container, "securityContext": {"privileged": True}}]},
            "privileged",
        ),
    }
    for name, (spec, _) in broken.items():
        bed.apply({**make_eighth(0), "metadata": {"name": name, "namespace": "default"}, "spec": spec})
    for name, (_, field) in broken.items():
        condition = wait_for(f"the reason of {name}", partial(find_scheduled, bed, name))
        assert condition["reason"] in ("UnsupportedField", "PodSecurityViolation")
        assert field in condition["message"]
        assert bed.get_pod(name)["status"]["phase"] == "Pending"
    bed.local.kubectl("delete", "pod", *broken)


def find_scheduled(bed: AgentBed, name: str) -> dict[str, Any]:
    return find_condition(bed.get_pod(name), "PodScheduled")


def test_eight_of_ten_run_and_the_others_follow_when_there_is_room(bed: AgentBed) -> None:
    pods = [make_eighth(number) for number in range(10)]
    bed.apply(*pods)

    def count() -> tuple[int, int]:
        found = bed.get("pods")["items"]
        waiting = [pod for pod in found if find_condition(pod, "PodScheduled").get("reason") == "InsufficientCapacity"]
        return sum(pod["status"]["phase"] == "Running" for pod in found), len(waiting)

    wait_for("eight that run and two that wait", lambda: count() == (8, 2))
    binders = {event["source"].get("component") for event in list_events(bed, "Scheduled", "eighth-")}
    assert binders == {NODE}
    full = {"cpu": "2", "memory": "360456Ki", "nvidia.com/gpu": "0", "pods": "0"}
    assert read_figures(bed) == (CAPACITY, full)
    assert len(bed.get_remote("pods")["items"]) == 8
    found = bed.get("pods")["items"]
    first = {pod["metadata"]["uid"] for pod in found if pod["status"]["phase"] == "Running"}
    running = next(pod["metadata"]["name"] for pod in found if pod["status"]["phase"] == "Running")
    message = next(
        one["message"]
        for pod in found
        if (one := find_condition(pod, "PodScheduled")).get("reason") == "InsufficientCapacity"
    )
    assert "nvidia.com/gpu: 1 asked, 0 free" in message
    bed.local.kubectl("delete", "pod", running, "--wait=false")
    wait_for("another one in its place", lambda: count() == (8, 1))
    assert read_figures(bed) == (CAPACITY, full)
    now = [pod for pod in bed.get("pods")["items"] if pod["status"]["phase"] == "Running"]
    assert len(first & {pod["metadata"]["uid"] for pod in now}) == 7
    assert all(pod["spec"]["schedulerName"] == NODE for pod in now)
    assert not any(find_condition(pod, "DisruptionTarget") for pod in now)
    assert list_events(bed, "Preempted", "") == []
    remove(bed, *(pod["metadata"]["name"] for pod in bed.get("pods")["items"]))
    assert bed.get_remote("pods")["items"] == []


def list_events(bed: AgentBed, reason: str, prefix: str) -> list[dict[str, Any]]:
    """Events of pods of the namespace `default`, by reason and the beginning of the pod's name."""
    found = bed.get("events", f"--field-selector=reason={reason}")["items"]
    return [event for event in found if event["involvedObject"]["name"].startswith(prefix)]


def test_nothing_is_preempted_when_a_pod_of_higher_priority_tolerates_every_taint(bed: AgentBed) -> None:
    """Half of the node is free, but the default scheduler counts the running pods twice and sees it full."""
    bed.apply(*(make_eighth(number) for number in range(4)))
    for number in range(4):
        bed.wait_phase(f"eighth-{number}", "Running")
    before = {pod["metadata"]["uid"] for pod in bed.get("pods")["items"]}
    requirement = {"key": "metadata.name", "operator": "In", "values": [NODE]}
    term = {"nodeSelectorTerms": [{"matchFields": [requirement]}]}
    daemon = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "daemon", "namespace": "kube-system"},
        "spec": {
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}},
            "containers": [{"name": "main", "image": "busybox:1.36"}],
        },
    }
    bed.apply(daemon)

    def is_judged() -> bool:
        going = [pod for pod in bed.get("pods")["items"] if "deletionTimestamp" in pod["metadata"]]
        assert going == [], "the default scheduler preempts"
        return count_denials(bed) > 0

    wait_for("a preemption that is refused", is_judged)
    bed.local.kubectl("delete", "pod", "daemon", "-n", "kube-system", "--force", "--grace-period=0")
    found = bed.get("pods")["items"]
    assert {pod["metadata"]["uid"] for pod in found} == before
    assert all(pod["status"]["phase"] == "Running" for pod in found)
    assert not any(find_condition(pod, "DisruptionTarget") for pod in found)
    remove(bed, *(f"eighth-{number}" for number in range(4)))


def count_denials(bed: AgentBed) -> float:
    """How often the policy against preemption has refused something."""
    lines = bed.local.kubectl("get", "--raw", "/metrics").splitlines()
    name = "apiserver_validating_admission_policy_check_total{"
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith(name) and f'policy="{NODE}-preemption"' in line and 'enforcement_action="deny"' in line
    )


def make_eighth(number: int) -> dict[str, Any]:
    container = {"name": "nvidia", "image": "busybox:1.36", "command": ["sleep", "3600"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"eighth-{number}", "namespace": "default"},
        "spec": {"runtimeClassName": EIGHTH, "containers": [container]},
    }


def test_nobody_else_places_a_pod_on_the_node_when_it_is_named_or_bound(bed: AgentBed) -> None:
    check_fence(bed)


def check_fence(bed: AgentBed) -> None:
    """Not even an administrator places a pod on the node by hand."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "intruder", "namespace": "default"},
        "spec": {"containers": [{"name": "one", "image": "busybox:1.36"}]},
    }
    named = {**pod, "spec": {**pod["spec"], "nodeName": NODE}}  # type: ignore[dict-item]
    with pytest.raises(TestbedError, match=r"k8s\.gpu"):
        bed.apply(named)
    bed.apply({**pod, "spec": {**pod["spec"], "schedulerName": "nobody"}})  # type: ignore[dict-item]
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "intruder", "namespace": "default"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    }
    path = "/api/v1/namespaces/default/pods/intruder/binding"
    with pytest.raises(TestbedError, match=r"k8s\.gpu"):
        bed.local.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(binding))
    bed.local.kubectl("delete", "pod", "intruder", "--force", "--grace-period=0")


@pytest.fixture(scope="module")
def static(bed: AgentBed) -> AgentBed:
    """The same node, bound by the default scheduler. Tests that ask for it stand last."""
    bed.processes[-1].stop()
    bed.apply_manifests("--allocatable=static")
    bed.start("--allocatable=static", f"--health-port={HEALTH_PORT}")
    bed.wait_ready()
    wait_for("pods that are filled for the default scheduler", lambda: is_filled(bed, make_eighth(0)))
    # The apiserver takes up a changed policy a moment later.
    wait_for("a fence that lets the default scheduler in", lambda: "only system:kube-scheduler" in read_fence(bed))
    return bed


def read_fence(bed: AgentBed) -> str:
    """What somebody is told who names the node."""
    pod = make_eighth(0)
    named = {**pod, "spec": {**pod["spec"], "nodeName": NODE}}
    with pytest.raises(TestbedError) as refused:
        bed.local.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(named))
    return str(refused.value)


def is_filled(bed: AgentBed, pod: dict[str, Any]) -> bool:
    made = admit_pod(bed.local, pod)
    if made is None:
        return False
    spec = made["spec"]
    keys = [toleration.get("key") for toleration in spec["tolerations"]]
    has_limits = bool(spec["containers"][0].get("resources"))
    return spec["schedulerName"] == "default-scheduler" and has_limits and f"{NODE}/agent" in keys


def test_the_default_scheduler_binds_no_more_than_fits_when_figures_are_static(static: AgentBed) -> None:
    bed = static
    bed.apply(*map(make_eighth, range(10)))

    def look() -> tuple[int, int]:
        """How many run and wait; nobody ever binds a ninth."""
        found = bed.get("pods")["items"]
        assert sum("nodeName" in pod["spec"] for pod in found) <= 8
        waiting = [pod for pod in found if find_condition(pod, "PodScheduled").get("reason") == "Unschedulable"]
        return sum(pod["status"]["phase"] == "Running" for pod in found), len(waiting)

    try:
        wait_for("eight that run and two that wait", lambda: look() == (8, 2))
    except AssertionError as error:
        told = [find_condition(pod, "PodScheduled") for pod in bed.get("pods")["items"]]
        raise AssertionError(f"{error}; it is: {told}; {bed.local.kubectl('describe', 'node', NODE)}") from None
    assert read_figures(bed) == (CAPACITY, CAPACITY)
    assert len(bed.get_remote("pods")["items"]) == 8
    wait_for("a ledger of eight", lambda: read_ledger() == 8)
    found = bed.get("pods")["items"]
    assert {pod["spec"]["schedulerName"] for pod in found} == {"default-scheduler"}
    running = [pod["metadata"]["name"] for pod in found if pod["status"]["phase"] == "Running"]
    bed.local.kubectl("delete", "pod", *running[:2], "--wait=false")
    wait_for("the others in their place", lambda: look() == (8, 0))
    wait_for("a ledger of eight", lambda: read_ledger() == 8)
    bed.local.kubectl("delete", "pods", "--all", "--wait=false")
    wait_for("nothing on either side", lambda: not bed.get("pods")["items"] and not bed.get_remote("pods")["items"])
    wait_for("an empty ledger", lambda: read_ledger() == 0)


def read_ledger() -> int:
    """How many pods hold resources of the node, as its metrics say."""
    with urllib.request.urlopen(f"http://127.0.0.1:{HEALTH_PORT}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return round(float(next(line.split()[-1] for line in lines if line.startswith('runyard_node_pods{place="bound"}'))))


def test_nobody_but_the_default_scheduler_places_a_pod_when_figures_are_static(static: AgentBed) -> None:
    check_fence(static)
    printed = run_command("node", "doctor", f"--kubeconfig={static.folder / 'local.kubeconfig'}")
    assert "ERROR" not in printed
    assert "--allocatable=static" in printed


def test_the_default_scheduler_places_nothing_when_the_provider_is_gone_and_figures_are_static(
    static: AgentBed,
) -> None:
    bed = static
    bed.processes[-1].stop()
    bed.start("--allocatable=static", f"--provider-kubeconfig={bed.local.kubeconfig}", "--provider-namespace=nowhere")
    hold = {"key": f"{NODE}/takes-no-pods", "effect": "NoSchedule"}
    wait_for("the taint", lambda: hold in bed.get("node", NODE)["spec"]["taints"])
    bed.apply(make_eighth(0))
    told = wait_for("the scheduler's word", lambda: find_condition(bed.get_pod("eighth-0"), "PodScheduled"))
    assert (told["status"], told["reason"]) == ("False", "Unschedulable")
    assert "taint" in told["message"]
    bed.processes[-1].stop()
    bed.start("--allocatable=static")
    bed.wait_phase("eighth-0", "Running")
    assert hold not in bed.get("node", NODE)["spec"]["taints"]
    remove(bed, "eighth-0")
