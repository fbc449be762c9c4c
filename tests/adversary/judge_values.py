"""Collects the values of ruled fields from the objects, and whether the admin set each of them."""

from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_CEILING
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity
from tests.adversary.cases import World
from tests.adversary.facts import BUILT_IN_SIZE, AdminInputs, Facts

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Values = list[tuple[Any, bool]]
"""Values, each with whether the admin set it."""


def collect(field: str, facts: Facts, admin: AdminInputs, world: World) -> Values:
    """Every value of a ruled field."""
    if field in _SCALARS:
        value = _SCALARS[field](facts)
        is_capped = field not in facts.asked.fields and value == admin.find_max(field)
        is_set_by_admin = value in admin.list_set_values(field) or is_capped or _is_blank(field, value, facts, admin)
        return [] if value is None else [(value, is_set_by_admin)]
    if field.startswith("resources."):
        return _collect_resource(field, facts, admin)
    return list(_COLLECTORS[field](facts, admin, world))


def _is_blank(field: str, value: Any, facts: Facts, admin: AdminInputs) -> bool:
    """Whether the value is the built-in one, sent because nobody set any; a policy's lists do not apply to it."""
    if field in facts.asked.fields or field not in ("replicas", "backoff_limit", "service_type"):
        return False
    if field == "service_type":
        rule = admin.scopes[0].rules.get(field, {})
        return value in ("ClusterIP", "NodePort", *(rule.get("options") or ()), *(rule.get("allowed") or ()))
    return bool(value == max([1 if field == "replicas" else 0, *admin.list_clauses(field, "min")]))


def find_service_type(facts: Facts) -> Any:
    types = {service["spec"]["type"] for service in facts.services}
    if len(types) > 1:
        raise ValueError(f"services of types {types}")
    return next(iter(types), None)


def _context(key: str) -> Callable[[Facts], Any]:
    return lambda facts: facts.pod["securityContext"].get(key)


_SCALARS: Mapping[str, Callable[[Facts], Any]] = {
    "runtime_class": lambda facts: facts.pod.get("runtimeClassName"),
    "priority_class": lambda facts: facts.pod.get("priorityClassName"),
    "image_pull_policy": lambda facts: facts.container.get("imagePullPolicy"),
    "service_type": find_service_type,
    "run_as_user": _context("runAsUser"),
    "run_as_group": _context("runAsGroup"),
    "fs_group": _context("fsGroup"),
    "replicas": lambda facts: facts.find_timing("replicas"),
    "backoff_limit": lambda facts: facts.spec.get("backoffLimit"),
    "timeout": lambda facts: facts.find_timing("timeout"),
    "pending_timeout": lambda facts: facts.find_annotation("pending-timeout"),
    "ttl": lambda facts: facts.find_timing("ttl"),
    "grace_period": lambda facts: facts.pod.get("terminationGracePeriodSeconds"),
}


_SMALL_REQUESTS: Mapping[str, Quantity] = {"cpu": Quantity.parse("100m"), "ephemeral-storage": Quantity.parse("1Gi")}


def _collect_resource(field: str, facts: Facts, admin: AdminInputs) -> Values:
    _, name, *rest = field.split(".")
    if name == "gpu":
        amounts = [facts.limits[gpu] for gpu in admin.gpu_names if gpu in facts.limits]
        said = admin.list_amounts("gpu", *admin.gpu_names)
        return [(amount, amount in said) for amount in amounts]
    if name == "disk":
        disk = facts.find_disk()
        if disk is None or (rest and disk[1] is None):
            return []
        if rest:
            return [
                (disk[1], disk[1] in [*admin.list_set_values(field), *admin.list_set_values("volumes.storage_class")])
            ]
        return [(disk[0], disk[0] in admin.list_amounts("disk"))]
    sides = rest or ["requests", "limits"]
    found = [(side, amount) for side in sides if (amount := facts.side(name, side)) is not None]
    return [(amount, _is_amount_set_by_admin(name, side, amount, facts, admin)) for side, amount in found]


