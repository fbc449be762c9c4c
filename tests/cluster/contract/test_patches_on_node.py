"""Anchors on a real node: stopped in place with their logs, retried after disruptions, started by a launcher."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.identity import Owner, PlatformInputs, RunIdentity
from runyard.manifests.names import run_name
from runyard.manifests.patches import EndPod, Patch, Release, Settle, Stop
from runyard.manifests.render import render_anchor, render_dependents
from runyard.spec.launcher import Launcher
from testbed.cluster import Cluster
from tests.cluster.contract.test_manifests_on_node import BUSYBOX, get, script, wait_for_pod
from tests.cluster.testbed.manifests import wait
from tests.unit.manifests.samples import make_spec

TALKING = "trap 'echo last words; exit 7' TERM; echo first words; while true; do sleep 0.1; done"


@pytest.fixture
def restricted(cluster: Cluster, namespace: str) -> str:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    return namespace


def identify(namespace: str, platform: PlatformInputs | None = None) -> RunIdentity:
    given = platform or PlatformInputs()
    return RunIdentity(run_id="r1", run_uid="u1", project="vision", namespace=namespace, platform=given)


def send(cluster: Cluster, patch: Patch) -> None:
    where = ("-n", patch.namespace, patch.kind.lower(), patch.name)
    cluster.kubectl("patch", *where, "--type=json", "-p", patch.body.decode())


def create(cluster: Cluster, objects: list[dict[str, Any]]) -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": objects}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(items))


def start(cluster: Cluster, spec: EffectiveSpec, identity: RunIdentity, token: str | None = None) -> dict[str, Any]:
    """Create and release the anchor; returns where it is, for further patches."""
    namespace = identity.namespace or ""
    anchor = render_anchor(spec, identity)
    create(cluster, [anchor])
    name = run_name(identity)
    uid = get(cluster, namespace, f"job {name}", "{.metadata.uid}")
    owner = Owner("Job", name, uid)
    if dependents := render_dependents(spec, identity, owner=owner, secret_values={}, token=token):
        create(cluster, dependents)
    where: dict[str, Any] = {"kind": "Job", "name": name, "namespace": namespace, "uid": uid, "seen_generation": 1}
    send(cluster, Release(**where, generation=1))
    return where


def list_pods(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    selector = "runyard.io/run-uid=u1"
    found = json.loads(cluster.kubectl("get", "pods", "-n", namespace, "-l", selector, "-o", "json"))
    pods: list[dict[str, Any]] = found["items"]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


def wait_for_log(cluster: Cluster, namespace: str, text: str) -> None:
    wait_for_pod(cluster, namespace, "r1", until="jsonpath={.status.phase}=Running")
    (pod,) = list_pods(cluster, namespace)
    wait_for(lambda: text in cluster.kubectl("logs", "-n", namespace, pod["metadata"]["name"]))


def wait_for(is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < until, "it did not happen within 60 s"
        time.sleep(0.2)


def test_job_ends_in_place_with_its_log_when_it_is_stopped(cluster: Cluster, restricted: str) -> None:
    spec = script(TALKING, backoff_limit=3, ttl_seconds=0, grace_period_seconds=30)
    where = start(cluster, spec, identify(restricted))
    wait_for_log(cluster, restricted, "first words")
    (pod,) = list_pods(cluster, restricted)

    send(cluster, Stop(**where, generation=2))
    send(cluster, EndPod(name=pod["metadata"]["name"], namespace=restricted, uid=pod["metadata"]["uid"]))
    wait(cluster, restricted, f"job/{where['name']}", until="condition=failed")

    (ended,) = list_pods(cluster, restricted)
    assert ended["metadata"]["uid"] == pod["metadata"]["uid"]
    assert "deletionTimestamp" not in ended["metadata"]
    assert (ended["status"]["phase"], ended["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    log = cluster.kubectl("logs", "-n", restricted, pod["metadata"]["name"])
    assert log.splitlines() == ["first words", "last words"]

    send(cluster, Settle(ttl_seconds=0, **{**where, "seen_generation": 2}, generation=2))
    cluster.kubectl("wait", "-n", restricted, f"job/{where['name']}", "--for=delete", "--timeout=60s")


def test_job_makes_no_pods_when_it_is_stopped_before_any_started(cluster: Cluster, restricted: str) -> None:
    spec = script("echo never", node_selector={"runyard.io/nowhere": "x"}, backoff_limit=3)
    where = start(cluster, spec, identify(restricted))
    cluster.kubectl("wait", "pod", "-n", restricted, "-l", "runyard.io/run-uid=u1", "--for=create", "--timeout=60s")

    send(cluster, Stop(**where, is_suspended=True, generation=2))

    wait_for(lambda: list_pods(cluster, restricted) == [])
    assert get(cluster, restricted, f"job {where['name']}", "{.status.conditions[0].type}") == "Suspended"


def test_suspended_job_ends_without_another_pod_when_it_is_settled_after_a_stop(
    cluster: Cluster, restricted: str
) -> None:
    where = start(cluster, script(TALKING, backoff_limit=3, grace_period_seconds=1), identify(restricted))
    wait_for_log(cluster, restricted, "first words")
    send(cluster, Stop(**where, is_suspended=True, generation=2))
    job = f"job/{where['name']}"
    wait(cluster, restricted, job, until="condition=suspended")
    wait_for(lambda: list_pods(cluster, restricted) == [])

    send(cluster, Settle(ttl_seconds=None, ends_job=True, **{**where, "seen_generation": 2}, generation=2))
    wait(cluster, restricted, job, until="condition=failed")

    assert list_pods(cluster, restricted) == []
    events = cluster.kubectl("events", "-n", restricted, f"--for={job}")
    assert events.count("SuccessfulCreate") == 1


def evict(cluster: Cluster, pod: dict[str, Any]) -> None:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


@pytest.mark.parametrize(("disruptions", "pods"), [(None, 2), ("count", 1)])
def test_job_starts_another_pod_when_the_first_is_evicted(
    cluster: Cluster, restricted: str, disruptions: str | None, pods: int
) -> None:
    where = start(cluster, script(TALKING, disruptions=disruptions), identify(restricted))
    wait_for_log(cluster, restricted, "first words")
    (pod,) = list_pods(cluster, restricted)
    evict(cluster, pod)

    job = f"job/{where['name']}"
    if pods == 1:
        wait(cluster, restricted, job, until="condition=failed")
        reason = '{.status.conditions[?(@.type=="Failed")].reason}'
        assert get(cluster, restricted, job, reason) == "BackoffLimitExceeded"
        return
    wait_for(lambda: pod["metadata"]["uid"] not in [each["metadata"]["uid"] for each in list_pods(cluster, restricted)])
    wait_for_log(cluster, restricted, "first words")
    assert get(cluster, restricted, job, "{.status.failed}") == ""


def test_job_starts_no_further_pod_when_it_is_settled_before_its_controller_has_counted_the_evicted_one(
    cluster: Cluster, restricted: str
) -> None:
    slow = "trap 'sleep 3; exit 7' TERM; echo first words; while true; do sleep 0.1; done"
    where = start(cluster, script(slow, backoff_limit=3, grace_period_seconds=30), identify(restricted))
    wait_for_log(cluster, restricted, "first words")
    (pod,) = list_pods(cluster, restricted)
    evict(cluster, pod)
    send(cluster, Settle(ttl_seconds=None, ends_job=True, **where, generation=1))
    wait(cluster, restricted, f"job/{where['name']}", until="condition=failed")
    assert {one["metadata"]["uid"] for one in list_pods(cluster, restricted)} <= {pod["metadata"]["uid"]}


def test_function_is_started_by_the_launcher_when_it_has_no_command(cluster: Cluster, restricted: str) -> None:
    says = "echo launched $RUNYARD_PROJECT $DHCORE_ENDPOINT $RUNYARD_TOKEN"
    program = f"#!/bin/sh\\n{says}\\n! touch /runyard/x 2>/dev/null\\n"
    launcher = Launcher(
        image=BUSYBOX,
        install=("sh", "-ec", f"printf '{program}' > /runyard/launcher; chmod 555 /runyard/launcher"),
        start=("/runyard/launcher",),
    )
    platform = PlatformInputs(endpoint="https://runyard.example", has_token=True, launcher=launcher)
    spec = make_spec(kind="python", image=BUSYBOX, run_as_user=1000, image_pull_policy="IfNotPresent")
    where = start(cluster, spec, identify(restricted, platform), token="t0ken")
    job = f"job/{where['name']}"
    wait(cluster, restricted, job, until="condition=complete")

    log = cluster.kubectl("logs", "-n", restricted, job, "-c", "main")
    assert log.splitlines() == ["launched vision https://runyard.example t0ken"]
