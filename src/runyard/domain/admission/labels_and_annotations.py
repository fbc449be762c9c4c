"""Checks labels, annotations and selectors: each object must identify its run and project."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from runyard.domain.admission.admin_inputs import AdminInputs
from runyard.domain.admission.bundle import Bundle, ObjectPart
from runyard.domain.admission.facts import PENDING_TIMEOUT, REPLICAS, TIMEOUT, TTL
from runyard.domain.admission.identity import hash_text
from runyard.domain.admission.object_shapes import WORKLOADS
from runyard.spec.names import check_label_value
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem

_RUN, _RUN_UID, _INSTALLATION, _PROJECT = (
    f"runyard.io/{name}" for name in ("run", "run-uid", "installation", "project")
)
_SAME = (_RUN, _RUN_UID, _INSTALLATION, "app.kubernetes.io/instance")
"""Labels that have the same value on all objects of a run."""
_LIFETIME = "runyard.io/lifetime"
_GENERATION, _WISH = "runyard.io/generation", "runyard.io/wish"
_EXACT = frozenset(
    f"runyard.io/{name}"
    for name in (
        "installation",
        "run",
        "run-uid",
        "project",
        "action",
        "kind",
        "profile",
        "user",
        "function",
        "run-name",
    )
)
"""Annotations that hold the full text where a label holds a hash."""
_LABELS = (
    frozenset(f"app.kubernetes.io/{name}" for name in ("name", "instance", "component", "part-of", "managed-by"))
    | frozenset(f"dhcore/{name}" for name in ("project", "run", "runtime", "framework", "user"))
    | (_EXACT - {"runyard.io/run-name"})
    | {"runyard.io/volume"}
)
_NOTHING = r"(?!)"
_NUMBER = r"[0-9]{1,18}"
_OF_ANCHORS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Job": {_GENERATION: _NUMBER, _WISH: "hold", TIMEOUT: _NUMBER, TTL: _NUMBER},
        "Deployment": {_GENERATION: _NUMBER, _WISH: "hold", REPLICAS: _NUMBER},
        "Secret": {_GENERATION: _NUMBER},
    }
)
"""Annotations of anchors and their Secrets by kind, and their form."""
_HASHED = re.compile(r"(?:.*-)?x[0-9a-f]{20}", re.ASCII)


def check_labels_and_annotations(
    bundle: Bundle, admin: AdminInputs, *, project: str, is_anchor: bool
) -> Iterator[Problem]:
    """Find metadata that does not identify this run of this project."""
    expected: dict[str, str] = {}
    for metadata in bundle.iter_metadata():
        yield from _check_labels(metadata, admin, project=project, expected=expected)
        yield from _check_annotations(metadata, bundle, is_anchor=is_anchor)
    for item in bundle.of("Service", "Deployment"):
        keys = ("spec", "selector") if item.content["kind"] == "Service" else ("spec", "selector", "matchLabels")
        yield from _check_selector(item.open(*keys), item.content["metadata"]["labels"])


def _check_labels(
    metadata: ObjectPart, admin: AdminInputs, *, project: str, expected: dict[str, str]
) -> Iterator[Problem]:
    labels = metadata.content["labels"]
    for key, value in labels.items():
        path = (*metadata.path, "labels", key)
        if key not in _LABELS and not admin.sets_pair("labels", key, value):
            yield Problem(Code.ADMISSION_LABEL, path, "not a label of the platform or of the profile", value=value)
    for key in (_PROJECT, "dhcore/project", "app.kubernetes.io/part-of"):
        if not is_label_of(project, labels.get(key)):
            path = (*metadata.path, "labels", key)
            yield Problem(
                Code.ADMISSION_PROJECT, path, "must name this project", value=labels.get(key), allowed=project
            )
    for key in _SAME:
        value = labels.get(key)
        if value is None or expected.setdefault(key, value) != value:
            path = (*metadata.path, "labels", key)
            yield Problem(Code.ADMISSION_LABEL, path, "missing, or different between the objects", value=value)
    if labels.get("dhcore/run") != labels.get(_RUN):
        yield Problem(Code.ADMISSION_LABEL, (*metadata.path, "labels", "dhcore/run"), f"must equal {_RUN}")
    if labels.get("app.kubernetes.io/managed-by") != "runyard":
        yield Problem(
            Code.ADMISSION_LABEL, (*metadata.path, "labels"), "`app.kubernetes.io/managed-by` must be `runyard`"
        )


def is_label_of(text: str, value: str | None) -> bool:
    """Whether a label represents a text: it is the text, or ends in its hash where the text is no valid label."""
    if check_label_value(text) is None and not _HASHED.fullmatch(text):
        return value == text
    ending = f"x{hash_text(text)}"
    return value is not None and (value == ending or value.endswith(f"-{ending}"))


def _check_annotations(metadata: ObjectPart, bundle: Bundle, *, is_anchor: bool) -> Iterator[Problem]:
    kinds = {item.open("metadata").path: item.content["kind"] for item in bundle.objects}
    kind = kinds.get(metadata.path)
    for key, value in metadata.content.get("annotations", {}).items():
        path = (*metadata.path, "annotations", key)
        is_known = (
            (key in _EXACT and _is_exact(key, value, metadata.content["labels"]))
            or (key == _LIFETIME and kind == "PersistentVolumeClaim" and re.fullmatch(r"run|keep|[0-9]{1,18}", value))
            or (key == PENDING_TIMEOUT and kind in WORKLOADS and re.fullmatch(r"[0-9]{1,18}", value))
            or (is_anchor and re.fullmatch(_OF_ANCHORS.get(kind or "", {}).get(key, _NOTHING), value))
        )
        if not is_known:
            yield Problem(Code.ADMISSION_ANNOTATION, path, "not an annotation that Runyard writes here")


def _is_exact(key: str, text: str, labels: dict[str, str]) -> bool:
    """Whether an annotation matches its label; the run's name has no label."""
    return key == "runyard.io/run-name" or is_label_of(text, labels.get(key))


def _check_selector(selector: ObjectPart, labels: dict[str, str]) -> Iterator[Problem]:
    """A selector must select by the run's uid and installation, so that it cannot match pods of other runs."""
    for key in (_RUN_UID, _INSTALLATION):
        if key not in selector.content:
            yield Problem(
                Code.ADMISSION_SELECTOR, (*selector.path, key), "missing; the selector could match pods of other runs"
            )
    for key, value in selector.content.items():
        if labels.get(key) != value:
            yield Problem(
                Code.ADMISSION_SELECTOR, (*selector.path, key), "is not among the object's labels", value=value
            )
