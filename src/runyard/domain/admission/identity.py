"""Which objects a run has, and that their names, namespace and owner are its own.

A name of another run or of something that exists already would be taken over by whoever applies the object.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from runyard.domain.admission.bundle import Bundle, Placed
from runyard.domain.admission.facts import Surroundings
from runyard.domain.admission.object_shapes import API_VERSIONS, WORKLOADS
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem

_MOST = {"Job": 1, "Deployment": 1, "Secret": 1, "Service": 2}
"""The run's Service, and the one with a stable name."""
_HASH = re.compile(r"(?:.*-)?x([0-9a-f]{20})", re.ASCII)


def hash_text(text: str) -> str:
    """What stands in names and labels for a text that cannot."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:20]


def check_identity(bundle: Bundle, around: Surroundings, *, project: str) -> Iterator[Problem]:
    """What a run does not have, or has under a name that is not its own."""
    names: set[tuple[str, str]] = set()
    for item in bundle.objects:
        kind, name = item.content["kind"], item.content["metadata"]["name"]
        path = (*item.path, "metadata", "name")
        if (kind, name) in names:
            yield Problem(Code.ADMISSION_TWICE, path, "stands twice", value=name)
        names.add((kind, name))
        if not _is_own_name(item, project=project):
            yield Problem(Code.ADMISSION_NAME, path, f"is not the name of a run's {kind}", value=name)
        taken = {"PersistentVolumeClaim": around.project_claims, "ConfigMap": around.project_config_maps}
        if name in taken.get(kind, ()):
            yield Problem(Code.ADMISSION_NAME, path, "exists already, and was not made by the platform", value=name)
    yield from _check_counts(bundle)
    yield from _check_owners(bundle)


def _check_counts(bundle: Bundle) -> Iterator[Problem]:
    for kind, most in _MOST.items():
        if len(bundle.of(kind)) > most:
            yield Problem(
                Code.ADMISSION_COUNT, ("objects",), f"has {len(bundle.of(kind))} of {kind}", allowed=f"{most}"
            )
    if len(bundle.of(*WORKLOADS)) > 1:
        yield Problem(Code.ADMISSION_COUNT, ("objects",), "a run has one Job or one Deployment")
    if bundle.of("Job") and bundle.of("Service"):
        yield Problem(Code.ADMISSION_COUNT, ("objects",), "a Job has no Service")
    namespaces = {item.content["metadata"].get("namespace") for item in bundle.objects}
    if len(namespaces) > 1:
        yield Problem(Code.ADMISSION_NAMESPACE, ("objects",), "go into more than one namespace")


def _is_own_name(item: Placed, *, project: str) -> bool:
    kind, name, labels = item.content["kind"], item.content["metadata"]["name"], item.content["metadata"]["labels"]
    instance = labels.get("app.kubernetes.io/instance", "")
    if not _is_instance_of(labels.get("runyard.io/run", ""), instance):
        return False
    if kind == "Secret":
        return bool(name == f"{instance}-secrets")
    if kind in ("PersistentVolumeClaim", "ConfigMap"):
        return bool(name.startswith(f"{instance}."))
    return bool(name == instance) or (kind == "Service" and name.startswith((f"svc-{project}--", "svcx-")))


def _is_instance_of(run: str, instance: str) -> bool:
    """Whether a name is that of the run that a label names; either may hold the run's id or end in its hash."""
    hashed = _HASH.fullmatch(run)
    if instance.startswith("run-"):
        plain = instance.removeprefix("run-")
        return hash_text(plain) == hashed[1] if hashed else plain == run
    ending = hashed[1] if hashed else hash_text(run)
    return instance.startswith("runx-") and instance.endswith(f"-{ending}")


def _check_owners(bundle: Bundle) -> Iterator[Problem]:
    first: Any = None
    for item in bundle.objects:
        for owner in item.open("metadata").iter_parts("ownerReferences"):
            content = owner.content
            first = first or content
            if content["apiVersion"] != API_VERSIONS[content["kind"]] or content != first:
                yield Problem(Code.ADMISSION_OWNER, owner.path, "is not the one that owns all objects of a run")
            workload = bundle.workload
            mine = workload and (workload.content["kind"], workload.content["metadata"]["name"])
            if mine and mine != (content["kind"], content["name"]):
                yield Problem(Code.ADMISSION_OWNER, owner.path, "is not the run's Job or Deployment")
