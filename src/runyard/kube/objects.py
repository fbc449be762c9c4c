"""Objects as plain dictionaries: encoding, decoding, and the checks before a request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from runyard.kube.errors import Malformed, error_from_status_object
from runyard.kube.resources import Resource

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of one list, or of one of its pages, and the moment it shows."""

    items: list[Object]
    resource_version: str
    continue_token: str = ""
    """Where the next page begins; empty on the last."""


@dataclass(frozen=True, slots=True)
class Target:
    """An object ready to be sent, and where to."""

    body: Mapping[str, Any]
    namespace: str | None
    name: str


def complete_object(
    resource: Resource,
    body: Mapping[str, Any],
    *,
    namespace: str | None = None,
    subresource: str | None = None,
    is_new: bool = False,
) -> Target:
    """`body` with apiVersion and kind; ValueError where it contradicts `resource` or `namespace`, or says too little.

    Only a new object may come without a name. Sub-resources other than `status` may be of another kind (a Scale),
    so there nothing is filled in or compared.
    """
    metadata = body.get("metadata") or {}
    own = metadata.get("namespace")
    if namespace is not None and own is not None and own != namespace:
        raise ValueError(f"metadata.namespace is {own!r}, namespace is {namespace!r}")
    if resource.namespaced and namespace is None and own is None:
        raise ValueError(f"{resource.plural} are namespaced: neither namespace nor metadata.namespace is given")
    name = metadata.get("name", "")
    if not name and not is_new:
        raise ValueError("metadata.name is missing")
    if subresource in (None, "status"):
        for field, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
            if body.get(field, expected) != expected:
                raise ValueError(f"{field} is {body[field]!r}, expected {expected!r}")
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    return Target(body, namespace if own is None else own, name)


def has_precondition(body: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> bool:
    """Whether `body` carries a uid or resourceVersion precondition, so that it applies to one object only."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    return isinstance(metadata, Mapping) and bool(metadata.get("uid") or metadata.get("resourceVersion"))


def encode(body: object) -> bytes:
    """Encode as JSON; raises TypeError for values without a JSON form."""
    return msgspec.json.encode(body)


def decode_object(answer: bytes) -> Object:
    """One object without its managedFields; a Status that reports a failure is raised as its error."""
    try:
        decoded = msgspec.json.decode(answer, type=Object)
    except (ValueError, RecursionError) as error:  # ValueError: not JSON, not UTF-8, not an object
        raise Malformed(f"the answer is not a JSON object: {error}") from error
    if decoded.get("kind") == "Status" and decoded.get("status") == "Failure":
        raise error_from_status_object(decoded)
    _drop_managed_fields(decoded)
    return decoded


def listing_from_answer(answer: Object, *, resource: Resource) -> Listing:
    """One page; its items get the apiVersion and kind that the server leaves out of lists."""
    metadata = answer.get("metadata")
    items = answer.get("items", ())
    items = [] if items is None else items  # Go writes an empty list as null
    if not isinstance(metadata, dict) or not isinstance(items, list):
        raise Malformed(f"the answer is not a list of {resource.plural}")
    for item in items:
        if not isinstance(item, dict):
            raise Malformed(f"the answer has {item!r:.50} in its list of {resource.plural}")
        _drop_managed_fields(item)
        item["apiVersion"] = resource.api_version
        item["kind"] = resource.kind
    return Listing(items, metadata.get("resourceVersion", ""), metadata.get("continue", ""))


def _drop_managed_fields(decoded: Object) -> None:
    metadata = decoded.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
