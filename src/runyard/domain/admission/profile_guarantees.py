"""Checks that the objects have every value of the chosen profile, unless the policy locks another one."""

from collections.abc import Iterable, Iterator
from typing import Any

from runyard.domain.admission.admin_inputs import AdminInputs
from runyard.domain.admission.amounts import NAMES, find_amount, list_gpu_names
from runyard.domain.admission.bundle import Bundle, ObjectPart
from runyard.domain.admission.identity import make_registry_name
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


def check_profile_holds(bundle: Bundle, facts: Facts, admin: AdminInputs) -> Iterator[Problem]:
    """Find every value of the profile that is missing or different."""
    if admin.profile is None:
        return
    fields = admin.profile.fields
    for name in _SCALARS:
        expected = getattr(fields, name)
        for value in facts.values.get(name, ()):
            if expected is not None and value.value != expected and not _is_locked(admin, name):
                yield _report_difference(name, value.path)
    yield from _check_labels(fields, bundle)
    yield from _check_services(fields, bundle)
    pod, container, workload = bundle.pod, bundle.container, bundle.workload
    if pod is None or container is None or workload is None:
        return
    yield from _check_disruptions(fields, workload)
    yield from _check_pod(fields, pod, admin)
    yield from _check_container(fields, container, admin)
    yield from _check_secrets(fields, container, admin)
    yield from _check_amounts(fields, facts, container, admin)
    yield from check_volumes(fields.volumes or (), bundle, admin)


def _is_locked(admin: AdminInputs, *names: str) -> bool:
    """Whether the policy locks one of these fields to a value, which then wins over the profile."""
    return any(admin.find_locked_value(name) is not None for name in names)


def _report_difference(name: str, path: Path) -> Problem:
    return Problem(Code.ADMISSION_PROFILE, path, f"differs from the profile's `{name}`")


def _check_labels(fields: AdminFields, bundle: Bundle) -> Iterator[Problem]:
    for metadata in bundle.iter_metadata():
        for key, value in (fields.labels or {}).items():
            if metadata.content["labels"].get(key) != value:
                yield _report_difference("labels", (*metadata.path, "labels", key))


def _check_services(fields: AdminFields, bundle: Bundle) -> Iterator[Problem]:
    services = bundle.of("Service")
    expected = [(port.port, port.target_port) for port in fields.service_ports or ()]
    for service in services:
        ports = [(port["port"], port["targetPort"]) for port in service.content["spec"]["ports"]]
        if expected and ports != expected:
            yield _report_difference("service_ports", (*service.path, "spec", "ports"))
    if services and fields.service_name and len(services) == 1:
        yield _report_difference("service_name", services[0].path)
    container = bundle.container
    if services and container is not None and fields.readiness_path:
        handler = container.find("readinessProbe", "httpGet") or {}
        if handler.get("path") != fields.readiness_path:
            yield _report_difference("readiness_path", (*container.path, "readinessProbe"))


def _check_disruptions(fields: AdminFields, workload: ObjectPart) -> Iterator[Problem]:
    is_ignored = workload.find("spec", "podFailurePolicy") is not None
    if workload.content["kind"] == "Job" and fields.disruptions not in (None, "ignore" if is_ignored else "count"):
        yield _report_difference("disruptions", (*workload.path, "spec", "podFailurePolicy"))


