"""Complaints about the profile: the objects must have every value that it sets, unless the policy locks another."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity
from tests.adversary.cases import Case, World
from tests.adversary.facts import AdminInputs, Facts
from tests.adversary.judge_values import find_service_type


def iter_profile_complaints(facts: Facts, admin: AdminInputs, case: Case, world: World) -> Iterator[str]:
    for field, expected in admin.profile.items():
        if admin.find_locked(field) is not None or not is_applicable(field, case) or expected in ([], {}):
            continue
        if field in SCALARS:
            rendered = SCALARS[field](facts)
            if rendered != expected:
                yield f"profile: {field} is {rendered}, not {expected}"
        elif field in _COMPLAINTS:
            yield from _COMPLAINTS[field](expected, facts, admin, world)
    yield from _judge_admin_only(facts, admin)


def is_applicable(field: str, case: Case) -> bool:
    """Whether the field has an effect on the objects of such a run."""
    if field in ("backoff_limit", "disruptions", "timeout", "ttl"):
        return case.action == "job"
    if field in ("service_ports", "service_type", "service_name", "readiness_path"):
        return case.action == "serve"
    return field != "replicas" or case.action != "job"


def _list_ports(facts: Facts) -> list[dict[str, Any]]:
    ports = facts.services[0]["spec"]["ports"]
    return [{"port": port["port"], "targetPort": port["targetPort"]} for port in ports]


SCALARS: Mapping[str, Callable[[Facts], Any]] = {
    "affinity": lambda facts: facts.pod.get("affinity"),
    "topology_spread": lambda facts: facts.pod.get("topologySpreadConstraints"),
    "runtime_class": lambda facts: facts.pod.get("runtimeClassName"),
    "priority_class": lambda facts: facts.pod.get("priorityClassName"),
    "scheduler_name": lambda facts: facts.pod.get("schedulerName"),
    "service_account": lambda facts: facts.pod.get("serviceAccountName"),
    "host_aliases": lambda facts: facts.pod.get("hostAliases"),
    "image_pull_secrets": lambda facts: [entry["name"] for entry in facts.pod.get("imagePullSecrets", [])],
    "grace_period": lambda facts: facts.pod.get("terminationGracePeriodSeconds"),
    "run_as_user": lambda facts: facts.pod["securityContext"].get("runAsUser"),
    "run_as_group": lambda facts: facts.pod["securityContext"].get("runAsGroup"),
    "fs_group": lambda facts: facts.pod["securityContext"].get("fsGroup"),
    "image": lambda facts: facts.container["image"],
    "command": lambda facts: facts.container.get("command"),
    "args": lambda facts: facts.container.get("args"),
    "working_dir": lambda facts: facts.container.get("workingDir"),
    "image_pull_policy": lambda facts: facts.container.get("imagePullPolicy"),
    "replicas": lambda facts: facts.find_timing("replicas"),
    "disruptions": lambda facts: "ignore" if "podFailurePolicy" in facts.spec else "count",
    "backoff_limit": lambda facts: facts.spec.get("backoffLimit"),
    "timeout": lambda facts: facts.find_timing("timeout"),
    "ttl": lambda facts: facts.find_timing("ttl"),
    "pending_timeout": lambda facts: facts.find_annotation("pending-timeout"),
    "service_type": find_service_type,
    "service_ports": _list_ports,
    "readiness_path": lambda facts: facts.container["readinessProbe"].get("httpGet", {}).get("path"),
}


def _judge_resources(expected: Mapping[str, Any], facts: Facts, admin: AdminInputs, world: World) -> Iterator[str]:
    gpus: dict[str, Quantity] = {}
    for name, sides in expected.items():
        if any(admin.find_locked(f"resources.{name}{side}") is not None for side in ("", ".requests", ".limits")):
            continue
        if name == "gpu" or name in admin.gpu_names:
            gpus[name] = sides.get("limits", sides.get("requests"))
        elif name == "disk":
            disk = facts.find_disk()
            if disk is None or disk[0] != sides.get("limits", sides.get("requests")):
                yield f"profile: disk is {disk}, not {sides}"
        else:
            for side, amount in sides.items():
                if facts.side(name, side) != amount:
                    yield f"profile: {side} of {name} is {facts.side(name, side)}, not {amount}"
    if gpus and admin.find_locked("resources.gpu") is None:
        rendered = [facts.limits[name] for name in admin.gpu_names if name in facts.limits]
        for name, amount in gpus.items():
            if rendered != ([] if amount.is_zero else [amount]) or (name != "gpu" and name not in facts.limits):
                yield f"profile: GPUs are {rendered}, not {amount} of {name}"


def _judge_pairs(field: str, rendered: Callable[[Facts], Mapping[str, Any]]) -> Callable[..., Iterator[str]]:
    def judge(expected: Mapping[str, str], facts: Facts, admin: AdminInputs, world: World) -> Iterator[str]:
        held = rendered(facts)
        for key, value in expected.items():
            if held.get(key) != value:
                yield f"profile: {field} {key} is {held.get(key)}, not {value}"

    return judge


def _judge_labels(expected: Mapping[str, str], facts: Facts, admin: AdminInputs, world: World) -> Iterator[str]:
    for item in (facts.workload["metadata"], facts.template["metadata"]):
        for key, value in expected.items():
            if item["labels"].get(key) != value:
                yield f"profile: label {key} is {item['labels'].get(key)}, not {value}"


def _judge_tolerations(expected: list[Any], facts: Facts, admin: AdminInputs, world: World) -> Iterator[str]:
    for toleration in expected:
        if toleration not in facts.pod.get("tolerations", []):
            yield f"profile: toleration {toleration} is gone"


def _judge_secrets(expected: list[Any], facts: Facts, admin: AdminInputs, world: World) -> Iterator[str]:
    mounts = {mount["mountPath"]: mount for mount in facts.mounts}
    is_locked = admin.find_locked("envs") is not None
    for use in expected:
        path = use.get("mount_path")
        is_there = use["name"] in facts.iter_secret_variables() if path is None else path in mounts
        if path is not None and is_there:
            is_there = mounts[path].get("subPath") == use["name"]
        if not is_there and not (path is None and is_locked):
            yield f"profile: secret {use} is gone"


def _judge_volumes(expected: list[Any], facts: Facts, admin: AdminInputs, world: World) -> Iterator[str]:
    for volume in expected:
        name, path = volume["name"], volume["mount_path"]
        if path == "/shared" and admin.find_locked("resources.disk") is not None:
            continue
        rendered = facts.volumes.get(name)
        mounts = [mount["mountPath"] for mount in facts.mounts if mount["name"] == name]
        if rendered is None or mounts != [path]:
            yield f"profile: volume {name} is mounted at {mounts}, not at {path}"
        else:
            yield from _judge_volume(volume, rendered, facts, admin, world)
        names = {each["name"] for each in expected}
        inside = [mount for mount in facts.mounts if mount["mountPath"].startswith(f"{path}/")]
        uses = {use.get("mount_path") for use in admin.profile.get("secrets", [])}
        hidden = [mount for mount in inside if mount["name"] not in names and mount["mountPath"] not in uses]
        yield from (f"profile: volume {name} is hidden by {mount}" for mount in hidden)


def _judge_volume(
    volume: Mapping[str, Any], rendered: Mapping[str, Any], facts: Facts, admin: AdminInputs, world: World
) -> Iterator[str]:
    for what, expected, found in _iter_pairs(volume, rendered, facts, admin, world):
        if expected != found:
            yield f"profile: {what} of volume {volume['name']} is {found}, not {expected}"


def _iter_pairs(
    volume: Mapping[str, Any], rendered: Mapping[str, Any], facts: Facts, admin: AdminInputs, world: World
) -> Iterator[tuple[str, Any, Any]]:
    """Each attribute of a volume: its name, the profile's value, and the rendered value."""
    kind = volume["volume_type"]
    if kind in ("persistent_volume_claim", "ephemeral") and "claim_name" not in volume:
        spec = facts.find_claim_spec(rendered)
        assert spec is not None, volume
        if "size" in volume and admin.find_locked("volumes.size") is None:
            yield "size", Quantity.parse(volume["size"]), Quantity.parse(spec["resources"]["requests"]["storage"])
        if "storage_class" in volume and admin.find_locked("volumes.storage_class") is None:
            yield "class", volume["storage_class"], spec.get("storageClassName")
    if kind == "empty_dir" and "size" in volume and admin.find_locked("volumes.size_limit") is None:
        yield "size", Quantity.parse(volume["size"]), Quantity.parse(rendered["emptyDir"]["sizeLimit"])
    if kind == "image":
        yield "image", volume["image"], rendered["image"]["reference"]
    if kind == "shared_volume":
        claim = world.volumes.get(volume.get("claim_name", volume["name"]))
        yield "claim", claim, rendered["persistentVolumeClaim"]["claimName"]
    if kind == "config_map":
        expected = facts.find_config_files(volume, world)
        yield "files", expected, facts.config_maps[rendered["configMap"]["name"]]["data"]


