"""Keeps the RuntimeClasses of the node equal to the offer.

The node's own are those whose label `k8s.gpu` has the node's name as its value. All others are somebody else's: they
are never changed, and reported if their name is needed. `ensure_runtime_classes` is level-based and may be repeated.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runyard.kube.client import Client
from runyard.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from runyard.kube.resources import RUNTIME_CLASSES
from runyard.node.offer import CLASS_LABEL, LIMIT_ANNOTATIONS, Offer, Shape

Object = dict[str, Any]

MOST_CLASSES = 1000
"""RuntimeClasses of a cluster; with more of them nothing is done."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Plan:
    """What to do so that the RuntimeClasses are as offered."""

    to_create: list[Object] = field(default_factory=list)
    to_patch: list[tuple[Object, Object]] = field(default_factory=list)
    """The class as it is, and the merge patch."""
    to_replace: list[tuple[Object, Object]] = field(default_factory=list)
    """The class as it is, and as it is created again: a handler cannot be changed."""
    to_delete: list[Object] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    """Names that are offered but belong to somebody else's classes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass over the RuntimeClasses left undone."""

    foreign: tuple[str, ...] = ()
    """Shapes whose name is somebody else's RuntimeClass: pods of that class are not the node's."""
    errors: tuple[str, ...] = ()
    """What failed, in words; the next pass tries again."""


def render_runtime_class(shape: Shape, node_name: str, *, taint_key: str | None = None) -> Object:
    """The RuntimeClass of a shape. With `taint_key` its pods tolerate that taint: another scheduler binds them."""
    # Where admission was missing, no other node may take the pod, unfilled and without GPUs.
    scheduling: Object = {"nodeSelector": {"kubernetes.io/hostname": node_name}}
    if taint_key is not None:
        scheduling["tolerations"] = [{"key": taint_key, "operator": "Exists", "effect": "NoSchedule"}]
    return {
        "apiVersion": RUNTIME_CLASSES.api_version,
        "kind": RUNTIME_CLASSES.kind,
        "metadata": {
            "name": shape.name,
            "labels": {CLASS_LABEL: node_name},
            "annotations": _render_annotations(shape),
        },
        "handler": shape.handler,
        "scheduling": scheduling,
    }


def plan_runtime_classes(
    existing: Iterable[Mapping[str, Any]], offer: Offer, node_name: str, *, taint_key: str | None = None
) -> Plan:
    """Compare all RuntimeClasses of a cluster with the offer."""
    plan, found = Plan(), set()
    for given in map(dict, existing):
        metadata = given.get("metadata") or {}
        name, shape = metadata.get("name"), offer.shapes.get(metadata.get("name") or "")
        found.add(name)
        if (metadata.get("labels") or {}).get(CLASS_LABEL) != node_name:
            plan.foreign += [shape.name] if shape else []
        elif shape is None:
            plan.to_delete.append(given)
        elif _has_other_fixed_fields(given, wanted := render_runtime_class(shape, node_name, taint_key=taint_key)):
            plan.to_replace.append((given, wanted))
        elif patch := _find_patch(metadata.get("annotations") or {}, shape):
            plan.to_patch.append((given, patch))
    plan.to_create = [
        render_runtime_class(shape, node_name, taint_key=taint_key)
        for name, shape in offer.shapes.items()
        if name not in found
    ]
    return plan


async def ensure_runtime_classes(
    client: Client, offer: Offer, *, node_name: str, taint_key: str | None = None
) -> Outcome:
    """Create, change and delete until the RuntimeClasses are as offered. Idempotent; goes on after a failure."""
    listing = await client.list(RUNTIME_CLASSES)
    if len(listing.items) > MOST_CLASSES:
        return Outcome(errors=(f"the cluster has {len(listing.items)} RuntimeClasses; allowed: {MOST_CLASSES}",))
    plan = plan_runtime_classes(listing.items, offer, node_name, taint_key=taint_key)
    errors: list[str] = []
    for given in [*plan.to_delete, *(old for old, _ in plan.to_replace)]:
        errors += await _delete(client, given)
    for body in [*(new for _, new in plan.to_replace), *plan.to_create]:
        errors += await _create(client, body)
    for given, patch in plan.to_patch:
        errors += await _patch(client, given, patch)
    return Outcome(tuple(sorted(plan.foreign)), tuple(errors))


def _has_other_fixed_fields(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """A class with another handler, or with an overhead or placement that somebody else gave it, is made anew."""
    return any(given.get(field) != wanted.get(field) for field in ("handler", "overhead", "scheduling"))


def _render_annotations(shape: Shape) -> dict[str, str]:
    return {
        LIMIT_ANNOTATIONS[name]: shape.limit_texts.get(name) or amount.text
        for name, amount in shape.limits.items()
        if name in LIMIT_ANNOTATIONS
    }


def _find_patch(annotations: Mapping[str, str], shape: Shape) -> Object:
    """The merge patch for annotations of limits that differ; other annotations belong to others."""
    wanted = _render_annotations(shape)
    changed: dict[str, str | None] = {key: text for key, text in wanted.items() if annotations.get(key) != text}
    changed |= {key: None for key in LIMIT_ANNOTATIONS.values() if key in annotations and key not in wanted}
    return {"metadata": {"annotations": changed}} if changed else {}


async def _create(client: Client, body: Object) -> list[str]:
    name = body["metadata"]["name"]
    try:
        await client.create(RUNTIME_CLASSES, body)
    except AlreadyExists:
        return [f"RuntimeClass {name}: somebody created it just now"]
    except ApiError as error:
        return [f"RuntimeClass {name}: cannot be created: {error}"]
    logger.info("created the RuntimeClass %s", name)
    return []


async def _delete(client: Client, given: Object) -> list[str]:
    metadata = given["metadata"]
    try:
        await client.delete(RUNTIME_CLASSES, metadata["name"], uid=metadata["uid"])
    except (NotFound, Conflict):
        return []  # it is gone, or another one has its name now: the next pass looks again
    except ApiError as error:
        return [f"RuntimeClass {metadata['name']}: cannot be deleted: {error}"]
    logger.info("deleted the RuntimeClass %s", metadata["name"])
    return []


async def _patch(client: Client, given: Object, patch: Object) -> list[str]:
    metadata = given["metadata"]
    body = {"metadata": {"uid": metadata["uid"], **patch["metadata"]}}
    try:
        await client.patch(RUNTIME_CLASSES, metadata["name"], body)
    except (NotFound, Conflict):
        return []
    except ApiError as error:
        return [f"RuntimeClass {metadata['name']}: cannot be changed: {error}"]
    logger.info("changed the RuntimeClass %s", metadata["name"])
    return []
