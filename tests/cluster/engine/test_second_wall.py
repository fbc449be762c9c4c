"""The second wall: kubectl users who go around Runyard meet the policy in the apiserver; Runyard's own runs pass."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.domain.resolution import resolve
from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings
from runyard.engines.kubernetes.project_rules import WallInputs, render_wall
from runyard.engines.kubernetes.projects import Projects
from runyard.kube import Client, load_kubeconfig
from runyard.kube.resources import (
    NAMESPACES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from runyard.spec.launcher import Launcher
from runyard.spec.policy import read_policy
from runyard.spec.problems import Refused
from testbed.cluster import Cluster
from testbed.pytest_plugin import kubernetes_version
from tests.adversary import bypasses, words
from tests.adversary.bypasses import Change
from tests.adversary.cases import Case
from tests.adversary.generator import CASES_PER_WORLD, draw_case, draw_world
from tests.adversary.platform_access import ENDPOINT
from tests.adversary.trial import Stage, make_stage, read_case, render_case
from tests.adversary.victim import ANCHOR, JOB, SERVICE, WORLD, Victim
from tests.cluster.contract.admission import Admission
from tests.cluster.engine.kubectl_users import KubectlUser, ensure, make_editor
from tests.cluster.kube.conditions import wait_until

Object = dict[str, Any]
PROJECT, NAMESPACE = "vision", "runyard-vision"
SETTINGS = KubernetesSettings(installation="i1", endpoint=ENDPOINT)
WORLDS = int(os.environ.get("RUNYARD_WALL_WORLDS", "4"))
CASES = int(os.environ.get("RUNYARD_WALL_CASES", "20"))
SEED = int(os.environ.get("RUNYARD_WALL_SEED", "7"))
PATHS = {
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Service": "/api/v1/namespaces/{}/services",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Pod": "/api/v1/namespaces/{}/pods",
}

JOB_REFUSALS = {
    "host network": "pod.host",
    "host pids": "pod.host",
    "root": "pod.root",
    "root group": "pod.root",
    "root in the container": "pod.identity",
    "may be root": "pod.root",
    "privilege escalation": "pod.escalation",
    "capabilities kept": "pod.capabilities",
    "capabilities added": "pod.capabilities",
    "seccomp off": "pod.seccomp",
    "supplemental groups": "pod.identity",
    "sysctls": "pod.identity",
    "node path": "pod.volumes",
    "host port": "pod.ports",
    "token mounted": "pod.token",
    "token projected": "pod.volumes",
    "second container": "pod.containers",
    "init container": "pod.init",
    "chosen node": "pod.node",
    "service account changed": "pod.account",
    "gpu of another name": "resources.names",
    "volume of another claim": "volumes.claim_name.default",
    "another's claim": "volumes.claim_name.default",
    "variable of another Secret": "pod.env",
    "all of a Secret": "pod.env",
    "Secret as a volume": "pod.secrets",
    "extended resource": "resources.names",
    "toleration of everything": "tolerations.default",
    "toleration of the control plane": "tolerations.default",
    "toleration of critical add-ons' nodes": "tolerations.default",
    "toleration of RKE's control plane": "tolerations.default",
    "system priority class": "priority_class.options",
    "platform's variable added": "envs.endpoint",
    "unnamed existing claim": "volumes.claim_name.default",
    "namespaces by affinity": "affinity.namespaces.default",
    "denied secret": "secrets.denied",
    "gpus above max": "resources.gpu.max",
    "memory above max": "resources.mem.max",
    "disk above max": "resources.disk.max",
    "claim above max": "volumes.size.max",
    "claim of another class": "volumes.storage_class.locked",
    "denied volume type": "volumes.type.denied",
    "denied toleration": "tolerations.denied",
    "denied node label": "node_selector.denied",
    "denied node label by affinity": "node_selector.denied",
    "image not allowed": "image.allowed",
    "image of a look-alike registry": "image.allowed",
    "pull policy unlocked": "image_pull_policy.locked",
    "grace period unlocked": "grace_period.locked",
    "denied variable from a secret": "envs.denied",
    "secret under another variable's name": "pod.env",
    "denied variable": "envs.denied",
}
"""The rule that the refusal names, by the bypass of a job."""
SERVICE_REFUSALS = {
    "load balancer": "service_type.default",
    "external addresses": "service.addresses",
    "no Pod Security": "pod.capabilities",
    "replicas above max": "replicas.max",
}
HAS_IMAGE_VOLUMES = kubernetes_version() != "1.34"
CHANGES: dict[str, Change] = {
    **bypasses.JOB_BYPASSES,
    **bypasses.POLICY_BYPASSES,
    **bypasses.SERVICE_BYPASSES,
    **bypasses.SERVICE_POLICY_BYPASSES,
}


@pytest.fixture(scope="module")
def stage() -> Stage:
    return make_stage(WORLD)


@pytest.fixture
async def client(control_plane: Cluster) -> AsyncIterator[Client]:
    async with Client.connect(load_kubeconfig(control_plane.kubeconfig)) as client:
        yield client


@pytest.fixture
async def member(control_plane: Cluster, client: Client, stage: Stage, tmp_path: Path) -> KubectlUser:
    """An editor of a prepared project. Pod Security is off, so that the wall alone refuses."""
    await Projects(client, SETTINGS).ensure_project(PROJECT, stage.admin_rules)
    await furnish(client, NAMESPACE, stage.admin_rules)
    off = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    await client.patch(NAMESPACES, NAMESPACE, off)
    return await make_editor(control_plane, client, namespace=NAMESPACE, folder=tmp_path)


async def furnish(client: Client, namespace: str, rules: AdminRules) -> None:
    """Make what pods refer to."""
    accounts = {"default", "admin", *WallInputs(rules, project=PROJECT).iter_profile_values("service_account")}
    for name in accounts:
        await ensure(client, SERVICE_ACCOUNTS, {"metadata": {"name": name}}, namespace=namespace)
    for name in words.PRIORITY_CLASSES:
        if not name.startswith("system-"):
            await ensure(client, PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 5})
    for name in (*words.RUNTIME_CLASSES, "runc"):
        await ensure(client, RUNTIME_CLASSES, {"metadata": {"name": name}, "handler": "h"})


def render(case: Case, stage: Stage) -> list[Object]:
    return render_case(case, stage, resolve(read_case(case), stage.admin_rules, stage.inventory))


def list_sent(objects: Iterable[Object]) -> list[Object]:
    """What the wall looks at: also the pod that a controller would make."""
    kept = [item for item in objects if item["kind"] in PATHS]
    workload = next(item for item in kept if item["kind"] in ("Job", "Deployment"))
    template = workload["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **template["metadata"]}}
    return [*kept, {**pod, "spec": template["spec"]}]


@pytest.mark.parametrize(("case", "name", "rule"), [
    *((JOB, name, rule) for name, rule in JOB_REFUSALS.items() if HAS_IMAGE_VOLUMES or name != "denied volume type"),
    *((SERVICE, name, rule) for name, rule in SERVICE_REFUSALS.items()),
])  # fmt: skip
async def test_kubectl_is_refused_by_a_named_rule_when_it_goes_around_runyard(
    member: KubectlUser, stage: Stage, case: Case, name: str, rule: str
) -> None:
    victim = Victim(render(case, stage))
    CHANGES[name](victim)
    refusals = await asyncio.to_thread(member.create, *list_sent(victim.objects))
    assert f"denied request: rule {rule}" in refusals


@pytest.mark.parametrize("case", [JOB, SERVICE, ANCHOR], ids=["job", "service", "anchor"])
async def test_runs_of_runyard_pass_when_the_wall_stands(member: KubectlUser, stage: Stage, case: Case) -> None:
    assert await asyncio.to_thread(member.create, *list_sent(render(case, stage))) == ""


async def test_pod_security_refuses_too_when_the_project_is_prepared_again(
    member: KubectlUser, client: Client, stage: Stage
) -> None:
    victim = Victim(render(JOB, stage))
    CHANGES["seccomp off"](victim)
    await Projects(client, SETTINGS).ensure_project(PROJECT, stage.admin_rules)
    refusals = await asyncio.to_thread(member.create, *list_sent(victim.objects))
    assert 'violates PodSecurity "restricted:latest": seccompProfile' in refusals


async def test_launcher_passes_and_no_other_init_container_does_when_there_is_one(
    client: Client, control_plane: Cluster
) -> None:
    launcher = Launcher(image="registry.example/launcher:1", install=("install", "a b"), start=("start",))
    settings = replace(SETTINGS, launcher=launcher)
    await Projects(client, settings).ensure_project("launched", AdminRules())
    namespace = "runyard-launched"
    await furnish(client, namespace, AdminRules())
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    init = {
        "name": "runyard-launcher",
        "image": launcher.image,
        "command": list(launcher.install),
        "resources": {"limits": {"memory": "128Mi"}},
        "securityContext": context,
    }

    async def ask(**changes: Any) -> str:
        pod = make_pod("busybox")
        pod["spec"]["initContainers"] = [{**init, **changes}]
        async with Admission.connect(control_plane) as admission:
            return (await admission.ask(PATHS["Pod"].format(namespace), pod)).message

    assert await ask() == ""
    for changes in ({"image": "evil"}, {"command": ["sh"]}, {"name": "other"}, {"restartPolicy": "Always"}):
        assert "rule pod.init" in await ask(**changes), changes


async def test_wall_follows_when_the_policy_changes(client: Client, control_plane: Cluster, tmp_path: Path) -> None:
    projects = Projects(client, SETTINGS)
    policies = [read_policy({"image": {"allowed": [f"{host}.example/*"]}}) for host in ("a", "b")]
    rules = [AdminRules(policy=policy) for policy in policies]
    await projects.ensure_project("changing", rules[0])
    member = await make_editor(control_plane, client, namespace="runyard-changing", folder=tmp_path)
    await furnish(client, "runyard-changing", AdminRules())
    pod = make_pod("b.example/x:1")
    assert "rule image.allowed" in await asyncio.to_thread(member.create, pod)
    await projects.ensure_project("changing", rules[1])
    assert await asyncio.to_thread(member.create, pod) == ""
    assert "rule image.allowed" in await asyncio.to_thread(member.create, make_pod("a.example/x:1"))


def make_pod(image: str) -> Object:
    """A pod that no rule refuses, as far as its image is not ruled."""
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "main", "image": image, "securityContext": context}],
        },
    }


async def test_accepted_runs_of_drawn_policies_pass_when_their_wall_stands(
    client: Client, control_plane: Cluster
) -> None:
    stages = {}
    for number in range(WORLDS):
        try:
            stages[number] = make_stage(draw_world(SEED, number))
        except Refused:
            continue
        for project in words.PROJECTS:
            await raise_wall(client, stages[number].admin_rules, project=project, namespace=f"w{number}-{project}")
    await wait_until(lambda: stands(control_plane, f"w{max(stages)}-{words.PROJECTS[-1]}"))
    refused, passed = [], 0
    async with Admission.connect(control_plane) as admission:
        for number, drawn in stages.items():
            for case, objects in draw_accepted(drawn, number):
                for item in list_sent(objects):
                    namespace = f"w{number}-{case.project}"
                    body = json.loads(json.dumps({**item, "metadata": {**item["metadata"], "namespace": namespace}}))
                    answer = await admission.ask(PATHS[item["kind"]].format(namespace), body)
                    passed += answer.is_accepted
                    if "ValidatingAdmissionPolicy" in answer.message and "IPv6" not in answer.message:
                        refused.append(f"world {number}: {answer.message}\n{json.dumps(body['spec'])}")
    assert not refused, "\n".join(refused[:5])
    assert passed > WORLDS * CASES


def draw_accepted(stage: Stage, number: int) -> Iterable[tuple[Case, list[Object]]]:
    """Runs that Runyard accepts in that world."""
    found = 0
    for index in range(number * CASES_PER_WORLD, (number + 20) * CASES_PER_WORLD):
        case = draw_case(SEED, index, stage.world)
        try:
            resolution = resolve(read_case(case), stage.admin_rules, stage.inventory)
            objects = [] if resolution.refusals else render_case(case, stage, resolution)
        except Refused:
            continue
        if objects:
            yield case, objects
            found += 1
        if found >= CASES:
            return


async def raise_wall(client: Client, rules: AdminRules, *, project: str, namespace: str) -> None:
    await ensure(client, NAMESPACES, {"metadata": {"name": namespace}})
    await furnish(client, namespace, rules)
    wall = render_wall(WallInputs(rules, project=project, endpoint=ENDPOINT), namespace=namespace, labels={}, owner="t")
    for policy in wall.policies:
        await ensure(client, VALIDATING_ADMISSION_POLICIES, policy)
    for binding in wall.bindings:
        await ensure(client, VALIDATING_ADMISSION_POLICY_BINDINGS, binding)


async def stands(plane: Cluster, namespace: str) -> bool:
    async with Admission.connect(plane) as admission:
        probe = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "runyard-wall-probe"}}
        answer = await admission.ask(PATHS["Service"].format(namespace), {**probe, "spec": {"ports": [{"port": 1}]}})
    return "rule service.probe" in answer.message


async def test_expressions_have_the_right_types_when_the_apiserver_checks_them(
    client: Client, stage: Stage, member: KubectlUser
) -> None:
    async def list_unchecked() -> list[Object]:
        listed = await client.list(VALIDATING_ADMISSION_POLICIES)
        return [item for item in listed.items if "typeChecking" not in (item.get("status") or {})]

    await wait_until(lambda: _is_empty(list_unchecked()))
    listed = await client.list(VALIDATING_ADMISSION_POLICIES)
    checked = [item["status"]["typeChecking"] for item in listed.items]
    warnings = [warning for one in checked for warning in one.get("expressionWarnings", ())]
    assert listed.items
    assert warnings == []


async def _is_empty(listing: Any) -> bool:
    return not await listing