def _judge_service_name(expected: str, facts: Facts, admin: AdminInputs, world: World) -> Iterator[str]:
    if len(facts.services) != 2:
        yield f"profile: no service {expected}"


_COMPLAINTS: Mapping[str, Callable[..., Iterator[str]]] = {
    "resources": _judge_resources,
    "node_selector": _judge_pairs("node_selector", lambda facts: facts.pod.get("nodeSelector", {})),
    "envs": _judge_pairs(
        "envs", lambda facts: {name: entry["value"] for name, entry in facts.env.items() if "value" in entry}
    ),
    "labels": _judge_labels,
    "tolerations": _judge_tolerations,
    "secrets": _judge_secrets,
    "volumes": _judge_volumes,
    "service_name": _judge_service_name,
}
_ADMIN_ONLY = {
    "serviceAccountName": "service_account",
    "schedulerName": "scheduler_name",
    "hostAliases": "host_aliases",
    "topologySpreadConstraints": "topology_spread",
}


def _judge_admin_only(facts: Facts, admin: AdminInputs) -> Iterator[str]:
    """Check fields that users may not set."""
    for key, field in _ADMIN_ONLY.items():
        if key in facts.pod and facts.pod[key] not in admin.list_set_values(field):
            yield f"admin's: {key} is {facts.pod[key]}"
    names = [entry["name"] for entry in facts.pod.get("imagePullSecrets", [])]
    if names not in [[], *admin.list_set_values("image_pull_secrets"), admin.platform("image_pull_secrets")]:
        yield f"admin's: imagePullSecrets are {names}"
    extended = {name for name in (*facts.requests, *facts.limits) if "/" in name or name == "ephemeral-storage"}
    said = {name for layer in (admin.profile, *admin.bases) for name in layer.get("resources", {})}
    sides = [f"resources.ephemeral-storage{side}" for side in ("", ".requests", ".limits")]
    if any(admin.list_clauses(field, clause) for field in sides for clause in ("default", "max")):
        said.add("ephemeral-storage")
    if unknown := extended - said - {*admin.gpu_names}:
        yield f"admin's: resources {sorted(unknown)}"
