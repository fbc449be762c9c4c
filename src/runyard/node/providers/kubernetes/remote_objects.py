"""What is created at the provider for one pod: the pod, and copies of its ConfigMaps and Secrets. Pure.

Names derive from the uid of the local pod, so that a repeated creation meets the first one. Labels say whose it is.
"""

import copy
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from runyard.kube.resources import CONFIG_MAPS, SECRETS, Resource
from runyard.node.providers.provider import Object, Workload
from runyard.pods.references import ReferenceKind, iter_references

PREFIX = "k8s.gpu/"
NODE_LABEL = "k8s.gpu/node"
UID_LABEL = "k8s.gpu/uid"
NAMESPACE_LABEL = "k8s.gpu/namespace"
NAME_ANNOTATION = "k8s.gpu/name"
CONTENTS_ANNOTATION = "k8s.gpu/contents"
"""A digest of the copies. Its change makes the kubelet look at the pod's volumes at once, not within two minutes."""
RESOURCES: Mapping[ReferenceKind, Resource] = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_UID = re.compile(r"[a-z0-9]([-a-z0-9]{0,57}[a-z0-9])?")
_DIGEST_CHARACTERS = 12
_BOUND_TYPES = frozenset({"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"})
"""Types of Secrets that a cluster's own controllers act on: copies are plain ones."""


def check_node_label(node: str) -> str:
    """`node` if it can be the value of a label; ValueError if not."""
    if not _LABEL_VALUE.fullmatch(node):
        raise ValueError(
            f'the node name "{node}" cannot be a label at the provider: at most 63 letters, digits, "-", "_" and "."'
        )
    return node


def check_uid(uid: str) -> str:
    """`uid` if names can be made of it; ValueError if not. Kubernetes' uids can."""
    if not _UID.fullmatch(uid):
        raise ValueError("the uid of a pod has other characters than a uid of Kubernetes")
    return uid


def pod_name(uid: str) -> str:
    """The name of a pod at the provider."""
    return f"pod-{check_uid(uid)}"


def copy_name(uid: str, kind: ReferenceKind, name: str) -> str:
    """The name of a copy: the same whatever it contains, so that one may appear later under it."""
    digest = hashlib.sha256(f"{kind}\0{name}".encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{check_uid(uid)}-{digest}"


def own_labels(workload: Workload, node: str) -> dict[str, str]:
    """The labels that everything of a pod has."""
    return {NODE_LABEL: node, UID_LABEL: workload.uid, NAMESPACE_LABEL: workload.namespace}


def pod_labels(workload: Workload, node: str) -> dict[str, str]:
    """The user's labels, and ours, which no user can set."""
    users = {key: value for key, value in workload.labels.items() if not key.startswith(PREFIX)}
    return users | own_labels(workload, node)


def digest_contents(workload: Workload) -> str:
    """A short digest of the contents of all copies."""
    contents = [workload.config_maps, workload.secrets]
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()[:_DIGEST_CHARACTERS]


def render_pod(workload: Workload, *, node: str) -> Object:
    """The pod at the provider; ConfigMaps and Secrets are named as their copies are."""
    spec = copy.deepcopy(workload.spec)
    for reference in iter_references(spec):
        reference.holder[reference.field] = copy_name(workload.uid, reference.kind, reference.name)
    if workload.shape.remote_class is not None:
        spec["runtimeClassName"] = workload.shape.remote_class
    annotations = {key: value for key, value in workload.annotations.items() if not key.startswith(PREFIX)}
    ours = {NAME_ANNOTATION: workload.name, CONTENTS_ANNOTATION: digest_contents(workload)}
    return {
        "metadata": {
            "name": pod_name(workload.uid),
            "labels": pod_labels(workload, node),
            "annotations": annotations | ours,
        },
        "spec": spec,
    }


def iter_copies(workload: Workload, *, node: str) -> Iterator[tuple[Resource, Object]]:
    """The copies of a pod's ConfigMaps and Secrets."""
    for name, content in workload.config_maps.items():
        body = {field: content[field] for field in ("data", "binaryData") if content.get(field)}
        yield CONFIG_MAPS, {"metadata": _copy_metadata(workload, node, "ConfigMap", name), **body}
    for name, content in workload.secrets.items():
        kind = content.get("type") or "Opaque"
        body = {"data": content["data"]} if content.get("data") else {}
        yield (
            SECRETS,
            {
                "metadata": _copy_metadata(workload, node, "Secret", name),
                "type": "Opaque" if kind in _BOUND_TYPES else kind,
                **body,
            },
        )


def _copy_metadata(workload: Workload, node: str, kind: ReferenceKind, name: str) -> Object:
    metadata: dict[str, Any] = {
        "name": copy_name(workload.uid, kind, name),
        "labels": own_labels(workload, node),
        "annotations": {NAME_ANNOTATION: name},
    }
    return metadata
