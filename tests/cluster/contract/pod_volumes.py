"""One volume source of each kind that the apiserver accepts."""

from typing import Any

_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

ALLOWED_SOURCES: dict[str, dict[str, Any]] = {
    "configMap": {"name": "settings"},
    "csi": {"driver": "inline.storage.example.com"},
    "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
    "emptyDir": {},
    "ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM}},
    "persistentVolumeClaim": {"claimName": "data"},
    "projected": {"sources": [{"configMap": {"name": "settings"}}]},
    "secret": {"secretName": "token"},
}
IMAGE_SOURCE: dict[str, Any] = {"reference": "registry.example.com/data:1"}
"""Allowed as well, but a Kubernetes before 1.35 does not read it."""
FORBIDDEN_SOURCES: dict[str, dict[str, Any]] = {
    "awsElasticBlockStore": {"volumeID": "vol-1"},
    "azureDisk": {"diskName": "disk", "diskURI": "https://blob.example.com/disk.vhd"},
    "azureFile": {"secretName": "azure", "shareName": "share"},
    "cephfs": {"monitors": ["10.0.0.1:6789"]},
    "cinder": {"volumeID": "vol-1"},
    "fc": {"targetWWNs": ["500a0982991b8dc5"], "lun": 2},
    "flexVolume": {"driver": "example.com/driver"},
    "flocker": {"datasetName": "data"},
    "gcePersistentDisk": {"pdName": "disk"},
    "gitRepo": {"repository": "https://git.example.com/repo.git"},
    "glusterfs": {"endpoints": "gluster", "path": "volume"},
    "hostPath": {"path": "/var/log"},
    "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:storage.disk1", "lun": 0},
    "nfs": {"server": "nfs.example.com", "path": "/exports"},
    "photonPersistentDisk": {"pdID": "disk"},
    "portworxVolume": {"volumeID": "vol-1"},
    "quobyte": {"registry": "quobyte.example.com:7861", "volume": "data"},
    "rbd": {"monitors": ["10.0.0.1:6789"], "image": "image"},
    "scaleIO": {
        "gateway": "https://scaleio.example.com/api",
        "system": "system",
        "secretRef": {"name": "scaleio"},
        "volumeName": "volume",
    },
    "storageos": {"volumeName": "volume"},
    "vsphereVolume": {"volumePath": "[datastore] volume"},
}
