"""Checks the pod: Pod Security, fields that only admins may set, environment, volumes, mounts and references."""

import base64
from collections.abc import Iterator
from typing import Any

from runyard.domain.admission.admin_inputs import AdminInputs
from runyard.domain.admission.bundle import SCRATCH_VOLUME, SECRETS_VOLUME, Bundle, ObjectPart, Source
from runyard.domain.admission.facts import PENDING_TIMEOUT, REPLICAS, TIMEOUT, ProjectContext, find_number
from runyard.domain.admission.identity import make_registry_name
from runyard.domain.admission.launcher_shape import check_launcher
from runyard.pods.fields import UnreadablePod
from runyard.pods.security import check_template_security
from runyard.spec.launcher import LAUNCHER_NAME
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.volumes import RESERVED_PREFIX, SCRATCH_PATH, read_image, read_mount_path

_OWN_VOLUMES = {
    SCRATCH_VOLUME: ("emptyDir", "ephemeral"),
    SECRETS_VOLUME: ("secret",),
    LAUNCHER_NAME: ("emptyDir",),  # `launcher_shape` says when
}
_LEAST_TOKEN_CHARACTERS = 16
"""Every token is longer. A shorter secret of that name, which a policy may allow, could be part of any text."""
_WISH, _GENERATION = "runyard.io/wish", "runyard.io/generation"
_GRACE_SECONDS = 30
"""Kubernetes' default for `terminationGracePeriodSeconds`."""
_DEADLINE_MARGIN_SECONDS = 3600
"""The deadline of an anchor is a backstop for our own timer, which knows the timeout: that much later, and grace."""


def check_pod(bundle: Bundle, admin: AdminInputs, context: ProjectContext, *, version: str) -> Iterator[Problem]:
    """Check the pods of the Job or Deployment, if there is one."""
    workload, pod, container = bundle.workload, bundle.pod, bundle.container
    if workload is None or pod is None or container is None:
        return
    yield from _check_security(workload.open("spec", "template"), admin, version=version)
    yield from _check_workload(workload, context)
    yield from _check_admin_fields(pod, admin, context)
    yield from check_launcher(bundle, pod, container, context.launcher)
    yield from _check_environment(bundle, container, context)
    yield from _check_image(container, "image")
    yield from _check_mounts(bundle, container)
    names: set[str] = set()
    for source in bundle.iter_sources():
        if source.name in names:
            yield Problem(Code.ADMISSION_TWICE, source.part.path, "another volume has the same name", value=source.name)
        names.add(source.name)
        yield from _check_source(source, bundle, context)
        if source.name == SCRATCH_VOLUME:
            yield from _check_scratch(source, container, admin)


def _check_security(template: ObjectPart, admin: AdminInputs, *, version: str) -> Iterator[Problem]:
    """Apply Pod Security of the cluster's version and of the newest: an old cluster does not lower our level."""
    level = admin.pod_security
    versions = dict.fromkeys((version, "latest"))
    try:
        found = [check_template_security(template.content, level=level, version=each) for each in versions]
    except UnreadablePod as unreadable:
        yield unreadable.problem.under(*template.path)
        return
    for violation in dict.fromkeys(violation for violations in found for violation in violations):
        yield Problem(Code.ADMISSION_POD_SECURITY, template.path, f"violates Pod Security {level}: {violation}")


def _check_workload(workload: ObjectPart, context: ProjectContext) -> Iterator[Problem]:
    spec = workload.open("spec")
    is_job = workload.content["kind"] == "Job"
    yield from _check_job_deadline(workload, spec, context)
    if context.is_anchor and workload.find("metadata", "annotations", _WISH) != "hold":
        path = (*workload.path, "metadata", "annotations", _WISH)
        yield Problem(Code.ADMISSION_ANCHOR, path, "an anchor must say that it is held back", allowed="hold")
    if context.is_anchor and workload.find("metadata", "annotations", _GENERATION) is None:
        path = (*workload.path, "metadata", "annotations", _GENERATION)
        yield Problem(Code.ADMISSION_ANCHOR, path, "an anchor must state its generation")
    if context.is_anchor and not is_job and find_number(workload, REPLICAS) is None:
        path = (*workload.path, "metadata", "annotations", REPLICAS)
        yield Problem(Code.ADMISSION_ANCHOR, path, "an anchor must state the replicas that its release sets")
    if context.is_anchor and is_job and (spec.find("suspend") is not True or "ttlSecondsAfterFinished" in spec.content):
        yield Problem(Code.ADMISSION_ANCHOR, spec.path, "an anchor must be suspended and have no TTL")
    if context.is_anchor and not is_job and spec.find("replicas") != 0:
        yield Problem(Code.ADMISSION_ANCHOR, (*spec.path, "replicas"), "an anchor must have 0 replicas")
    deadline = spec.find("progressDeadlineSeconds")
    waiting = workload.find("metadata", "annotations", PENDING_TIMEOUT)
    if deadline is not None and str(deadline) != waiting:
        path = (*spec.path, "progressDeadlineSeconds")
        yield Problem(Code.ADMISSION_DEADLINE, path, f"must equal the annotation {PENDING_TIMEOUT}")