def _check_pod(fields: AdminFields, pod: ObjectPart, admin: AdminInputs) -> Iterator[Problem]:
    for name, key in _POD.items():
        if getattr(fields, name) is not None and pod.find(key) != getattr(fields, name):
            yield _report_difference(name, (*pod.path, key))
    for name, key in _LISTS.items():
        if getattr(fields, name) and pod.find(key) != [dict(entry) for entry in getattr(fields, name)]:
            yield _report_difference(name, (*pod.path, key))
    registry = make_registry_name(admin.project)
    secrets = [secret.content["name"] for secret in pod.iter_parts("imagePullSecrets")]
    own = [name for name in secrets if name != registry or name in (fields.image_pull_secrets or ())]
    if fields.image_pull_secrets and own != list(fields.image_pull_secrets):
        yield _report_difference("image_pull_secrets", (*pod.path, "imagePullSecrets"))
    if fields.affinity and pod.find("affinity") != fields.affinity and not _is_locked(admin, "affinity"):
        yield _report_difference("affinity", (*pod.path, "affinity"))
    selector = pod.find("nodeSelector") or {}
    if not _is_locked(admin, "node_selector"):
        yield from _check_pairs("node_selector", fields.node_selector, selector, (*pod.path, "nodeSelector"))
    for toleration in fields.tolerations or ():
        if toleration not in (pod.find("tolerations") or []) and not _is_locked(admin, "tolerations"):
            yield _report_difference("tolerations", (*pod.path, "tolerations"))


def _check_container(fields: AdminFields, container: ObjectPart, admin: AdminInputs) -> Iterator[Problem]:
    if fields.image is not None and container.find("image") != fields.image and not _is_locked(admin, "image"):
        yield _report_difference("image", (*container.path, "image"))
    for name in ("command", "args"):
        if getattr(fields, name) and container.find(name) != list(getattr(fields, name)):
            yield _report_difference(name, (*container.path, name))
    if fields.working_dir is not None and container.find("workingDir") != fields.working_dir:
        yield _report_difference("working_dir", (*container.path, "workingDir"))
    if not _is_locked(admin, "envs"):
        envs = {entry["name"]: entry["value"] for entry in container.find("env") or () if "value" in entry}
        yield from _check_pairs("envs", fields.envs, envs, (*container.path, "env"))


def _check_pairs(name: str, expected: Any, given: dict[str, str], path: Path) -> Iterator[Problem]:
    for key, value in (expected or {}).items():
        if given.get(key) != value:
            yield _report_difference(name, (*path, key))


def _check_secrets(fields: AdminFields, container: ObjectPart, admin: AdminInputs) -> Iterator[Problem]:
    variables = {
        (entry["name"], entry["valueFrom"]["secretKeyRef"]["key"])
        for entry in container.find("env") or ()
        if "valueFrom" in entry
    }
    files = {(mount.content["mountPath"], mount.find("subPath")) for mount in container.iter_parts("volumeMounts")}
    for use in fields.secrets or ():
        if not use.is_variable:
            is_there = (use.mount_path, use.name) in files
        else:
            is_there = (use.name, use.name) in variables or _is_locked(admin, "envs")
        if not is_there:
            yield _report_difference("secrets", (*container.path, use.name))


def _check_amounts(fields: AdminFields, facts: Facts, container: ObjectPart, admin: AdminInputs) -> Iterator[Problem]:
    gpus = list_gpu_names(admin)
    for name, sides in (fields.resources or {}).items():
        rules = [f"resources.{'gpu' if name in gpus else name}{side}" for side in ("", ".requests", ".limits")]
        if _is_locked(admin, *rules):
            continue
        if name == "disk":
            is_there = facts.values["resources.disk"][0].value == sides.limits
        elif name == "gpu" or name in gpus:
            is_there = _holds_gpus(name, sides, container, gpus)
        else:
            is_there = _holds_sides(NAMES.get(name, name), sides, container)
        if not is_there:
            yield _report_difference(f"resources.{name}", (*container.path, "resources"))


def _holds_sides(name: str, sides: Sides, container: ObjectPart) -> bool:
    pairs = (("requests", sides.requests), ("limits", sides.limits))
    return all(amount is None or find_amount(container, "resources", side, name) == amount for side, amount in pairs)


def _holds_gpus(name: str, sides: Sides, container: ObjectPart, gpus: Iterable[str]) -> bool:
    """`gpu` is sent under the resource name of the policy or base object; 0 GPUs are not sent."""
    expected = sides.limits if sides.limits is not None else sides.requests
    names = [name] if name != "gpu" else sorted(gpus)
    found = [amount for key in names if (amount := find_amount(container, "resources", "limits", key)) is not None]
    if expected is None or expected.is_zero:
        return all(amount.is_zero for amount in found)
    return expected in found
