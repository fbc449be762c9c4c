"""Checks the objects of a project that outlive its runs: claims of kept volumes, and registry credentials."""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from runyard.domain.admission.identity import make_registry_name
from runyard.domain.admission.labels_and_annotations import is_label_of
from runyard.domain.admission.plain_json import check_plain_json
from runyard.domain.admission.pod_shapes import CLAIM_SPEC, OBJECT_NAME, REQUIRED_LABELS
from runyard.domain.admission.shapes import Shape, check_shape, keys, named, only, text
from runyard.spec.names import check_dns_label
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, list_words

_VOLUME_ID = "runyard.io/volume-id"
_NOTES: Shape = keys({"runyard.io/project": text})
"""The project's exact name, where the label holds a hash."""
_METADATA = keys({"name": OBJECT_NAME, **REQUIRED_LABELS}, {"namespace": named(check_dns_label), "annotations": _NOTES})
_SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "PersistentVolumeClaim": keys(
            {
                "apiVersion": only("v1"),
                "kind": only("PersistentVolumeClaim"),
                "metadata": _METADATA,
                "spec": CLAIM_SPEC,
            }
        ),
        "Secret": keys(
            {
                "apiVersion": only("v1"),
                "kind": only("Secret"),
                "metadata": _METADATA,
                "type": only("kubernetes.io/dockerconfigjson"),
                "data": keys({".dockerconfigjson": text}),
            }
        ),
    }
)
_CLAIM_NAME = re.compile(r"vol-[0-9a-f]{1,64}|run-[a-z0-9-]{1,48}\.[a-z0-9.-]{1,130}")
"""Kept volumes of the project, and claims that a run asked to keep."""


def check_project_objects(objects: Sequence[Mapping[str, Any]], *, project: str, installation: str) -> list[Problem]:
    """List every reason not to send these objects. Never raises."""
    try:
        return list(_check(objects, project=project, installation=installation))
    except Exception as error:  # noqa: BLE001 - fails closed: no error may admit an object
        return [Problem(Code.ADMISSION_FAILED, (), f"the check failed, so nothing may be sent: {type(error).__name__}")]


def _check(objects: Sequence[Mapping[str, Any]], *, project: str, installation: str) -> Iterator[Problem]:
    for index, item in enumerate(objects):
        path = ("objects", index)
        problems = check_plain_json(item, path)
        kind = item.get("kind") if type(item) is dict else None
        shape = _SHAPES.get(kind) if type(kind) is str else None
        if shape is None:
            allowed = list_words(_SHAPES)
            problems.append(Problem(Code.ADMISSION_KIND, path, "not a kind that outlives runs", allowed=allowed))
        elif not problems:
            problems = check_shape(shape, item, path)
        yield from problems or _check_marks(item, path, project=project, installation=installation)


def _check_marks(
    item: Mapping[str, Any], path: tuple[str | int, ...], *, project: str, installation: str
) -> Iterator[Problem]:
    labels, name = item["metadata"]["labels"], item["metadata"]["name"]
    stated = {
        "app.kubernetes.io/part-of": project,
        "dhcore/project": project,
        "runyard.io/project": project,
        "runyard.io/installation": installation,
    }
    is_claim = item["kind"] == "PersistentVolumeClaim"
    known = {*stated, "app.kubernetes.io/managed-by", *([_VOLUME_ID] if is_claim else [])}
    if labels.keys() != known or labels["app.kubernetes.io/managed-by"] != "runyard":
        message = f"must have exactly the labels {list_words(sorted(known))}"
        yield Problem(Code.ADMISSION_LABEL, (*path, "metadata", "labels"), message)
    for key, expected in stated.items():
        if not is_label_of(expected, labels.get(key)):
            message = "must name this project and installation"
            yield Problem(Code.ADMISSION_PROJECT, (*path, "metadata", "labels", key), message, value=labels.get(key))
    exact = item["metadata"].get("annotations", {}).get("runyard.io/project", project)
    if exact != project:
        message = "must name this project"
        yield Problem(Code.ADMISSION_PROJECT, (*path, "metadata", "annotations"), message, value=exact)
    is_own = _CLAIM_NAME.fullmatch(name) if is_claim else name == make_registry_name(project)
    if not is_own:
        message = f"not a valid name for a {item['kind']} of a project"
        yield Problem(Code.ADMISSION_NAME, (*path, "metadata", "name"), message, value=name)