def _check_job_deadline(workload: ObjectPart, spec: ObjectPart, context: ProjectContext) -> Iterator[Problem]:
    """An anchor's own deadline must be later than the timeout that it states: it deletes pods with their logs."""
    if not context.is_anchor or workload.content["kind"] != "Job":
        return
    timeout = find_number(workload, TIMEOUT)
    grace = spec.find("template", "spec", "terminationGracePeriodSeconds")
    expected = None if timeout is None else timeout + (_GRACE_SECONDS if grace is None else grace)
    expected = None if expected is None else expected + _DEADLINE_MARGIN_SECONDS
    given = spec.find("activeDeadlineSeconds")
    if given != expected:
        path = (*spec.path, "activeDeadlineSeconds")
        message = f"must be the annotation {TIMEOUT}, the grace period and {_DEADLINE_MARGIN_SECONDS} s together"
        yield Problem(Code.ADMISSION_DEADLINE, path, message, value=given, allowed=str(expected or "none"))


def _check_admin_fields(pod: ObjectPart, admin: AdminInputs, context: ProjectContext) -> Iterator[Problem]:
    """Fields that users cannot set must have exactly the admin's value, or be absent."""
    for key, field in (("serviceAccountName", "service_account"), ("schedulerName", "scheduler_name")):
        given = pod.find(key)
        if given is not None and given not in admin.iter_profile_values(field):
            yield _report_foreign_value(pod, key, given)
    for key, field in (("hostAliases", "host_aliases"), ("topologySpreadConstraints", "topology_spread")):
        given = pod.find(key)
        if given and given not in [[dict(entry) for entry in said] for said in admin.iter_profile_values(field)]:
            yield _report_foreign_value(pod, key, None)
    secrets = {*admin.get_platform("image_pull_secrets"), *_flatten(admin.iter_profile_values("image_pull_secrets"))}
    if context.has_registry_secret:
        secrets.add(make_registry_name(admin.project))
    for secret in pod.iter_parts("imagePullSecrets"):
        if secret.content["name"] not in secrets:
            yield _report_foreign_value(pod, "imagePullSecrets", secret.content["name"])


def _flatten(lists: Iterator[Any]) -> Iterator[Any]:
    for entries in lists:
        yield from entries


def _report_foreign_value(pod: ObjectPart, key: str, value: Any) -> Problem:
    return Problem(
        Code.ADMISSION_ADMINS, (*pod.path, key), "only an admin may set this, and no admin set this value", value=value
    )


def _check_environment(bundle: Bundle, container: ObjectPart, context: ProjectContext) -> Iterator[Problem]:
    """Each variable has one entry; one from a secret has the name of its key, in the run's own Secret."""
    names: set[str] = set()
    tokens = _list_tokens(bundle, context)
    for variable in container.iter_parts("env"):
        name = variable.content["name"]
        if name in names:
            yield Problem(Code.ADMISSION_TWICE, variable.path, "another variable has the same name", value=name)
        names.add(name)
        if any(token in variable.content.get("value", "") for token in tokens):
            yield Problem(Code.ADMISSION_REFERENCE, variable.path, "the run's token may only be in its Secret")
        reference = variable.find("valueFrom", "secretKeyRef")
        if reference is not None and reference["key"] not in _find_secret(bundle, reference["name"]):
            message = "must refer to a key of the run's own Secret"
            yield Problem(Code.ADMISSION_REFERENCE, variable.path, message, value=reference["name"])
        if reference is not None and reference["key"] != name:
            message = f"must have the name of its secret, `{reference['key']}`"
            yield Problem(Code.ADMISSION_REFERENCE, (*variable.path, "name"), message, value=name)


def _list_tokens(bundle: Bundle, context: ProjectContext) -> list[str]:
    """The texts of the platform's own secrets, as far as they are known yet."""
    encoded = [
        text
        for secret in bundle.of("Secret")
        for name, text in secret.content["data"].items()
        if name in context.platform_secrets and text
    ]
    decoded = [base64.b64decode(text).decode() for text in encoded]
    return [text for text in decoded if len(text) >= _LEAST_TOKEN_CHARACTERS]


def _find_secret(bundle: Bundle, name: str) -> Any:
    """The data of the Secret of this name among the objects; empty where there is none."""
    return next((item.content["data"] for item in bundle.of("Secret") if item.content["metadata"]["name"] == name), {})


