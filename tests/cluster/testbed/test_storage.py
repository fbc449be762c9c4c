"""The default StorageClass really provisions, and really deletes."""

import json
from pathlib import Path
from typing import Any

from testbed.cluster import Cluster
from tests.cluster.testbed.manifests import create, job, wait


def _claim(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}},
    }


def test_volume_is_provisioned_written_and_deleted_when_a_claim_is_used(cluster: Cluster, namespace: str) -> None:
    mounted: dict[str, Any] = {
        "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    create(cluster, namespace, _claim("data"), job("writer", "echo kept > /data/file", **mounted))
    wait(cluster, namespace, "job/writer", until="condition=complete")
    create(cluster, namespace, job("reader", "cat /data/file", **mounted))
    wait(cluster, namespace, "job/reader", until="condition=complete")
    assert cluster.kubectl("logs", "-n", namespace, "job/reader") == "kept\n"

    claim = json.loads(cluster.kubectl("get", "pvc", "-n", namespace, "data", "-o", "json"))
    assert claim["status"]["phase"] == "Bound"
    assert claim["spec"]["storageClassName"] == "local-path"
    volume = claim["spec"]["volumeName"]
    folder = Path(_volume_path(cluster, volume))
    assert (folder / "file").read_text() == "kept\n"

    cluster.kubectl("delete", "-n", namespace, "job/writer", "job/reader", "pvc/data", "--timeout=60s")
    cluster.kubectl("wait", f"pv/{volume}", "--for=delete", "--timeout=60s")
    assert not folder.exists()


def _volume_path(cluster: Cluster, volume: str) -> str:
    source = json.loads(cluster.kubectl("get", "pv", volume, "-o", "json"))["spec"]
    return str((source.get("hostPath") or source.get("local"))["path"])
