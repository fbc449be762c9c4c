"""Our Pod Security beside the real PodSecurity admission plugin: the same verdicts, in the same words."""

import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from runyard.pods.security import Level, check_pod_security, check_template_security, format_violations, known_fields
from testbed.cluster import Cluster
from tests.cluster.contract.admission import Admission, Answer
from tests.cluster.contract.pod_changes import Object, iter_containers
from tests.cluster.contract.pod_generator import make_pod
from tests.cluster.contract.pod_mutations import damage_pod

SEED = 20_360
PODS = 2_000
DAMAGED_PODS = 1_500
TEMPLATES = 400
DEBUGGERS = 200
JUDGING_LEVELS: tuple[Level, ...] = ("baseline", "restricted")
LABELS = "pod-security.kubernetes.io/"
SCHEMAS = {
    "Pod": known_fields.POD,
    "PodTemplateSpec": known_fields.TEMPLATE,
    "PodSpec": known_fields.SPEC,
    "Container": known_fields.CONTAINER,
    "EphemeralContainer": known_fields.EPHEMERAL_CONTAINER,
    "PodSecurityContext": known_fields.POD_SECURITY_CONTEXT,
    "SecurityContext": known_fields.SECURITY_CONTEXT,
    "AppArmorProfile": known_fields.APPARMOR_PROFILE,
    "SeccompProfile": known_fields.SECCOMP_PROFILE,
    "SELinuxOptions": known_fields.SELINUX_OPTIONS,
    "WindowsSecurityContextOptions": known_fields.WINDOWS_OPTIONS,
    "Capabilities": known_fields.CAPABILITIES,
    "Sysctl": known_fields.SYSCTL,
    "PodOS": known_fields.OS,
    "ContainerPort": known_fields.PORT,
    "Probe": known_fields.PROBE,
    "Lifecycle": known_fields.LIFECYCLE,
    "LifecycleHandler": known_fields.LIFECYCLE_HANDLER,
    "HTTPGetAction": known_fields.HTTP_GET,
    "TCPSocketAction": known_fields.TCP_SOCKET,
    "Volume": known_fields.VOLUME,
}


@dataclass(frozen=True, slots=True)
class Policy:
    """A level in a version, and the namespace where the plugin enforces it; `label` is what the namespace says."""

    level: Level
    version: str
    label: str

    @property
    def namespace(self) -> str:
        return f"{self.level}-{self.label.replace('.', '-')}"


@pytest.fixture
def minor(control_plane: Cluster) -> int:
    return int(control_plane.site.options.kubernetes.partition(".")[2])


@pytest.fixture
async def admission(control_plane: Cluster) -> AsyncIterator[Admission]:
    async with Admission.connect(control_plane) as admission:
        yield admission


def latest(level: Level, minor: int) -> Policy:
    """What the namespace calls latest is the server's own version."""
    return Policy(level, f"1.{minor}", "latest")


async def ensure_namespace(admission: Admission, name: str, labels: Mapping[str, str]) -> None:
    namespace = {"metadata": {"name": name, "labels": {LABELS + key: value for key, value in labels.items()}}}
    answer = await admission.ask("/api/v1/namespaces", namespace, is_dry_run=False)
    assert answer.status in (201, 409), answer
    account = {"metadata": {"name": "default"}}
    answer = await admission.ask(f"/api/v1/namespaces/{name}/serviceaccounts", account, is_dry_run=False)
    assert answer.status in (201, 409), answer


async def ensure_policy(admission: Admission, policy: Policy) -> None:
    await ensure_namespace(admission, policy.namespace, {"enforce": policy.level, "enforce-version": policy.label})


def pods_path(policy: Policy) -> str:
    return f"/api/v1/namespaces/{policy.namespace}/pods"


def compare(pod: Object, answer: Answer, policy: Policy) -> str | None:
    """The difference between our verdict and the server's, or None."""
    try:
        ours = format_violations(check_pod_security(pod, level=policy.level, version=policy.version))
    except ValueError as error:
        return None if answer.is_unreadable else f"{policy}: we refuse to read it: {error}; the server: {answer}: {pod}"
    theirs = "" if answer.is_accepted else answer.find_violations()
    if ours == theirs or answer.is_unreadable:
        return None
    return f"{policy}: ours: {ours}\ntheirs: {theirs if theirs is not None else answer}\n{pod}"


async def test_known_fields_are_all_that_the_server_has_when_its_schema_is_read(
    admission: Admission, minor: int
) -> None:
    schemas = (await admission.read("/openapi/v3/api/v1"))["components"]["schemas"]
    for name, fields in SCHEMAS.items():
        served = set(schemas[f"io.k8s.api.core.v1.{name}"]["properties"])
        assert served <= fields, name
        if minor == 36:
            assert served == fields, name
    metadata = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]
    assert set(metadata) == known_fields.METADATA


async def test_verdict_and_words_are_the_plugins_when_pods_are_generated(admission: Admission, minor: int) -> None:
    chance = random.Random(SEED)
    older = [Policy(level, f"1.{old}", f"v1.{old}") for level in JUDGING_LEVELS for old in range(minor + 1)]
    for policy in (*older, *(latest(level, minor) for level in JUDGING_LEVELS)):
        await ensure_policy(admission, policy)
    questions = [
        (pod, policy)
        for pod in [make_pod(chance, minor=minor) for _ in range(PODS)]
        for policy in (latest("baseline", minor), latest("restricted", minor), chance.choice(older))
    ]

    answers = await admission.ask_all((pods_path(policy), pod) for pod, policy in questions)

    assert [answer for answer in answers if answer.is_unreadable] == [], "only valid pods reach the plugin"
    asked = list(zip(questions, answers, strict=True))
    assert [found for (pod, policy), answer in asked if (found := compare(pod, answer, policy))] == []
    for level in JUDGING_LEVELS:
        admitted = sum(answer.is_accepted for (_, policy), answer in asked if policy == latest(level, minor))
        assert 0.35 < admitted / PODS < 0.7, f"{level}: {admitted} of {PODS}"
    seen = Counter(
        violation.check
        for pod, policy in questions
        for violation in check_pod_security(pod, level=policy.level, version=policy.version)
    )
    expected = {check for level in JUDGING_LEVELS for check in names_of_checks(level, minor)}
    assert seen.keys() == expected
    assert min(seen.values()) >= 10, seen


