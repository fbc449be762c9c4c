"""Complaints about the objects themselves: kinds, keys, Pod Security, references, mount paths, labels, owners."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from tests.adversary.cases import ANCHOR_UID, Case, World
from tests.adversary.facts import SCRATCH, SECRET_FILES, AdminInputs, Facts

_POD_KEYS = frozenset(
    {
        *(
            "restartPolicy",
            "automountServiceAccountToken",
            "enableServiceLinks",
            "serviceAccountName",
            "securityContext",
        ),
        *("terminationGracePeriodSeconds", "imagePullSecrets", "nodeSelector", "tolerations", "affinity"),
        *("topologySpreadConstraints", "runtimeClassName", "priorityClassName", "schedulerName", "hostAliases"),
        *("containers", "volumes"),
    }
)
_CONTAINER_KEYS = frozenset(
    {
        *(
            "name",
            "image",
            "imagePullPolicy",
            "workingDir",
            "command",
            "args",
            "workingDir",
            "env",
            "resources",
            "ports",
        ),
        *("readinessProbe", "terminationMessagePolicy", "securityContext", "volumeMounts"),
    }
)
_SPEC_KEYS: Mapping[str, frozenset[str]] = {
    "Job": frozenset(
        {
            *("completions", "parallelism", "backoffLimit", "podReplacementPolicy", "podFailurePolicy"),
            *("activeDeadlineSeconds", "ttlSecondsAfterFinished", "template", "suspend"),
        }
    ),
    "Deployment": frozenset(
        {"replicas", "selector", "strategy", "revisionHistoryLimit", "progressDeadlineSeconds", "template"}
    ),
    "Service": frozenset({"type", "selector", "ports"}),
    "PersistentVolumeClaim": frozenset({"accessModes", "volumeMode", "storageClassName", "resources"}),
}
_SOURCES = frozenset({"persistentVolumeClaim", "ephemeral", "emptyDir", "configMap", "image", "secret"})
_FORBIDDEN_PATHS = ("/proc", "/sys", "/dev", "/etc", "/var/run/secrets", "/run/secrets")


def iter_shape_complaints(facts: Facts, admin: AdminInputs, case: Case, world: World) -> Iterator[str]:
    yield from _judge_objects(facts, world.namespaces[case.project])
    yield from _judge_start(facts)
    yield from _judge_anchor_notes(facts)
    yield from _judge_owners(facts)
    yield from _judge_pods(facts)
    yield from _judge_labels(facts, {"run": case.run_id, "project": case.project, "profile": admin.profile_id})
    yield from _judge_security(facts, admin)
    yield from _judge_volumes(facts, world)
    yield from _judge_config_maps(facts, admin, world)
    yield from _judge_mounts(facts)
    yield from _judge_env(facts, admin, case, world)
    yield from _judge_services(facts)


def _judge_objects(facts: Facts, namespace: str) -> Iterator[str]:
    for item in facts.objects:
        metadata = item["metadata"]
        if metadata.get("namespace") != namespace:
            yield f"namespace: {item['kind']} in {metadata.get('namespace')}"
        if unknown := metadata.keys() - {"name", "namespace", "labels", "annotations", "ownerReferences"}:
            yield f"shape: metadata has {sorted(unknown)}"
        if item["kind"] not in (*_SPEC_KEYS, "Secret", "ConfigMap"):
            yield f"shape: a {item['kind']}"
        elif unknown := item.get("spec", {}).keys() - _SPEC_KEYS.get(item["kind"], frozenset()):
            yield f"shape: {item['kind']} has {sorted(unknown)}"


def _judge_start(facts: Facts) -> Iterator[str]:
    """An anchor must not start pods: it is suspended or has 0 replicas. It has no TTL."""
    if facts.is_job and facts.spec.get("suspend", False) is not facts.is_anchor:
        yield f"anchor: suspend is {facts.spec.get('suspend')}"
    if facts.is_anchor and "ttlSecondsAfterFinished" in facts.spec:
        yield "anchor: it has a TTL"
    if facts.is_anchor and not facts.is_job and facts.spec["replicas"] != 0:
        yield f"anchor: {facts.spec['replicas']} replicas"


def _judge_anchor_notes(facts: Facts) -> Iterator[str]:
    """An anchor says that it is held back. Its own deadline is a late backstop of the timeout that it states."""
    notes = facts.workload["metadata"].get("annotations", {})
    if notes.get("runyard.io/wish") != ("hold" if facts.is_anchor else None):
        yield f"anchor: the wish is {notes.get('runyard.io/wish')}"
    if str(notes.get("runyard.io/generation")).isdigit() is not facts.is_anchor:
        yield f"anchor: the generation is {notes.get('runyard.io/generation')}"
    deadline, timeout = facts.spec.get("activeDeadlineSeconds"), facts.find_timing("timeout")
    if facts.is_anchor and timeout is not None:
        timeout += facts.pod.get("terminationGracePeriodSeconds", 30) + 3600
    if facts.is_job and deadline != timeout:
        yield f"anchor: the deadline is {deadline}, not {timeout}"
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    if facts.spec.get("podFailurePolicy", {"rules": [rule]}) != {"rules": [rule]}:
        yield f"shape: the failure policy is {facts.spec['podFailurePolicy']}"


def _judge_owners(facts: Facts) -> Iterator[str]:
    """The anchor owns the objects of its run, except for claims that are kept. Other objects have no owner."""
    workload = facts.workload
    owner = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "uid": ANCHOR_UID,
        "controller": False,
        "blockOwnerDeletion": False,
    }
    for item in facts.objects:
        is_kept = item["metadata"].get("annotations", {}).get("runyard.io/lifetime", "run") != "run"
        is_owned = facts.is_anchor and item is not workload and not is_kept
        found = item["metadata"].get("ownerReferences", [])
        if found != ([owner] if is_owned else []):
            yield f"owner: {item['kind']} {item['metadata']['name']} is owned by {found}"


def _judge_pods(facts: Facts) -> Iterator[str]:
    for what, given, known in (("pod", facts.pod, _POD_KEYS), ("container", facts.container, _CONTAINER_KEYS)):
        if unknown := given.keys() - known:
            yield f"shape: the {what} has {sorted(unknown)}"
    if facts.template["metadata"].keys() - {"labels", "annotations"}:
        yield "shape: the template's metadata"
    for port in facts.container.get("ports", []):
        if port.keys() - {"containerPort", "protocol"}:
            yield f"shape: the container's port {port}"
    if facts.is_job and (facts.spec["completions"], facts.spec["parallelism"]) != (1, 1):
        yield "shape: more than one pod at once"
    if any(claim["spec"]["accessModes"] != ["ReadWriteOnce"] for claim in facts.claims.values()):
        yield "shape: a claim for several"
    if facts.pod.get("automountServiceAccountToken") is not False or facts.pod.get("enableServiceLinks") is not False:
        yield "token: the service account's token or links are not off"


def _judge_labels(facts: Facts, marks: Mapping[str, str | None]) -> Iterator[str]:
    """Labels must identify run, project and profile; an annotation holds a text that is no valid label."""
    for item in [*(item["metadata"] for item in facts.objects), facts.template["metadata"]]:
        for name, value in marks.items():
            said = item.get("annotations", {}).get(f"runyard.io/{name}", item["labels"].get(f"runyard.io/{name}"))
            if said != value:
                yield f"marks: {name} is {said}, not {value}"


def _judge_security(facts: Facts, admin: AdminInputs) -> Iterator[str]:
    pod, container = facts.pod.get("securityContext", {}), facts.container.get("securityContext", {})
    if pod.get("runAsNonRoot") is not True or pod.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "security: the pod may be root, or has no seccomp profile"
    if unknown := pod.keys() - {
        "runAsNonRoot",
        "seccompProfile",
        "runAsUser",
        "runAsGroup",
        "fsGroup",
        "fsGroupChangePolicy",
    }:
        yield f"security: the pod's context has {sorted(unknown)}"
    for key in ("runAsUser", "runAsGroup", "fsGroup"):
        if key in pod and not (type(pod[key]) is int and 1 <= pod[key] < 2**31):
            yield f"security: {key} is {pod[key]}"
    if unknown := container.keys() - {"privileged", "allowPrivilegeEscalation", "capabilities"}:
        yield f"security: the container's context has {sorted(unknown)}"
    if container.get("privileged", False) is not False or container.get("allowPrivilegeEscalation", False) is not False:
        yield "security: privileged"
    if container.get("capabilities", {}).get("add"):
        yield "security: added capabilities"
    said = [scope.platform.get("pod_security") for scope in admin.scopes]
    is_relaxed = said[0] == "baseline" and "restricted" not in said
    is_restricted = container.get("allowPrivilegeEscalation") is False and container.get("capabilities") == {
        "drop": ["ALL"]
    }
    if not is_relaxed and not is_restricted:
        yield "security: less than restricted"


def _judge_volumes(facts: Facts, world: World) -> Iterator[str]:
    if len(facts.volumes) != len(facts.pod.get("volumes", [])):
        yield "volumes: a name twice"
    for name, volume in facts.volumes.items():
        kinds = volume.keys() - {"name"}
        if len(kinds) != 1 or not kinds <= _SOURCES:
            yield f"volumes: {name} is {sorted(kinds)}"
            continue
        (kind,) = kinds
        source: Mapping[str, Any] = volume[kind]
        if name == SCRATCH and kind not in ("ephemeral", "emptyDir"):
            yield f"volumes: scratch space is {kind}"
        if (name == SECRET_FILES) != (kind == "secret") or (
            kind == "secret" and source["secretName"] not in facts.secrets
        ):
            yield f"secrets: the volume {name} has a Secret that is not the run's"
        if kind == "persistentVolumeClaim":
            known = {*facts.claims, *world.volumes.values(), *world.claims}
            if source["claimName"] not in known or source.keys() != {"claimName"}:
                yield f"claims: {source} is not the project's"
        if kind == "configMap" and source["name"] not in facts.config_maps:
            yield f"config maps: {source['name']} is not the run's"


def _judge_config_maps(facts: Facts, admin: AdminInputs, world: World) -> Iterator[str]:
    """Every ConfigMap is mounted by one volume and has the files that somebody asked for under that volume's name."""
    mounted = {volume["configMap"]["name"]: name for name, volume in facts.volumes.items() if "configMap" in volume}
    asked = [volume for layer in (*facts.asked.layers, admin.profile) for volume in layer.get("volumes", [])]
    for name, item in facts.config_maps.items():
        named = [volume for volume in asked if volume["name"] == mounted.get(name)]
        files = [facts.find_config_files(volume, world) for volume in named if volume["volume_type"] == "config_map"]
        if item["data"] not in files:
            yield f"config maps: {name} has files that nobody asked for"


