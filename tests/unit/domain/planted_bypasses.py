"""Ways to change a run's legal objects in one place."""

from collections.abc import Callable
from typing import Any

from runyard.domain.admission import check_objects
from runyard.spec.policy import read_policy
from runyard.spec.problems import Problem
from runyard.spec.profile import Profile
from tests.unit.domain.legal_objects import ENVS, PROJECT, PROJECT_CLAIMS, SHARED_CLAIMS

Objects = list[dict[str, Any]]
ADMINS_OWN = {"resources.disk.storage_class": {"default": "fast"}}
"""The class of scratch space is never a user's."""


def judge(
    objects: Any, *, policy: dict[str, Any] | None = None, profile: Profile | None = None, **extra: Any
) -> list[Problem]:
    rules = {**ADMINS_OWN, **(policy or {})}
    known = {
        "project_claims": PROJECT_CLAIMS,
        "shared_claims": SHARED_CLAIMS,
        "platform_envs": ENVS,
    }
    return check_objects(objects, policy=read_policy(rules), project=PROJECT, profile=profile, **{**known, **extra})


def find(objects: Objects, kind: str) -> dict[str, Any]:
    return next(item for item in objects if item["kind"] == kind)


def pod(objects: Objects) -> dict[str, Any]:
    workload = next(item for item in objects if item["kind"] in ("Job", "Deployment"))
    content: dict[str, Any] = workload["spec"]["template"]["spec"]
    return content


def main(objects: Objects) -> dict[str, Any]:
    container: dict[str, Any] = pod(objects)["containers"][0]
    return container


def mount(objects: Objects, path: str, *, is_read_only: bool = False, **more: Any) -> None:
    """A further volume, by its name, and where it is mounted."""
    volume, source = next(iter(more.items()))
    pod(objects)["volumes"].append({"name": volume, **source})
    extra = {"readOnly": True} if is_read_only else {}
    main(objects)["volumeMounts"].append({"name": volume, "mountPath": path, **extra})


def set_at(*path: str | int, value: Any) -> Callable[[Objects], None]:
    """A mutation of the Job or Deployment's pod template spec."""

    def mutate(objects: Objects) -> None:
        part: Any = pod(objects)
        for key in path[:-1]:
            part = part.setdefault(key, {}) if isinstance(part, dict) else part[key]
        part[path[-1]] = value

    return mutate


def set_in(kind: str, *path: str | int, value: Any) -> Callable[[Objects], None]:
    def mutate(objects: Objects) -> None:
        part: Any = find(objects, kind)
        for key in path[:-1]:
            part = part.setdefault(key, {}) if isinstance(part, dict) else part[key]
        part[path[-1]] = value

    return mutate


def append_to(*path: str | int, value: Any) -> Callable[[Objects], None]:
    def mutate(objects: Objects) -> None:
        part: Any = pod(objects)
        for key in path[:-1]:
            part = part[key]
        part.setdefault(path[-1], []).append(value) if isinstance(part, dict) else part[path[-1]].append(value)

    return mutate


def drop_from(kind: str, *path: str | int) -> Callable[[Objects], None]:
    def mutate(objects: Objects) -> None:
        part: Any = find(objects, kind)
        for key in path[:-1]:
            part = part[key]
        del part[path[-1]]

    return mutate


def own_all(**changes: Any) -> Callable[[Objects], None]:
    """The same change to every owner reference."""

    def mutate(objects: Objects) -> None:
        for item in objects:
            for owner in item["metadata"].get("ownerReferences", ()):
                owner.update(changes)

    return mutate


def rename(objects: Objects, old: str, new: str) -> None:
    """Another name for an object, wherever it stands; labels stay."""

    def walk(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: value if key == "labels" else walk(value) for key, value in part.items()}
        return [walk(entry) for entry in part] if isinstance(part, list) else new if part == old else part

    objects[:] = walk(objects)


def label_all(key: str, value: str | None) -> Callable[[Objects], None]:
    """A label wherever there are labels; None takes it away."""

    def mutate(objects: Objects) -> None:
        _label(objects, key, value)

    return mutate


def _label(part: Any, key: str, value: str | None) -> None:
    if isinstance(part, dict) and isinstance(part.get("labels"), dict):
        labels = {**part["labels"], key: value}
        part["labels"] = {name: text for name, text in labels.items() if text is not None}
    for child in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _label(child, key, value)


CONTAINER = ("containers", 0)
CONTEXT = (*CONTAINER, "securityContext")
TEMPLATE = ("spec", "template")
