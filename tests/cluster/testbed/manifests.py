"""The objects that the testbed's own proofs create, as plain dictionaries."""

import json
from typing import Any

from testbed.cluster import Cluster

BUSYBOX = "docker.io/library/busybox:latest"


def container(script: str, **more: Any) -> dict[str, Any]:
    return {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        **more,
    }


def pod(name: str, script: str, *, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container(script, **more)],
            **(spec or {}),
        },
    }


def job(name: str, script: str, *, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "backoffLimit": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container(script, **more)], **(spec or {})}},
        },
    }


def create(cluster: Cluster, namespace: str, *objects: dict[str, Any]) -> None:
    for obj in objects:
        cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(obj))


def wait(cluster: Cluster, namespace: str, what: str, *, until: str) -> None:
    """Until is kubectl's: `condition=complete`, `jsonpath={.status.phase}=Running`, `delete`."""
    cluster.kubectl("wait", "-n", namespace, what, f"--for={until}", "--timeout=90s")