def _judge_mounts(facts: Facts) -> Iterator[str]:
    paths = [mount["mountPath"] for mount in facts.mounts]
    if len(set(paths)) != len(paths):
        yield f"mounts: a path twice in {paths}"
    for mount in facts.mounts:
        path = mount["mountPath"]
        if mount["name"] not in facts.volumes or mount.keys() - {"name", "mountPath", "subPath", "readOnly"}:
            yield f"mounts: {mount}"
        is_system = any(path == tree or path.startswith(f"{tree}/") for tree in _FORBIDDEN_PATHS)
        if (
            not path.startswith("/")
            or path == "/"
            or ".." in path
            or "//" in path
            or (is_system and path != "/dev/shm")
        ):
            yield f"mounts: at {path}"
        if ".." in mount.get("subPath", "") or mount.get("subPath", "").startswith("/"):
            yield f"mounts: {mount}"
        if (path == "/shared") and SCRATCH in facts.volumes and mount["name"] != SCRATCH:
            yield "mounts: /shared is scratch space"


def _judge_env(facts: Facts, admin: AdminInputs, case: Case, world: World) -> Iterator[str]:
    if len(facts.env) != len(facts.container.get("env", [])):
        yield "envs: a name twice"
    for name, entry in facts.env.items():
        if entry.keys() - {"name", "value", "valueFrom"} or ("value" in entry) == ("valueFrom" in entry):
            yield f"envs: {entry}"
        if "valueFrom" in entry:
            reference = entry["valueFrom"].get("secretKeyRef", {})
            if reference.get("name") not in facts.secrets or entry["valueFrom"].keys() != {"secretKeyRef"}:
                yield f"secrets: {name} is from {entry['valueFrom']}"
            if reference.get("key") != name:
                yield f"secrets: {name} has the value of {reference.get('key')}"
    for name, value in (("RUN_ID", case.run_id), ("PROJECT_NAME", case.project)):
        is_named = name in admin.scopes[0].rules.get("envs", {}).get("allowed", ())
        is_set_by_admin = any(name in said for said in admin.list_set_values("envs"))
        is_set_by_admin = is_set_by_admin or admin.sets_secret_variable(name)
        if facts.env.get(name, {}).get("value") != value and not (is_named or is_set_by_admin):
            yield f"envs: {name} is {facts.env.get(name)}"
    yield from _judge_secret(facts, world)


def _judge_secret(facts: Facts, world: World) -> Iterator[str]:
    for secret in facts.secrets.values():
        for name, data in secret["data"].items():
            if name not in world.secrets or base64.b64decode(data).decode() != world.secrets[name]:
                yield f"secrets: {name} is not the project's, or has another's value"
        if unused := secret["data"].keys() - set(facts.iter_secret_names()):
            yield f"secrets: {sorted(unused)} are not asked for"
    if len(facts.secrets) > 1:
        yield "secrets: more than one Secret"


def _judge_services(facts: Facts) -> Iterator[str]:
    labels = facts.template["metadata"]["labels"]
    for service in facts.services:
        selector = service["spec"]["selector"]
        if any(port.keys() - {"name", "port", "targetPort", "protocol"} for port in service["spec"]["ports"]):
            yield f"service: ports {service['spec']['ports']}"
        if "runyard.io/run-uid" not in selector or any(labels.get(key) != value for key, value in selector.items()):
            yield f"service: it selects {selector}"
    if not facts.is_job:
        selector = facts.spec["selector"]["matchLabels"]
        if "runyard.io/run-uid" not in selector or any(labels.get(key) != value for key, value in selector.items()):
            yield f"deployment: it selects {selector}"
