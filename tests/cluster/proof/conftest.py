"""Classes of the cluster that runs of the proofs name."""

import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from testbed.cluster import Cluster


@pytest.fixture(scope="module")
def classes(cluster: Cluster) -> Iterator[str]:
    """The name of a RuntimeClass and a PriorityClass that the node can execute."""
    name = f"proof-{secrets.token_hex(4)}"
    objects: list[dict[str, Any]] = [
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": "runc"},
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": 1000,
            "preemptionPolicy": "Never",
        },
    ]
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    yield name
    cluster.kubectl("delete", "runtimeclass,priorityclass", name)
