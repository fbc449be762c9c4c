"""The filling as a mutating webhook, for clusters that do not serve MutatingAdmissionPolicies: pure, bytes to bytes.

Every pod is allowed: a pod that cannot be filled is not bound later, and told why. A request that is not an
AdmissionReview of a new pod is a `BadReview`, for which the server answers 400.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from runyard.node.admission.filling import Filling, plan_fillings
from runyard.node.offer import Shape
from runyard.pods.fields import UnreadablePod
from runyard.spec.problems import shorten
from runyard.spec.strict_json import InvalidJson, count_values, parse_json

Object = dict[str, Any]

MOST_BODY_BYTES = 3 * 1024 * 1024
"""An apiserver accepts objects of this size."""
MOST_VALUES = 200_000
"""JSON values in a body."""
MOST_UID_CHARACTERS = 128


class BadReview(ValueError):
    """The body is not an AdmissionReview of a new pod."""


def review(body: bytes, shapes: Mapping[str, Shape], *, scheduler_name: str | None) -> bytes:
    """The answer to an AdmissionReview; `scheduler_name=None` leaves the scheduler as it is. Raises `BadReview`."""
    request = _read_request(body)
    uid = request.get("uid")
    if not isinstance(uid, str) or not 0 < len(uid) <= MOST_UID_CHARACTERS:
        raise BadReview("request.uid is missing")
    answer = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": True, **_respond(request, shapes, scheduler_name=scheduler_name)},
    }
    return json.dumps(answer, separators=(",", ":")).encode()


def render_patch(pod: Mapping[str, Any], fillings: Sequence[Filling], *, scheduler_name: str | None) -> list[Object]:
    """The JSON patch that makes the fillings and sets the scheduler."""
    patch: list[Object] = []
    if scheduler_name is not None:
        patch.append({"op": "add", "path": "/spec/schedulerName", "value": scheduler_name})
    by_container: dict[tuple[str, int], dict[str, str]] = {}
    for filling in fillings:
        by_container.setdefault((filling.list_name, filling.index), {})[filling.resource] = filling.text
    for (list_name, index), filled in by_container.items():
        resources = pod["spec"][list_name][index].get("resources") or {}
        limits = {**(resources.get("limits") or {}), **filled}
        value = {**resources, "limits": limits}
        patch.append({"op": "add", "path": f"/spec/{list_name}/{index}/resources", "value": value})
    return patch


def _respond(request: Object, shapes: Mapping[str, Shape], *, scheduler_name: str | None) -> Object:
    pod = request.get("object")
    spec = pod.get("spec") if isinstance(pod, dict) else None
    class_name = spec.get("runtimeClassName") if isinstance(spec, dict) else None
    shape = shapes.get(class_name) if isinstance(class_name, str) else None
    if pod is None or shape is None or not _is_new_pod(request):
        return {}
    try:
        patch = render_patch(pod, plan_fillings(pod, shape), scheduler_name=scheduler_name)
    except UnreadablePod as error:
        return {"warnings": [shorten(f"the resources of this pod were not filled in: {error}")]}
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}


def _is_new_pod(request: Object) -> bool:
    resource = request.get("resource")
    return (
        request.get("operation") == "CREATE"
        and not request.get("subResource")
        and isinstance(resource, dict)
        and (resource.get("group") or "", resource.get("resource")) == ("", "pods")
    )


def _read_request(body: bytes) -> Object:
    if len(body) > MOST_BODY_BYTES:
        raise BadReview(f"the body has {len(body)} bytes; allowed: {MOST_BODY_BYTES}")
    if count_values(body, most=MOST_VALUES) > MOST_VALUES:
        raise BadReview(f"the body has more than {MOST_VALUES} values")
    try:
        given = parse_json(body.decode())
    except (UnicodeDecodeError, InvalidJson) as error:
        raise BadReview(f"the body is not JSON: {shorten(str(error))}") from None
    if not isinstance(given, dict) or given.get("kind") != "AdmissionReview":
        raise BadReview("the body is not an AdmissionReview")
    if given.get("apiVersion") != "admission.k8s.io/v1":
        raise BadReview("the AdmissionReview is not of admission.k8s.io/v1")
    request = given.get("request")
    if not isinstance(request, dict):
        raise BadReview("the AdmissionReview has no request")
    return request