def _is_amount_set_by_admin(name: str, side: str, amount: Quantity, facts: Facts, admin: AdminInputs) -> bool:
    """Whether the admin set the amount, or it fills a blank under a cap. An amount that a user asked for does not."""
    if amount in admin.list_amounts(name) or (name == "mem" and amount in list_derived(facts, admin)):
        return True
    if facts.asked.has_amount(name, side, amount):
        return False
    limit_cap = admin.find_max(f"resources.{name}.limits")
    if side == "limits":
        return bool(amount == (admin.find_max("resources.mem", "resources.mem.limits") if name == "mem" else limit_cap))
    return name in _SMALL_REQUESTS and limit_cap is not None and amount == min(limit_cap, _SMALL_REQUESTS[name])


def list_derived(facts: Facts, admin: AdminInputs) -> list[Quantity]:
    """The memory limit that follows from the request."""
    request = facts.side("mem", "requests")
    if request is None:
        return []
    exact = request.exact * admin.mem_tolerance
    return [Quantity.from_int(int(exact.to_integral_value(ROUND_CEILING)))]


def _collect_images(facts: Facts, admin: AdminInputs, world: World) -> Iterator[tuple[Any, bool]]:
    image = facts.container["image"]
    yield image, image in [*admin.list_set_values("image"), *admin.python_images]
    profiles = [volume.get("image") for volume in admin.profile.get("volumes", [])]
    for volume in facts.iter_user_volumes():
        if "image" in volume:
            reference = volume["image"]["reference"]
            yield reference, reference in profiles


def _collect_envs(facts: Facts, admin: AdminInputs, world: World) -> Iterator[tuple[Any, bool]]:
    for name, entry in facts.env.items():
        if "valueFrom" in entry:
            yield name, admin.sets_secret_variable(name)
        elif entry["value"] != facts.platform.get(name):
            yield name, any(said.get(name) == entry["value"] for said in admin.list_set_values("envs"))


def _collect_secrets(facts: Facts, admin: AdminInputs, world: World) -> Iterator[tuple[Any, bool]]:
    for name in facts.iter_secret_names():
        yield name, any(use["name"] == name for use in admin.profile.get("secrets", []))


def _collect_node_keys(facts: Facts, admin: AdminInputs, world: World) -> Iterator[tuple[Any, bool]]:
    for key, value in facts.pod.get("nodeSelector", {}).items():
        yield key, any(said.get(key) == value for said in admin.list_set_values("node_selector"))
    affinity = facts.pod.get("affinity", {})
    is_set_by_admin = affinity in admin.list_set_values("affinity")
    for key in iter_node_keys(affinity):
        yield key, is_set_by_admin


def iter_node_keys(affinity: Mapping[str, Any]) -> Iterator[str]:
    rules = affinity.get("nodeAffinity", {})
    terms = [*rules.get(REQUIRED, {}).get("nodeSelectorTerms", [])]
    terms += [weighted.get("preference", {}) for weighted in rules.get(PREFERRED, [])]
    for term in terms:
        for requirement in [*term.get("matchExpressions", []), *term.get("matchFields", [])]:
            yield requirement["key"]


