"""The pod: Pod Security, what only an admin may set, the environment, volumes and what they refer to."""

from collections.abc import Iterator
from typing import Any

from runyard.domain.admission.admins import Admins
from runyard.domain.admission.bundle import SCRATCH_VOLUME, SECRETS_VOLUME, Bundle, Placed, Source
from runyard.domain.admission.facts import PENDING_TIMEOUT, Surroundings
from runyard.pods.fields import UnreadablePod
from runyard.pods.security import check_template_security
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.volumes import RESERVED_PREFIX, SCRATCH_PATH, read_image, read_mount_path

_OWN_VOLUMES = {SCRATCH_VOLUME: ("emptyDir", "ephemeral"), SECRETS_VOLUME: ("secret",)}


def check_pod(bundle: Bundle, admins: Admins, around: Surroundings, *, version: str) -> Iterator[Problem]:
    """What is wrong with the pods of the Job or Deployment; nothing where there is none."""
    workload, pod, container = bundle.workload, bundle.pod, bundle.container
    if workload is None or pod is None or container is None:
        return
    yield from _check_security(workload.open("spec", "template"), admins, version=version)
    yield from _check_workload(workload, around)
    yield from _check_admins_fields(pod, admins)
    yield from _check_environment(bundle, container)
    yield from _check_image(container, "image")
    yield from _check_mounts(bundle, container)
    names: set[str] = set()
    for source in bundle.iter_sources():
        if source.name in names:
            yield Problem(Code.ADMISSION_TWICE, source.part.path, "another volume has that name", value=source.name)
        names.add(source.name)
        yield from _check_source(source, bundle, around)
        if source.name == SCRATCH_VOLUME:
            yield from _check_scratch(source, container, admins)


def _check_security(template: Placed, admins: Admins, *, version: str) -> Iterator[Problem]:
    """The checks of the cluster's version and of the newest: an old cluster's Pod Security does not lower ours."""
    level = admins.pod_security
    versions = dict.fromkeys((version, "latest"))
    try:
        found = [check_template_security(template.content, level=level, version=each) for each in versions]
    except UnreadablePod as unreadable:
        yield unreadable.problem.under(*template.path)
        return
    for violation in dict.fromkeys(violation for violations in found for violation in violations):
        yield Problem(Code.ADMISSION_POD_SECURITY, template.path, f"breaks Pod Security {level}: {violation}")


def _check_workload(workload: Placed, around: Surroundings) -> Iterator[Problem]:
    spec = workload.open("spec")
    is_job = workload.content["kind"] == "Job"
    if around.is_anchor and is_job and (spec.find("suspend") is not True or "ttlSecondsAfterFinished" in spec.content):
        yield Problem(Code.ADMISSION_ANCHOR, spec.path, "an anchor is suspended and has no TTL")
    if around.is_anchor and not is_job and spec.find("replicas") != 0:
        yield Problem(Code.ADMISSION_ANCHOR, (*spec.path, "replicas"), "an anchor has no replicas")
    deadline = spec.find("progressDeadlineSeconds")
    waiting = workload.find("metadata", "annotations", PENDING_TIMEOUT)
    if deadline is not None and str(deadline) != waiting:
        path = (*spec.path, "progressDeadlineSeconds")
        yield Problem(Code.ADMISSION_DEADLINE, path, f"is not what {PENDING_TIMEOUT} says")


def _check_admins_fields(pod: Placed, admins: Admins) -> Iterator[Problem]:
    """What users have no field for: it is the admin's, as it stands, or it should not be there."""
    for key, field in (("serviceAccountName", "service_account"), ("schedulerName", "scheduler_name")):
        given = pod.find(key)
        if given is not None and given not in admins.iter_said(field):
            yield _not_admins(pod, key, given)
    for key, field in (("hostAliases", "host_aliases"), ("topologySpreadConstraints", "topology_spread")):
        given = pod.find(key)
        if given and given not in [[dict(entry) for entry in said] for said in admins.iter_said(field)]:
            yield _not_admins(pod, key, None)
    secrets = {*admins.get_platform("image_pull_secrets"), *_flatten(admins.iter_said("image_pull_secrets"))}
    for secret in pod.iter_parts("imagePullSecrets"):
        if secret.content["name"] not in secrets:
            yield _not_admins(pod, "imagePullSecrets", secret.content["name"])


def _flatten(lists: Iterator[Any]) -> Iterator[Any]:
    for entries in lists:
        yield from entries


def _not_admins(pod: Placed, key: str, value: Any) -> Problem:
    return Problem(Code.ADMISSION_ADMINS, (*pod.path, key), "is not what the admin set", value=value)


def _check_environment(bundle: Bundle, container: Placed) -> Iterator[Problem]:
    """Each name once; secrets only from the run's own Secret."""
    names: set[str] = set()
    for variable in container.iter_parts("env"):
        name = variable.content["name"]
        if name in names:
            yield Problem(Code.ADMISSION_TWICE, variable.path, "another variable has that name", value=name)
        names.add(name)
        reference = variable.find("valueFrom", "secretKeyRef")
        if reference is not None and reference["key"] not in _find_secret(bundle, reference["name"]):
            message = "does not refer to the run's own Secret"
            yield Problem(Code.ADMISSION_REFERENCE, variable.path, message, value=reference["name"])


