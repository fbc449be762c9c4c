"""Checks which objects a run has, and that their names, namespace and owner are the run's own.

Applying an object under the name of another run, or of something that exists already, would overwrite it.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from runyard.domain.admission.bundle import Bundle, ObjectPart
from runyard.domain.admission.facts import ProjectContext
from runyard.domain.admission.object_shapes import API_VERSIONS, WORKLOADS
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem

_MOST = {"Job": 1, "Deployment": 1, "Secret": 1, "Service": 2}
"""Services: the run's own, and the alias with a stable name."""
_UID_HASH_CHARACTERS = 15
_MOST_NAME_CHARACTERS = 52
"""Of a Job or Deployment. Controllers append up to 11 characters, and the result must fit a label value."""


def hash_text(text: str) -> str:
    """The hash that replaces a text which is not a valid name or label value."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:20]


def make_registry_name(project: str) -> str:
    """The name of the Secret with the registry credentials of a project."""
    prefix, digest = "runyard-registry", hash_text(project)
    room = 63 - len(f"{prefix}--{digest}")
    slug = re.sub("[^a-z0-9]+", "-", project.lower()).strip("-")[:room].strip("-")
    return f"{prefix}-{slug}-{digest}" if slug else f"{prefix}-{digest}"


def check_identity(bundle: Bundle, context: ProjectContext, *, project: str) -> Iterator[Problem]:
    """Find objects that a run does not have, or that have a name which is not the run's."""
    names: set[tuple[str, str]] = set()
    for item in bundle.objects:
        kind, name = item.content["kind"], item.content["metadata"]["name"]
        path = (*item.path, "metadata", "name")
        if (kind, name) in names:
            yield Problem(Code.ADMISSION_TWICE, path, "is listed twice", value=name)
        names.add((kind, name))
        if context.run_uid is not None and _state(item.content["metadata"], "runyard.io/run-uid") != context.run_uid:
            path_of_uid = (*item.path, "metadata", "labels", "runyard.io/run-uid")
            yield Problem(Code.ADMISSION_LABEL, path_of_uid, "must be the uid of this run")
        if not _is_own_name(item, project=project):
            yield Problem(Code.ADMISSION_NAME, path, f"not a valid name for a {kind} of this run", value=name)
        if kind == "PersistentVolumeClaim" and name in context.project_claims:
            yield Problem(
                Code.ADMISSION_NAME,
                path,
                "an object of this name exists already; the platform did not create it",
                value=name,
            )
    yield from _check_counts(bundle)
    yield from _check_owners(bundle)


def _check_counts(bundle: Bundle) -> Iterator[Problem]:
    for kind, most in _MOST.items():
        if len(bundle.of(kind)) > most:
            yield Problem(
                Code.ADMISSION_COUNT, ("objects",), f"has {len(bundle.of(kind))} of {kind}", allowed=f"{most}"
            )
    if len(bundle.of(*WORKLOADS)) > 1:
        yield Problem(Code.ADMISSION_COUNT, ("objects",), "a run has exactly one Job or Deployment")
    if bundle.of("Job") and bundle.of("Service"):
        yield Problem(Code.ADMISSION_COUNT, ("objects",), "a Job has no Service")
    namespaces = {item.content["metadata"].get("namespace") for item in bundle.objects}
    if len(namespaces) > 1:
        yield Problem(Code.ADMISSION_NAMESPACE, ("objects",), "the objects are in more than one namespace")


def _is_own_name(item: ObjectPart, *, project: str) -> bool:
    kind, name, labels = item.content["kind"], item.content["metadata"]["name"], item.content["metadata"]["labels"]
    instance = labels.get("app.kubernetes.io/instance", "")
    if instance != _make_instance(item.content["metadata"]):
        return False
    if kind == "Secret":
        return bool(name == f"{instance}-secrets")
    if kind in ("PersistentVolumeClaim", "ConfigMap"):
        return bool(name.startswith(f"{instance}."))
    return bool(name == instance) or (kind == "Service" and name.startswith((f"svc-{project}--", "svcx-")))


def _make_instance(metadata: Mapping[str, Any]) -> str:
    """The name that a run's Job or Deployment must have, by the id and uid that the metadata states.

    An annotation holds the full text where the label holds a hash of it.
    """
    run_id, run_uid = _state(metadata, "runyard.io/run"), _state(metadata, "runyard.io/run-uid")
    digest = hash_text(run_uid)[:_UID_HASH_CHARACTERS]
    room = _MOST_NAME_CHARACTERS - len(f"run--{digest}")
    slug = re.sub("[^a-z0-9]+", "-", run_id.lower()).strip("-")[:room].strip("-")
    return f"run-{slug}-{digest}" if slug else f"run-{digest}"


def _state(metadata: Mapping[str, Any], key: str) -> str:
    """The full text of a label; an annotation holds it where the label holds a hash."""
    stated = {**metadata["labels"], **metadata.get("annotations", {})}
    return str(stated.get(key, ""))


def _check_owners(bundle: Bundle) -> Iterator[Problem]:
    first: Any = None
    for item in bundle.objects:
        for owner in item.open("metadata").iter_parts("ownerReferences"):
            content = owner.content
            first = first or content
            if content["apiVersion"] != API_VERSIONS[content["kind"]] or content != first:
                yield Problem(Code.ADMISSION_OWNER, owner.path, "must be the same owner for all objects of a run")
            workload = bundle.workload
            mine = workload and (workload.content["kind"], workload.content["metadata"]["name"])
            if mine and mine != (content["kind"], content["name"]):
                yield Problem(Code.ADMISSION_OWNER, owner.path, "must be the run's Job or Deployment")