def _check_source(source: Source, bundle: Bundle, context: ProjectContext) -> Iterator[Problem]:
    content, path = source.part.content, source.part.path
    own = _OWN_VOLUMES.get(source.name)
    is_reserved = source.name.startswith(RESERVED_PREFIX) or source.kind == "secret"
    if is_reserved and source.kind not in (own or ()):
        yield Problem(
            Code.ADMISSION_VOLUME, path, "this name or type is reserved for the platform's volumes", value=source.name
        )
    if source.kind == "secret":
        data = _find_secret(bundle, content["secretName"])
        items = content.get("items")
        if not items or any(item["key"] not in data or item["path"] != item["key"] for item in items):
            yield Problem(
                Code.ADMISSION_REFERENCE, path, "must list keys of the run's own Secret, each under its own name"
            )
    elif source.kind == "configMap":
        if content["name"] not in bundle.list_names("ConfigMap"):
            yield Problem(Code.ADMISSION_REFERENCE, path, "not a ConfigMap of the run", value=content["name"])
    elif source.kind == "persistentVolumeClaim":
        known = bundle.list_names("PersistentVolumeClaim") | context.shared_claims | context.project_claims
        if content["claimName"] not in known:
            yield Problem(Code.ADMISSION_REFERENCE, path, "not a claim of the project", value=content["claimName"])
    elif source.kind == "image":
        yield from _check_image(source.part, "reference")


def _check_image(part: ObjectPart, key: str) -> Iterator[Problem]:
    try:
        read_image(part.content[key])
    except Refused as refused:
        yield from (problem.under(*part.path, key) for problem in refused.problems)


def _check_mounts(bundle: Bundle, container: ObjectPart) -> Iterator[Problem]:
    kinds = {source.name: source.kind for source in bundle.iter_sources()}
    paths: set[str] = set()
    for mount in container.iter_parts("volumeMounts"):
        path, sub_path = mount.content["mountPath"], mount.find("subPath")
        if mount.content["name"] not in kinds:
            yield Problem(Code.ADMISSION_MOUNT, mount.path, "unknown volume", value=mount.content["name"])
        if path in paths:
            yield Problem(Code.ADMISSION_TWICE, mount.path, "another volume is mounted at this path", value=path)
        paths.add(path)
        if not _is_mount_path(path):
            yield Problem(
                Code.ADMISSION_MOUNT, (*mount.path, "mountPath"), "volumes may not be mounted at this path", value=path
            )
        if sub_path is not None and (sub_path.startswith("/") or ".." in sub_path or "\\" in sub_path or not sub_path):
            yield Problem(Code.ADMISSION_MOUNT, (*mount.path, "subPath"), "the path leaves the volume", value=sub_path)
        if kinds.get(mount.content["name"]) == "secret" and mount.find("readOnly") is not True:
            yield Problem(Code.ADMISSION_MOUNT, mount.path, "a secret must be mounted read-only")


def _is_mount_path(path: str) -> bool:
    try:
        return read_mount_path(path) == path
    except Refused:
        return False


def _check_scratch(scratch: Source, container: ObjectPart, admin: AdminInputs) -> Iterator[Problem]:
    """Scratch space is the volume of `resources.disk`; it must have the policy's medium and class."""
    mounts = [mount.content for mount in container.iter_parts("volumeMounts") if mount.content["name"] == scratch.name]
    if mounts != [{"name": scratch.name, "mountPath": SCRATCH_PATH}]:
        yield Problem(
            Code.ADMISSION_SCRATCH,
            scratch.part.path,
            f"scratch space must be mounted once, at {SCRATCH_PATH}, without a sub path",
        )
    medium = "ephemeral" if scratch.kind == "ephemeral" else "empty_dir"
    if medium != admin.get_platform("disk_medium"):
        yield Problem(
            Code.ADMISSION_SCRATCH, scratch.part.path, "scratch space must be of the policy's medium", value=medium
        )
    if scratch.kind == "emptyDir" and scratch.part.content.keys() != {"sizeLimit"}:
        yield Problem(
            Code.ADMISSION_SCRATCH,
            scratch.part.path,
            "scratch space in an emptyDir must set `sizeLimit` and nothing else",
        )
    storage_class = scratch.part.find("volumeClaimTemplate", "spec", "storageClassName")
    rules = ("resources.disk.storage_class", "volumes.storage_class")
    defaults = [default for rule in rules for default in admin.iter_defaults(rule)]
    if storage_class is not None and storage_class not in defaults:
        yield Problem(
            Code.ADMISSION_SCRATCH, scratch.part.path, "scratch space must have the storage class of the policy"
        )