def names_of_checks(level: Level, minor: int) -> set[str]:
    """All that can be held against a pod that does everything wrong."""
    context: Object = {
        "privileged": True,
        "capabilities": {"add": ["SYS_ADMIN"]},
        "procMount": "Unmasked",
        "runAsUser": 0,
        "seLinuxOptions": {"type": "spc_t"},
        "seccompProfile": {"type": "Unconfined"},
        "appArmorProfile": {"type": "Unconfined"},
        "windowsOptions": {"hostProcess": True},
    }
    container: Object = {
        "name": "main",
        "securityContext": context,
        "ports": [{"containerPort": 80, "hostPort": 80}],
        "livenessProbe": {"tcpSocket": {"host": "example.com", "port": 80}},
    }
    spec: Object = {
        "containers": [container],
        "hostPID": True,
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
        "securityContext": {"sysctls": [{"name": "vm.swappiness", "value": "1"}]},
    }
    return {violation.check for violation in check_pod_security({"spec": spec}, level=level, version=f"1.{minor}")}


async def test_nothing_is_misread_when_pods_are_damaged(admission: Admission, minor: int) -> None:
    chance = random.Random(SEED + 1)
    policies = [latest(level, minor) for level in JUDGING_LEVELS]
    for policy in policies:
        await ensure_policy(admission, policy)
    questions = [
        (damage_pod(chance, make_pod(chance, minor=minor)), chance.choice(policies)) for _ in range(DAMAGED_PODS)
    ]

    answers = await admission.ask_all((pods_path(policy), pod) for pod, policy in questions)

    asked = list(zip(questions, answers, strict=True))
    assert [found for (pod, policy), answer in asked if (found := compare(pod, answer, policy))] == []
    assert sum(answer.is_unreadable for answer in answers) > DAMAGED_PODS / 4
    assert sum(not answer.is_unreadable for answer in answers) > DAMAGED_PODS / 10


async def test_words_are_those_of_the_warning_when_a_job_carries_the_template(admission: Admission, minor: int) -> None:
    chance = random.Random(SEED + 2)
    for level in JUDGING_LEVELS:
        await ensure_namespace(admission, f"warn-{level}", {"warn": level, "warn-version": "latest"})
    questions: list[tuple[Level, Object]] = []
    for _ in range(TEMPLATES):
        pod = make_pod(chance, minor=minor)
        template = {
            "metadata": {"annotations": pod["metadata"].get("annotations")},
            "spec": {**pod["spec"], "restartPolicy": "Never"},
        }
        questions.append((chance.choice(JUDGING_LEVELS), template))

    answers = await admission.ask_all(
        (
            f"/apis/batch/v1/namespaces/warn-{level}/jobs",
            {"metadata": {"generateName": "job-"}, "spec": {"template": template}},
        )
        for level, template in questions
    )

    assert [answer for answer in answers if not answer.is_accepted] == []
    for (level, template), answer in zip(questions, answers, strict=True):
        violations = check_template_security(template, level=level, version=f"1.{minor}")
        expected = (
            [f'would violate PodSecurity "{level}:latest": {format_violations(violations)}'] if violations else []
        )
        assert [text for text in answer.warnings if "PodSecurity" in text] == expected, template


@pytest.mark.parametrize("level", JUDGING_LEVELS)
async def test_ephemeral_containers_are_judged_when_they_join_a_running_pod(
    admission: Admission, minor: int, level: Level
) -> None:
    policy = latest(level, minor)
    await ensure_policy(admission, policy)
    answer = await admission.ask(pods_path(policy), OBEYING_POD, is_dry_run=False)
    assert answer.is_accepted, answer
    path = f"{pods_path(policy)}/{OBEYING_POD['metadata']['name']}"
    pod = await admission.read(path)
    del pod["metadata"]["resourceVersion"]  # the scheduler writes into its status meanwhile
    chance = random.Random(SEED + 3)
    joined = [
        {**pod, "spec": {**pod["spec"], "ephemeralContainers": [make_debugger(chance, minor)]}}
        for _ in range(DEBUGGERS)
    ]

    answers = [await admission.ask(f"{path}/ephemeralcontainers", body, method="PUT") for body in joined]

    assert [answer for answer in answers if answer.is_unreadable] == []
    assert [
        found for body, answer in zip(joined, answers, strict=True) if (found := compare(body, answer, policy))
    ] == []
    assert {answer.is_accepted for answer in answers} == {True, False}


OBEYING_POD: Object = {
    "metadata": {"name": "obeying"},
    "spec": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "main",
                "image": "registry.example.com/tool:1",
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    },
}


def make_debugger(chance: random.Random, minor: int) -> Object:
    """A container of a generated pod, without what only the pod around it makes valid."""
    container = chance.choice(list(iter_containers(make_pod(chance, minor=minor))))
    context: dict[str, Any] = {**(container.get("securityContext") or {})}
    context.pop("windowsOptions", None)
    if context.get("procMount") == "Unmasked":
        del context["procMount"]
    return {"name": "debugger", "image": container["image"], "securityContext": context}
