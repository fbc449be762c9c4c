"""Ten thousand pods as a busy cluster has them: specification, status, and managedFields by the apiserver's hand."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from bench.report import progress
from runyard.kube import Client, Object
from runyard.kube.resources import PODS

CONCURRENCY = 16
NODES = 200
_ENVIRONMENT = (
    "LOG_LEVEL",
    "HTTP_PORT",
    "METRICS_PORT",
    "DATABASE_HOST",
    "DATABASE_NAME",
    "CACHE_URL",
    "REGION",
    "FEATURES",
)


def render_pod(number: int) -> Object:
    """One pod of a ReplicaSet with a sidecar; equal numbers give equal pods."""
    application = f"service-{number // 20}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{application}-7d9c5b8f4-{number:05d}",
            "labels": {
                "app.kubernetes.io/name": application,
                "app.kubernetes.io/instance": f"{application}-production",
                "app.kubernetes.io/version": "1.42.7",
                "app.kubernetes.io/managed-by": "Helm",
                "pod-template-hash": "7d9c5b8f4",
                "team": f"team-{number % 17}",
            },
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
                "checksum/config": uuid.uuid5(uuid.NAMESPACE_DNS, application).hex * 2,
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{application}-7d9c5b8f4",
                    "uid": str(uuid.uuid5(uuid.NAMESPACE_URL, application)),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": _render_spec(number, application),
    }


def _render_spec(number: int, application: str) -> Object:
    return {
        "nodeName": f"node-{number % NODES}",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 60,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001},
        "containers": [
            _render_container("app", application, variables=_ENVIRONMENT, port=8080),
            _render_container("proxy", "mesh-proxy", variables=_ENVIRONMENT[:2], port=15001),
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": f"{application}-config"}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
        ],
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}],
    }


def _render_container(name: str, image: str, *, variables: Sequence[str], port: int) -> Object:
    probe = {"httpGet": {"path": "/healthz", "port": port}, "periodSeconds": 10, "timeoutSeconds": 2}
    return {
        "name": name,
        "image": f"registry.example.com/platform/{image}:1.42.7",
        "args": ["--config=/etc/config/config.yaml", "--verbosity=2"],
        "env": [{"name": variable, "value": f"{variable.lower()}.{image}.svc"} for variable in variables],
        "ports": [{"name": name, "containerPort": port}],
        "livenessProbe": probe,
        "readinessProbe": {**probe, "failureThreshold": 2},
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config", "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def render_status(number: int) -> Object:
    """What a kubelet reports of such a pod while it runs."""
    since = "2026-11-01T08:00:00Z"
    condition = {"status": "True", "lastTransitionTime": since}
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    address = f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"
    return {
        "phase": "Running",
        "startTime": since,
        "hostIP": f"192.168.0.{number % NODES}",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": kind, **condition} for kind in kinds],
        "containerStatuses": [_render_container_status(name, number) for name in ("app", "proxy")],
    }


def _render_container_status(name: str, number: int) -> Object:
    digest = uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}-{number}").hex * 2
    return {
        "name": name,
        "containerID": f"containerd://{digest}",
        "image": f"registry.example.com/platform/{name}:1.42.7",
        "imageID": f"registry.example.com/platform/{name}@sha256:{digest}",
        "ready": True,
        "started": True,
        "restartCount": number % 3,
        "state": {"running": {"startedAt": "2026-11-01T08:00:05Z"}},
    }


async def create_pods(client: Client, *, namespace: str, count: int) -> None:
    """Create the pods and report their status, as two different field managers."""

    async def create(number: int) -> None:
        pod = render_pod(number)
        await client.create(PODS, pod, namespace=namespace, field_manager="kube-controller-manager")
        await client.patch(
            PODS,
            pod["metadata"]["name"],
            {"status": render_status(number)},
            namespace=namespace,
            subresource="status",
            kind="strategic",
            field_manager="kubelet",
        )

    await each(create, count=count, doing="pods created")


async def relabel_pods(client: Client, *, namespace: str, count: int, value: str) -> None:
    """Change one label of every pod: as many watch events as there are pods."""

    async def relabel(number: int) -> None:
        name = render_pod(number)["metadata"]["name"]
        await client.patch(PODS, name, {"metadata": {"labels": {"bench": value}}}, namespace=namespace)

    await each(relabel, count=count, doing="labels patched")


async def each(act: Callable[[int], Awaitable[Any]], *, count: int, doing: str) -> None:
    """Call `act` with 0 … count - 1, a bounded number at once."""
    numbers = iter(range(count))
    finished = 0

    async def work() -> None:
        nonlocal finished
        for number in numbers:
            await act(number)
            finished += 1
            if finished % 2000 == 0:
                progress(f"{finished} of {count} {doing}")

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(work())
