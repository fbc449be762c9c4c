"""Objects of runs for the tests: JSON as the apiserver sends it, decoded as the reflectors decode it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from runyard.engines.kubernetes.run_objects import AnchorView, GonePod, RunObjects
from runyard.engines.kubernetes.views import ClaimView, DeploymentView, EventView, JobView, PodView, ServiceView

NAME = "run-r1-0123"
V = TypeVar("V")


def decode(view: type[V], found: Mapping[str, Any]) -> V:
    """As a reflector decodes it."""
    return msgspec.json.decode(json.dumps(found).encode(), type=view)


def make_metadata(name: str = NAME, **fields: Any) -> dict[str, Any]:
    """Metadata of an object of the run."""
    labels = {"runyard.io/run-uid": "r-uid", "runyard.io/run": "r1", "runyard.io/project": "p"}
    return {"name": name, "namespace": "ns", "uid": f"uid-of-{name}", "labels": labels, **fields}


def make_condition(name: str, status: str = "True", **fields: Any) -> dict[str, Any]:
    """A condition of an object."""
    return {"type": name, "status": status, "lastTransitionTime": "2026-11-16T10:00:00Z", **fields}


def make_job(
    wish: str = "run",
    *conditions: Mapping[str, Any],
    generation: str = "2",
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JobView:
    """A Job that is an anchor; held back if the wish is to hold it."""
    notes = {"runyard.io/wish": wish, "runyard.io/generation": generation}
    found = {
        "metadata": make_metadata(annotations=notes),
        "spec": {
            "suspend": wish == "hold",
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [{"action": "Ignore"}]},
            **spec,
        },
        "status": {"conditions": list(conditions), **(status or {})},
    }
    return decode(JobView, found)


def make_deployment(
    wish: str = "run",
    *conditions: Mapping[str, Any],
    replicas: int | None = None,
    asked: str = "1",
    observed: int = 2,
    **status: Any,
) -> DeploymentView:
    """A Deployment that is an anchor."""
    notes = {"runyard.io/wish": wish, "runyard.io/generation": "2", "runyard.io/replicas": asked}
    found = {
        "metadata": make_metadata(annotations=notes, generation=2),
        "spec": {"replicas": replicas if replicas is not None else int(wish == "run")},
        "status": {"observedGeneration": observed, "conditions": list(conditions), **status},
    }
    return decode(DeploymentView, found)


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """The state of a container that waits."""
    return {"waiting": {"reason": reason, "message": message}}


RUNNING = {"running": {"startedAt": "2026-11-16T10:00:05Z"}}


def ended(exit_code: int, reason: str = "", message: str = "", **fields: Any) -> dict[str, Any]:
    """The state of a container that has ended."""
    told = reason or ("Completed" if exit_code == 0 else "Error")
    found = {"exitCode": exit_code, "reason": told, "message": message, "finishedAt": "2026-11-16T10:01:00Z"}
    return {"terminated": {**found, **fields}}


def make_container(state: Mapping[str, Any], last: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """The status of the main container."""
    return {"name": "main", "state": state, "lastState": last or {}, "restartCount": 0, **fields}


def make_pod(
    phase: str = "Pending",
    *containers: Mapping[str, Any],
    conditions: Sequence[Mapping[str, Any]] = (),
    name: str = f"{NAME}-a",
    node: str | None = "node-1",
    init: Sequence[Mapping[str, Any]] = (),
    deleted_at: str | None = None,
    limits: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    image: str = "registry.example/team/train:1",
    **status: Any,
) -> PodView:
    """A pod of the run; on a node unless told otherwise."""
    metadata = make_metadata(name, creationTimestamp="2026-11-16T10:00:00Z")
    spec: dict[str, Any] = {
        "containers": [
            {"name": "main", "image": image, "resources": {"limits": limits or {}, "requests": requests or {}}}
        ]
    }
    found = {
        "metadata": metadata | ({"deletionTimestamp": deleted_at} if deleted_at else {}),
        "spec": spec | ({"nodeName": node} if node else {}),
        "status": {
            "phase": phase,
            "conditions": list(conditions),
            "containerStatuses": list(containers),
            "initContainerStatuses": list(init),
            **status,
        },
    }
    return decode(PodView, found)


READY = make_condition("Ready")


def make_event(reason: str, message: str, *, kind: str = "Pod", at: str = "2026-11-16T10:02:00Z") -> EventView:
    """A warning about an object of the run."""
    found = {
        "metadata": {"name": f"{NAME}.1"},
        "involvedObject": {"kind": kind, "name": NAME, "uid": f"uid-of-{NAME}"},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }
    return decode(EventView, found)


def make_claim(name: str = f"{NAME}.data", *, phase: str = "Pending", storage_class: str | None = None) -> ClaimView:
    """A claim of the run."""
    return decode(
        ClaimView,
        {"metadata": make_metadata(name), "spec": {"storageClassName": storage_class}, "status": {"phase": phase}},
    )


def make_service(
    kind: str = "ClusterIP", *, name: str = NAME, node_port: int = 0, ingress: Any = (), **spec: Any
) -> ServiceView:
    """The Service of a run."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "nodePort": node_port}]
    found = {
        "metadata": make_metadata(name),
        "spec": {"type": kind, "clusterIP": "10.0.0.7", "ports": ports, **spec},
        "status": {"loadBalancer": {"ingress": list(ingress)}},
    }
    return decode(ServiceView, found)


def make_run(anchor: AnchorView, *pods: PodView, gone: Sequence[PodView] = (), **fields: Any) -> RunObjects:
    """What the caches have of a run."""
    gone_pods = tuple(GonePod(pod, is_final=True) for pod in gone)
    return RunObjects(**{"anchor": anchor, "pods": pods, "gone_pods": gone_pods, "epoch": 1, "version": 77, **fields})
