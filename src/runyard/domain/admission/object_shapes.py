"""The keys of every object that we send, and the shapes of their values. Add every new field here.

Stricter than Kubernetes: where we always send the same value, any other is refused as a bypass.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from runyard.domain.admission.pod_shapes import (
    CLAIM_SPEC,
    INT32,
    LABELS,
    LONG_SECONDS,
    OBJECT_NAME,
    OPTIONAL_ANNOTATIONS,
    PORT,
    REQUIRED_LABELS,
    SECONDS,
    pod_template,
)
from runyard.domain.admission.shapes import Shape, each, flag, integer, keys, named, only, pairs, text
from runyard.spec.names import check_config_key, check_dns_1035_label, check_dns_label, check_port_name

API_VERSIONS: Mapping[str, str] = MappingProxyType(
    {
        "Job": "batch/v1",
        "Deployment": "apps/v1",
        "Service": "v1",
        "PersistentVolumeClaim": "v1",
        "Secret": "v1",
        "ConfigMap": "v1",
    }
)
WORKLOADS = ("Job", "Deployment")


def _check_uid(uid: str) -> str | None:
    return None if re.fullmatch(r"[0-9a-zA-Z-]{1,64}", uid) else "is not a valid UID"


_OWNER = keys(
    {
        "apiVersion": only(*(API_VERSIONS[kind] for kind in WORKLOADS)),
        "kind": only(*WORKLOADS),
        "name": OBJECT_NAME,
        "uid": named(_check_uid),
    },
    {"controller": only(False), "blockOwnerDeletion": only(False)},
)


def _metadata(name: Shape = OBJECT_NAME, *, is_owned: bool = True) -> Shape:
    owners: dict[str, Shape] = {"ownerReferences": each(_OWNER, least=1, most=1)} if is_owned else {}
    return keys(
        {"name": name, **REQUIRED_LABELS}, {"namespace": named(check_dns_label), **OPTIONAL_ANNOTATIONS, **owners}
    )


def _object(
    kind: str, metadata: Shape, content: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None
) -> Shape:
    head = {"apiVersion": only(API_VERSIONS[kind]), "kind": only(kind), "metadata": metadata}
    return keys({**head, **content}, optional)


_FAILURE_POLICY = keys(
    {
        "rules": each(
            keys(
                {
                    "action": only("Ignore"),
                    "onPodConditions": each(
                        keys({"type": only("DisruptionTarget"), "status": only("True")}), least=1, most=1
                    ),
                }
            ),
            least=1,
            most=1,
        )
    }
)
"""Disruptions do not count as failures; no other rule is sent."""
_JOB = keys(
    {
        "completions": only(1),
        "parallelism": only(1),
        "backoffLimit": integer(0, INT32),
        "podReplacementPolicy": only("Failed"),
        "template": pod_template("Never"),
    },
    {
        "suspend": flag,
        "activeDeadlineSeconds": LONG_SECONDS,
        "ttlSecondsAfterFinished": SECONDS,
        "podFailurePolicy": _FAILURE_POLICY,
    },
)
_DEPLOYMENT = keys(
    {
        "replicas": integer(0, INT32),
        "selector": keys({"matchLabels": LABELS}),
        "strategy": keys({"type": only("Recreate", "RollingUpdate")}),
        "template": pod_template("Always"),
    },
    {"revisionHistoryLimit": integer(0, INT32), "progressDeadlineSeconds": SECONDS},
)
_SERVICE = keys(
    {
        "type": only("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
        "selector": LABELS,
        "ports": each(
            keys({"port": PORT, "targetPort": PORT}, {"name": named(check_port_name), "protocol": only("TCP")}),
            least=1,
        ),
    }
)

SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "Job": _object("Job", _metadata(is_owned=False), {"spec": _JOB}),
        "Deployment": _object("Deployment", _metadata(is_owned=False), {"spec": _DEPLOYMENT}),
        "Service": _object("Service", _metadata(named(check_dns_1035_label)), {"spec": _SERVICE}),
        "PersistentVolumeClaim": _object("PersistentVolumeClaim", _metadata(), {"spec": CLAIM_SPEC}),
        "Secret": _object(
            "Secret",
            _metadata(),
            {"type": only("Opaque"), "data": pairs(check_config_key, text)},
            {"immutable": flag},
        ),
        "ConfigMap": _object("ConfigMap", _metadata(), {"data": pairs(check_config_key, text)}, {"immutable": flag}),
    }
)
