"""What the chosen profile sets stands in the objects as it says, unless the policy locks it otherwise."""

from collections.abc import Iterable, Iterator
from typing import Any

from runyard.domain.admission.admins import Admins
from runyard.domain.admission.amounts import NAMES, find_amount, list_gpu_names
from runyard.domain.admission.bundle import Bundle, Placed
from runyard.domain.admission.profile_volumes import check_volumes
from runyard.domain.admission.values import Facts
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem
from runyard.spec.resources import Sides
from runyard.spec.run_fields import AdminFields

_SCALARS = (
    "backoff_limit",
    "fs_group",
    "grace_period",
    "image_pull_policy",
    "pending_timeout",
    "priority_class",
    "replicas",
    "run_as_group",
    "run_as_user",
    "runtime_class",
    "service_type",
    "timeout",
    "ttl",
)
_POD = {"service_account": "serviceAccountName", "scheduler_name": "schedulerName"}
_LISTS = {"host_aliases": "hostAliases", "topology_spread": "topologySpreadConstraints"}


def check_profile_holds(bundle: Bundle, facts: Facts, admins: Admins) -> Iterator[Problem]:
    """Every leaf of the profile that is not there, or is there with another value."""
    if admins.profile is None:
        return
    fields = admins.profile.fields
    for name in _SCALARS:
        expected = getattr(fields, name)
        for value in facts.values.get(name, ()):
            if expected is not None and value.value != expected and not _is_locked(admins, name):
                yield _differs(name, value.path)
    yield from _check_labels(fields, bundle)
    yield from _check_services(fields, bundle)
    pod, container = bundle.pod, bundle.container
    if pod is None or container is None:
        return
    yield from _check_pod(fields, pod, admins)
    yield from _check_container(fields, container, admins)
    yield from _check_secrets(fields, container, admins)
    yield from _check_amounts(fields, facts, container, admins)
    yield from check_volumes(fields.volumes or (), bundle, admins)


def _is_locked(admins: Admins, *names: str) -> bool:
    """Whether the policy gives a value that holds against the profile's."""
    return any(admins.find_locked(name) is not None for name in names)


def _differs(name: str, path: Path) -> Problem:
    return Problem(Code.ADMISSION_PROFILE, path, f"is not what the profile says of `{name}`")


def _check_labels(fields: AdminFields, bundle: Bundle) -> Iterator[Problem]:
    for metadata in bundle.iter_metadata():
        for key, value in (fields.labels or {}).items():
            if metadata.content["labels"].get(key) != value:
                yield _differs("labels", (*metadata.path, "labels", key))


def _check_services(fields: AdminFields, bundle: Bundle) -> Iterator[Problem]:
    services = bundle.of("Service")
    expected = [(port.port, port.target_port) for port in fields.service_ports or ()]
    for service in services:
        ports = [(port["port"], port["targetPort"]) for port in service.content["spec"]["ports"]]
        if expected and ports != expected:
            yield _differs("service_ports", (*service.path, "spec", "ports"))
    if services and fields.service_name and len(services) == 1:
        yield _differs("service_name", services[0].path)
    container = bundle.container
    if services and container is not None and fields.readiness_path:
        handler = container.find("readinessProbe", "httpGet") or {}
        if handler.get("path") != fields.readiness_path:
            yield _differs("readiness_path", (*container.path, "readinessProbe"))


