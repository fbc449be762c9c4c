"""Local pods as an apiserver shows them after admission."""

from typing import Any

Object = dict[str, Any]


def api_access_volume(name: str = "kube-api-access-x1y2z") -> Object:
    """The volume that the ServiceAccount admission plugin adds."""
    return {
        "name": name,
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
            ],
        },
    }


def local_pod(*, status: Object | None = None, metadata: Object | None = None, **spec: Any) -> Object:
    """A bound pod with one container, whose spec is changed by `spec`."""
    return {
        "metadata": {
            "name": "train",
            "namespace": "team",
            "uid": "8d0a8f33-e9f9-434a-b3de-9ae58ac9de76",
            "resourceVersion": "7",
            "generation": 1,
            "labels": {"app": "x"},
            **(metadata or {}),
        },
        "spec": {
            "containers": [{"name": "main", "image": "busybox:1.36"}],
            "restartPolicy": "Always",
            "nodeName": "k8s.gpu",
            "serviceAccountName": "default",
            **spec,
        },
        "status": status or {"phase": "Pending", "qosClass": "BestEffort"},
    }