def _find_secret(bundle: Bundle, name: str) -> Any:
    """The data of the Secret of that name among the objects; nothing where there is none."""
    return next((item.content["data"] for item in bundle.of("Secret") if item.content["metadata"]["name"] == name), {})


def _check_source(source: Source, bundle: Bundle, around: Surroundings) -> Iterator[Problem]:
    content, path = source.part.content, source.part.path
    own = _OWN_VOLUMES.get(source.name)
    is_reserved = source.name.startswith(RESERVED_PREFIX) or source.kind == "secret"
    if is_reserved and source.kind not in (own or ()):
        yield Problem(Code.ADMISSION_VOLUME, path, "is none of the platform's own volumes", value=source.name)
    if source.kind == "secret":
        data = _find_secret(bundle, content["secretName"])
        items = content.get("items")
        if not items or any(item["key"] not in data or item["path"] != item["key"] for item in items):
            yield Problem(Code.ADMISSION_REFERENCE, path, "does not refer to the run's own Secret, key by key")
    elif source.kind == "configMap":
        known = bundle.list_names("ConfigMap") | around.project_config_maps
        if content["name"] not in known:
            yield Problem(Code.ADMISSION_REFERENCE, path, "is no config map of the project", value=content["name"])
    elif source.kind == "persistentVolumeClaim":
        known = bundle.list_names("PersistentVolumeClaim") | around.shared_claims | around.project_claims
        if content["claimName"] not in known:
            yield Problem(Code.ADMISSION_REFERENCE, path, "is no claim of the project", value=content["claimName"])
    elif source.kind == "image":
        yield from _check_image(source.part, "reference")


def _check_image(part: Placed, key: str) -> Iterator[Problem]:
    try:
        read_image(part.content[key])
    except Refused as refused:
        yield from (problem.under(*part.path, key) for problem in refused.problems)


def _check_mounts(bundle: Bundle, container: Placed) -> Iterator[Problem]:
    kinds = {source.name: source.kind for source in bundle.iter_sources()}
    paths: set[str] = set()
    for mount in container.iter_parts("volumeMounts"):
        path, sub_path = mount.content["mountPath"], mount.find("subPath")
        if mount.content["name"] not in kinds:
            yield Problem(Code.ADMISSION_MOUNT, mount.path, "there is no such volume", value=mount.content["name"])
        if path in paths:
            yield Problem(Code.ADMISSION_TWICE, mount.path, "something else is mounted there", value=path)
        paths.add(path)
        if not _is_mount_path(path):
            yield Problem(Code.ADMISSION_MOUNT, (*mount.path, "mountPath"), "nothing may be mounted there", value=path)
        if sub_path is not None and (sub_path.startswith("/") or ".." in sub_path or "\\" in sub_path or not sub_path):
            yield Problem(Code.ADMISSION_MOUNT, (*mount.path, "subPath"), "leads out of the volume", value=sub_path)
        if kinds.get(mount.content["name"]) == "secret" and mount.find("readOnly") is not True:
            yield Problem(Code.ADMISSION_MOUNT, mount.path, "a secret is mounted for reading only")


def _is_mount_path(path: str) -> bool:
    try:
        return read_mount_path(path) == path
    except Refused:
        return False


def _check_scratch(scratch: Source, container: Placed, admins: Admins) -> Iterator[Problem]:
    """Scratch space is what `resources.disk` means, and no other volume may pass for it."""
    mounts = [mount.content for mount in container.iter_parts("volumeMounts") if mount.content["name"] == scratch.name]
    if mounts != [{"name": scratch.name, "mountPath": SCRATCH_PATH}]:
        yield Problem(Code.ADMISSION_SCRATCH, scratch.part.path, f"is mounted once, at {SCRATCH_PATH}, and as a whole")
    medium = "ephemeral" if scratch.kind == "ephemeral" else "empty_dir"
    if medium != admins.get_platform("disk_medium"):
        yield Problem(Code.ADMISSION_SCRATCH, scratch.part.path, "is not of the policy's medium", value=medium)
    if scratch.kind == "emptyDir" and scratch.part.content.keys() != {"sizeLimit"}:
        yield Problem(Code.ADMISSION_SCRATCH, scratch.part.path, "has a size, and nothing else is said of it")
    storage_class = scratch.part.find("volumeClaimTemplate", "spec", "storageClassName")
    rules = ("resources.disk.storage_class", "volumes.storage_class")
    defaults = [default for rule in rules for default in admins.iter_defaults(rule)]
    if storage_class is not None and storage_class not in defaults:
        yield Problem(Code.ADMISSION_SCRATCH, scratch.part.path, "has a class that the policy does not give it")