def iter_pod_terms(affinity: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name in ("podAffinity", "podAntiAffinity"):
        yield from affinity.get(name, {}).get(REQUIRED, [])
        yield from (weighted["podAffinityTerm"] for weighted in affinity.get(name, {}).get(PREFERRED, []))


def _collect_tolerations(facts: Facts, admin: AdminInputs, world: World) -> Iterator[tuple[Any, bool]]:
    for toleration in facts.pod.get("tolerations", []):
        yield toleration, any(toleration in said for said in admin.list_set_values("tolerations"))


def _is_profile_volume(volume: Mapping[str, Any], admin: AdminInputs) -> bool:
    return any(each["name"] == volume["name"] for each in admin.profile.get("volumes", []))


def _collect_sizes(facts: Facts, admin: AdminInputs, world: World) -> Iterator[tuple[Any, bool]]:
    cap = admin.find_max("volumes.size")
    blank = BUILT_IN_SIZE if cap is None else min(cap, BUILT_IN_SIZE)
    for volume in facts.iter_user_volumes():
        spec = facts.find_claim_spec(volume)
        if spec is not None:
            size = Quantity.parse(spec["resources"]["requests"]["storage"])
            yield size, _is_size_set_by_admin("volumes.size", volume, size, facts, admin, blank=blank)


def _collect_size_limits(facts: Facts, admin: AdminInputs, world: World) -> Iterator[tuple[Any, bool]]:
    for volume in facts.iter_user_volumes():
        if "sizeLimit" in volume.get("emptyDir", {}):
            size = Quantity.parse(volume["emptyDir"]["sizeLimit"])
            blank = admin.find_max("volumes.size_limit")
            yield size, _is_size_set_by_admin("volumes.size_limit", volume, size, facts, admin, blank=blank)


def _is_size_set_by_admin(
    field: str, volume: Mapping[str, Any], size: Quantity, facts: Facts, admin: AdminInputs, *, blank: Quantity | None
) -> bool:
    """Whether the admin set the size, or it is what fills a blank."""
    if size in admin.list_set_values(field) or _is_profile_volume(volume, admin):
        return True
    return size == blank and not facts.asked.has_size(str(volume["name"]), size)


def _collect_classes(facts: Facts, admin: AdminInputs, world: World) -> Iterator[tuple[Any, bool]]:
    for volume in facts.iter_user_volumes():
        spec = facts.find_claim_spec(volume) or {}
        name = spec.get("storageClassName")
        if name is not None:
            yield name, name in admin.list_set_values("volumes.storage_class") or _is_profile_volume(volume, admin)


def _collect_types(facts: Facts, admin: AdminInputs, world: World) -> Iterator[tuple[Any, bool]]:
    names = {"ephemeral": "ephemeral", "emptyDir": "empty_dir", "configMap": "config_map", "image": "image"}
    for volume in facts.iter_user_volumes():
        is_claim = "persistentVolumeClaim" in volume
        if is_claim:
            is_shared = volume["persistentVolumeClaim"]["claimName"] in world.volumes.values()
            kind = "shared_volume" if is_shared else "persistent_volume_claim"
        else:
            kind = next((names[key] for key in volume if key in names), "unknown")
        yield kind, _is_profile_volume(volume, admin)


def _collect_claims(facts: Facts, admin: AdminInputs, world: World) -> Iterator[tuple[Any, bool]]:
    """Existing claims that the platform did not make."""
    for volume in facts.iter_user_volumes():
        name = volume.get("persistentVolumeClaim", {}).get("claimName")
        if name is not None and name not in {*facts.claims, *world.volumes.values()}:
            yield name, _is_profile_volume(volume, admin)


def _collect_profile(facts: Facts, admin: AdminInputs, world: World) -> Iterator[tuple[Any, bool]]:
    if admin.profile_id is not None:
        yield admin.profile_id, admin.profile_id in [*admin.list_set_values("profile"), "default"]


def _collect_nothing(facts: Facts, admin: AdminInputs, world: World) -> Iterator[tuple[Any, bool]]:
    return iter(())


_COLLECTORS: Mapping[str, Callable[[Facts, AdminInputs, World], Iterator[tuple[Any, bool]]]] = {
    "image": _collect_images,
    "envs": _collect_envs,
    "secrets": _collect_secrets,
    "node_selector": _collect_node_keys,
    "tolerations": _collect_tolerations,
    "volumes.size": _collect_sizes,
    "volumes.size_limit": _collect_size_limits,
    "volumes.storage_class": _collect_classes,
    "volumes.type": _collect_types,
    "volumes.claim_name": _collect_claims,
    "profile": _collect_profile,
    "affinity": _collect_nothing,
    "affinity.namespaces": _collect_nothing,
}