def _check_pod(fields: AdminFields, pod: Placed, admins: Admins) -> Iterator[Problem]:
    for name, key in _POD.items():
        if getattr(fields, name) is not None and pod.find(key) != getattr(fields, name):
            yield _differs(name, (*pod.path, key))
    for name, key in _LISTS.items():
        if getattr(fields, name) and pod.find(key) != [dict(entry) for entry in getattr(fields, name)]:
            yield _differs(name, (*pod.path, key))
    secrets = [secret.content["name"] for secret in pod.iter_parts("imagePullSecrets")]
    if fields.image_pull_secrets and secrets != list(fields.image_pull_secrets):
        yield _differs("image_pull_secrets", (*pod.path, "imagePullSecrets"))
    if fields.affinity and pod.find("affinity") != fields.affinity and not _is_locked(admins, "affinity"):
        yield _differs("affinity", (*pod.path, "affinity"))
    selector = pod.find("nodeSelector") or {}
    if not _is_locked(admins, "node_selector"):
        yield from _check_pairs("node_selector", fields.node_selector, selector, (*pod.path, "nodeSelector"))
    for toleration in fields.tolerations or ():
        if toleration not in (pod.find("tolerations") or []) and not _is_locked(admins, "tolerations"):
            yield _differs("tolerations", (*pod.path, "tolerations"))


def _check_container(fields: AdminFields, container: Placed, admins: Admins) -> Iterator[Problem]:
    if fields.image is not None and container.find("image") != fields.image and not _is_locked(admins, "image"):
        yield _differs("image", (*container.path, "image"))
    for name in ("command", "args"):
        if getattr(fields, name) and container.find(name) != list(getattr(fields, name)):
            yield _differs(name, (*container.path, name))
    if fields.working_dir is not None and container.find("workingDir") != fields.working_dir:
        yield _differs("working_dir", (*container.path, "workingDir"))
    if not _is_locked(admins, "envs"):
        envs = {entry["name"]: entry["value"] for entry in container.find("env") or () if "value" in entry}
        yield from _check_pairs("envs", fields.envs, envs, (*container.path, "env"))


def _check_pairs(name: str, expected: Any, given: dict[str, str], path: Path) -> Iterator[Problem]:
    for key, value in (expected or {}).items():
        if given.get(key) != value:
            yield _differs(name, (*path, key))


def _check_secrets(fields: AdminFields, container: Placed, admins: Admins) -> Iterator[Problem]:
    locked = admins.find_locked("envs") or {}
    variables = {
        (entry["name"], entry["valueFrom"]["secretKeyRef"]["key"])
        for entry in container.find("env") or ()
        if "valueFrom" in entry
    }
    files = {(mount.content["mountPath"], mount.find("subPath")) for mount in container.iter_parts("volumeMounts")}
    for use in fields.secrets or ():
        if use.mount_path is not None:
            is_there = (use.mount_path, use.name) in files
        else:
            is_there = (use.name, use.name) in variables or use.name in locked
        if not is_there:
            yield _differs("secrets", (*container.path, use.name))


def _check_amounts(fields: AdminFields, facts: Facts, container: Placed, admins: Admins) -> Iterator[Problem]:
    gpus = list_gpu_names(admins)
    for name, sides in (fields.resources or {}).items():
        rules = [f"resources.{'gpu' if name in gpus else name}{side}" for side in ("", ".request", ".limit")]
        if _is_locked(admins, *rules):
            continue
        if name == "disk":
            is_there = facts.values["resources.disk"][0].value == sides.limit
        elif name == "gpu" or name in gpus:
            is_there = _holds_gpus(name, sides, container, gpus)
        else:
            is_there = _holds_sides(NAMES.get(name, name), sides, container)
        if not is_there:
            yield _differs(f"resources.{name}", (*container.path, "resources"))


def _holds_sides(name: str, sides: Sides, container: Placed) -> bool:
    pairs = (("requests", sides.request), ("limits", sides.limit))
    return all(amount is None or find_amount(container, "resources", side, name) == amount for side, amount in pairs)


def _holds_gpus(name: str, sides: Sides, container: Placed, gpus: Iterable[str]) -> bool:
    """`gpu` is under the name that the policy or a base object gives it; no GPUs are sent as nothing."""
    expected = sides.limit if sides.limit is not None else sides.request
    names = [name] if name != "gpu" else sorted(gpus)
    found = [amount for key in names if (amount := find_amount(container, "resources", "limits", key)) is not None]
    if expected is None or expected.is_zero:
        return all(amount.is_zero for amount in found)
    return expected in found
