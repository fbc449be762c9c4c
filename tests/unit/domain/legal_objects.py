"""A legal job and a legal service with everything they may have, written by hand; each call makes fresh ones."""

import json
from typing import Any, TypeVar

from runyard.spec.profile import Profile
from runyard.spec.run_fields import read_admin_fields

T = TypeVar("T")

PROJECT = "vision"
ENVS = {"PROJECT_NAME": PROJECT, "RUN_ID": "r1"}
PROJECT_CLAIMS = frozenset({"datasets"})
SHARED_CLAIMS = frozenset({"run-r0.kept"})

LABELS = {
    "app.kubernetes.io/name": "train",
    "app.kubernetes.io/instance": "run-r1-bb82030dbc2bcab",
    "app.kubernetes.io/component": "job",
    "app.kubernetes.io/part-of": PROJECT,
    "app.kubernetes.io/managed-by": "runyard",
    "runyard.io/installation": "local",
    "runyard.io/run": "r1",
    "runyard.io/run-uid": "u1",
    "runyard.io/project": PROJECT,
    "dhcore/project": PROJECT,
    "dhcore/run": "r1",
}
SELECTOR = {"runyard.io/installation": "local", "runyard.io/run-uid": "u1"}
OWNER = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "name": "run-r1-bb82030dbc2bcab",
    "uid": "0b6f6a4e-0d0f-4a53-8a4f-3a5c3a6f2f10",
    "controller": False,
    "blockOwnerDeletion": False,
}
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "volumeMode": "Filesystem",
    "storageClassName": "fast",
    "resources": {"requests": {"storage": "10Gi"}},
}
POD: dict[str, Any] = {
    "restartPolicy": "Never",
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "securityContext": {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 2000,
        "fsGroupChangePolicy": "OnRootMismatch",
    },
    "terminationGracePeriodSeconds": 30,
    "nodeSelector": {"disktype": "ssd"},
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
            }
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"runyard.io/run": "r1"}},
                    },
                }
            ]
        },
    },
    "runtimeClassName": "nvidia",
    "priorityClassName": "batch",
    "containers": [
        {
            "name": "main",
            "image": "ghcr.io/acme/train:1",
            "imagePullPolicy": "Always",
            "command": ["python"],
            "args": ["train.py"],
            "env": [
                {"name": "PROJECT_NAME", "value": PROJECT},
                {"name": "RUN_ID", "value": "r1"},
                {
                    "name": "HF_TOKEN",
                    "valueFrom": {"secretKeyRef": {"name": "run-r1-bb82030dbc2bcab-secrets", "key": "HF_TOKEN"}},
                },
                {"name": "EPOCHS", "value": "3"},
            ],
            "resources": {
                "requests": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"},
                "limits": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"},
            },
            "securityContext": {
                "privileged": False,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": "runyard-scratch", "mountPath": "/shared"},
                {"name": "data", "mountPath": "/data", "subPath": "in"},
                {"name": "cache", "mountPath": "/cache"},
                {"name": "kept", "mountPath": "/kept"},
                {"name": "shm", "mountPath": "/dev/shm"},
                {"name": "config", "mountPath": "/config"},
                {"name": "weights", "mountPath": "/weights"},
                {"name": "runyard-secrets", "mountPath": "/secrets/k.json", "subPath": "KAGGLE", "readOnly": True},
            ],
        }
    ],
    "volumes": [
        {
            "name": "runyard-scratch",
            "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": LABELS}, "spec": {**CLAIM}}},
        },
        {"name": "data", "persistentVolumeClaim": {"claimName": "run-r1-bb82030dbc2bcab.data"}},
        {
            "name": "cache",
            "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": LABELS}, "spec": {**CLAIM}}},
        },
        {"name": "kept", "persistentVolumeClaim": {"claimName": "run-r0.kept"}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "config", "configMap": {"name": "run-r1-bb82030dbc2bcab.config"}},
        {"name": "weights", "image": {"reference": "ghcr.io/acme/weights:1", "pullPolicy": "IfNotPresent"}},
        {
            "name": "runyard-secrets",
            "secret": {
                "secretName": "run-r1-bb82030dbc2bcab-secrets",
                "defaultMode": 0o440,
                "items": [{"key": "KAGGLE", "path": "KAGGLE"}],
            },
        },
    ],
}


