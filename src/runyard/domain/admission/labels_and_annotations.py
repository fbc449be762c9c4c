"""What objects say about themselves: labels, annotations and selectors."""

import re
from collections.abc import Iterator

from runyard.domain.admission.admins import Admins
from runyard.domain.admission.bundle import Bundle, Placed
from runyard.domain.admission.facts import PENDING_TIMEOUT
from runyard.domain.admission.identity import hash_text
from runyard.domain.admission.object_shapes import WORKLOADS
from runyard.spec.names import check_label_value
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem

_RUN, _INSTALLATION, _PROJECT = "runyard.io/run", "runyard.io/installation", "runyard.io/project"
_SAME = (_RUN, _INSTALLATION, "app.kubernetes.io/instance")
"""Labels that all objects of a run have alike."""
_LIFETIME = "runyard.io/lifetime"
_EXACT = frozenset(
    f"runyard.io/{name}"
    for name in ("installation", "run", "project", "action", "kind", "profile", "user", "function", "run-name")
)
"""Annotations that hold what does not fit a label."""
_LABELS = (
    frozenset(f"app.kubernetes.io/{name}" for name in ("name", "instance", "component", "part-of", "managed-by"))
    | frozenset(f"dhcore/{name}" for name in ("project", "run", "runtime", "framework", "user"))
    | (_EXACT - {"runyard.io/run-name"})
    | {"runyard.io/volume"}
)
_HASHED = re.compile(r"(?:.*-)?x[0-9a-f]{20}", re.ASCII)


def check_marks(bundle: Bundle, admins: Admins, *, project: str) -> Iterator[Problem]:
    """What does not say, or not clearly, that it is this run's of this project."""
    expected: dict[str, str] = {}
    for metadata in bundle.iter_metadata():
        yield from _check_labels(metadata, admins, project=project, expected=expected)
        yield from _check_annotations(metadata, bundle)
    for item in bundle.of("Service", "Deployment"):
        keys = ("spec", "selector") if item.content["kind"] == "Service" else ("spec", "selector", "matchLabels")
        yield from _check_selector(item.open(*keys), item.content["metadata"]["labels"])


def _check_labels(metadata: Placed, admins: Admins, *, project: str, expected: dict[str, str]) -> Iterator[Problem]:
    labels = metadata.content["labels"]
    for key, value in labels.items():
        path = (*metadata.path, "labels", key)
        if key not in _LABELS and not admins.says_pair("labels", key, value):
            yield Problem(Code.ADMISSION_LABEL, path, "is neither the platform's nor the profile's", value=value)
    for key in (_PROJECT, "dhcore/project", "app.kubernetes.io/part-of"):
        if not _is_label_of(project, labels.get(key)):
            path = (*metadata.path, "labels", key)
            yield Problem(Code.ADMISSION_PROJECT, path, "is not this project's", value=labels.get(key), allowed=project)
    for key in _SAME:
        value = labels.get(key)
        if value is None or expected.setdefault(key, value) != value:
            path = (*metadata.path, "labels", key)
            yield Problem(Code.ADMISSION_LABEL, path, "is missing, or differs between the objects", value=value)
    if labels.get("dhcore/run") != labels.get(_RUN):
        yield Problem(Code.ADMISSION_LABEL, (*metadata.path, "labels", "dhcore/run"), f"is not {_RUN}")
    if labels.get("app.kubernetes.io/managed-by") != "runyard":
        yield Problem(Code.ADMISSION_LABEL, (*metadata.path, "labels"), "do not say that Runyard manages this")


def _is_label_of(text: str, value: str | None) -> bool:
    """Whether a label stands for a text: it is that, or where that cannot be a label, it ends in its hash."""
    if check_label_value(text) is None and not _HASHED.fullmatch(text):
        return value == text
    ending = f"x{hash_text(text)}"
    return value is not None and (value == ending or value.endswith(f"-{ending}"))


def _check_annotations(metadata: Placed, bundle: Bundle) -> Iterator[Problem]:
    kinds = {item.open("metadata").path: item.content["kind"] for item in bundle.objects}
    kind = kinds.get(metadata.path)
    for key, value in metadata.content.get("annotations", {}).items():
        path = (*metadata.path, "annotations", key)
        is_known = (
            (key in _EXACT and _is_exact(key, value, metadata.content["labels"]))
            or (key == _LIFETIME and kind == "PersistentVolumeClaim" and re.fullmatch(r"run|keep|[0-9]{1,18}", value))
            or (key == PENDING_TIMEOUT and kind in WORKLOADS and re.fullmatch(r"[0-9]{1,18}", value))
        )
        if not is_known:
            yield Problem(Code.ADMISSION_ANNOTATION, path, "is not one that we write there")


def _is_exact(key: str, text: str, labels: dict[str, str]) -> bool:
    """Whether an annotation is what its label stands for; the run's name has none."""
    return key == "runyard.io/run-name" or _is_label_of(text, labels.get(key))


def _check_selector(selector: Placed, labels: dict[str, str]) -> Iterator[Problem]:
    """It chooses pods by the run and the installation, so that no other run's can be meant."""
    for key in (_RUN, _INSTALLATION):
        if key not in selector.content:
            yield Problem(Code.ADMISSION_SELECTOR, (*selector.path, key), "does not choose the run's own pods")
    for key, value in selector.content.items():
        if labels.get(key) != value:
            yield Problem(
                Code.ADMISSION_SELECTOR, (*selector.path, key), "is not among the object's labels", value=value
            )