def make_job() -> list[dict[str, Any]]:
    """Secret, ConfigMap, claim and Job, owned and in one namespace."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "run-r1-bb82030dbc2bcab",
            "namespace": "runs",
            "labels": LABELS,
            "annotations": {"runyard.io/pending-timeout": "3600", "runyard.io/run-name": "Über-run"},
        },
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 2,
            "podReplacementPolicy": "Failed",
            "activeDeadlineSeconds": 7200,
            "ttlSecondsAfterFinished": 600,
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
            "template": {"metadata": {"labels": LABELS}, "spec": POD},
        },
    }
    return _separate([*_make_needs(), job])


def make_service() -> list[dict[str, Any]]:
    """Deployment and its two Services, with all that a job has but owners."""
    pod: dict[str, Any] = {**_separate(POD), "restartPolicy": "Always"}
    pod["containers"][0] |= {
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 5, "timeoutSeconds": 5},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "run-r1-bb82030dbc2bcab",
            "namespace": "runs",
            "labels": LABELS,
            "annotations": {"runyard.io/pending-timeout": "3600"},
        },
        "spec": {
            "replicas": 2,
            "progressDeadlineSeconds": 3600,
            "selector": {"matchLabels": SELECTOR},
            "strategy": {"type": "Recreate"},
            "revisionHistoryLimit": 0,
            "template": {"metadata": {"labels": LABELS}, "spec": pod},
        },
    }
    services = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": "runs", "labels": LABELS},
            "spec": {
                "type": "NodePort",
                "selector": SELECTOR,
                "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
            },
        }
        for name in ("run-r1-bb82030dbc2bcab", "svc-vision--train--api")
    ]
    needs = _make_needs()
    for item in needs:
        item["metadata"].pop("ownerReferences", None)
    return _separate([*needs, deployment, *services])


def hold(workload: dict[str, Any]) -> None:
    """Make it an anchor that is held back."""
    notes, spec = workload["metadata"]["annotations"], workload["spec"]
    notes |= {"runyard.io/wish": "hold", "runyard.io/generation": "1"}
    if workload["kind"] == "Deployment":
        notes["runyard.io/replicas"] = str(spec["replicas"])
        spec["replicas"] = 0
        return
    spec["suspend"] = True
    notes["runyard.io/timeout"] = str(spec["activeDeadlineSeconds"])
    notes["runyard.io/ttl"] = str(spec.pop("ttlSecondsAfterFinished"))
    spec["activeDeadlineSeconds"] += spec["template"]["spec"]["terminationGracePeriodSeconds"] + 3600


def make_profile(**fields: Any) -> Profile:
    """A profile that sets these fields."""
    return Profile(id="big", fields=read_admin_fields(fields))


def _separate(content: T) -> T:
    """A copy in which no part stands twice, so that one can be changed alone."""
    copied: T = json.loads(json.dumps(content))
    return copied


def _make_needs() -> list[dict[str, Any]]:
    metadata: dict[str, Any] = {"namespace": "runs", "labels": LABELS, "ownerReferences": [OWNER]}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "run-r1-bb82030dbc2bcab-secrets", **metadata},
            "type": "Opaque",
            "data": {"HF_TOKEN": "aHVudGVyMg==", "KAGGLE": "e30="},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "run-r1-bb82030dbc2bcab.config", **metadata},
            "immutable": True,
            "data": {"config.yaml": "a: 1"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "run-r1-bb82030dbc2bcab.data",
                **metadata,
                "labels": {**LABELS, "runyard.io/volume": "data"},
                "annotations": {"runyard.io/lifetime": "run"},
            },
            "spec": {**CLAIM},
        },
    ]
