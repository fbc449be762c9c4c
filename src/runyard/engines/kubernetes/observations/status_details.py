"""The pods, the service and the events of a run, as its status shows them: field names as DigitalHub has them.

Counts are bounded first, then bytes: `LARGEST_DETAILS_BYTES` for all together.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from runyard.app.engine import LARGEST_DETAILS_BYTES
from runyard.app.model import Json
from runyard.domain.outcomes import Seen
from runyard.engines.kubernetes.observations.events import count_repeats, find_time
from runyard.engines.kubernetes.observations.pod_steps import find_step, is_ready
from runyard.engines.kubernetes.observations.texts import cut_text
from runyard.engines.kubernetes.run_objects import RunObjects
from runyard.engines.kubernetes.views import (
    ContainerState,
    ContainerStatus,
    DeploymentView,
    EventView,
    Ingress,
    PodView,
    ServiceView,
)

MOST_PODS = 10
"""How many pods of a run its status shows, the newest ones."""
MOST_SHOWN_CONTAINERS = 5
"""How many containers of a pod the status of its run shows, and as many init containers."""
MOST_CONDITIONS = 10
"""How many conditions of a pod the status of its run shows."""
MOST_EVENTS = 20
"""How many events of a run its status shows, the newest ones."""
MOST_PORTS = 16
"""How many ports of a service, and how many addresses, the status of its run shows."""
LONGEST_NOTE_BYTES = 512
"""How much of a message in the status of a pod or in an event is shown."""
MOST_REMEMBERED_PODS = 500
"""How many pods are remembered as they are shown; others are made anew."""
LARGEST_POD_BYTES = 4 * 1024
"""How large one pod in the status of a run may be; a larger one is shown without its conditions and containers."""
LARGEST_PODS_BYTES = 9 * 1024
"""How large the pods in the status of a run may be; the newest that fit."""
LARGEST_SERVICE_BYTES = 3 * 1024
"""How large the service in the status of a run may be; larger, and only its name and address are shown."""


def make_details(objects: RunObjects, seen: Seen) -> Json:
    """The parts of the status that an engine sets; those that there are."""
    details: Json = {}
    if pods := _keep_newest([_show_pod(pod) for pod in objects.pods[-MOST_PODS:]], most_bytes=LARGEST_PODS_BYTES):
        details["pods"] = pods
    if seen is Seen.RUNNING and (service := _make_service(objects)) is not None:
        details["service"] = service
    if objects.events:
        room = LARGEST_DETAILS_BYTES - len(json.dumps(details)) - 64
        shown = [_measure(_make_event(event)) for event in objects.events[-MOST_EVENTS:]]
        if events := _keep_newest(shown, most_bytes=room):
            details["events"] = events
    return details


@lru_cache(maxsize=MOST_REMEMBERED_PODS)
def _show_pod(pod: PodView) -> tuple[Json, int]:
    """A pod with the size of its JSON. Remembered: most changes of a run are not changes of its pods."""
    return _fit_pod(_make_pod(pod))


def _measure(shown: Json) -> tuple[Json, int]:
    return shown, len(json.dumps(shown))


def _make_pod(pod: PodView) -> Json:
    statuses = (*pod.status.init_containers[:MOST_SHOWN_CONTAINERS], *pod.status.containers[:MOST_SHOWN_CONTAINERS])
    images = {container.name: container.image for container in pod.spec.containers[:MOST_SHOWN_CONTAINERS]}
    found = {
        "name": pod.metadata.name,
        "namespace": pod.metadata.namespace,
        "phase": pod.status.phase,
        "step": find_step(pod).value,
        "is_ready": is_ready(pod),
        "restarts": sum(status.restart_count for status in pod.status.containers[:MOST_SHOWN_CONTAINERS]),
        "node": pod.spec.node_name,
        "startTime": pod.status.started_at,
        "deletionTimestamp": pod.metadata.deleted_at,
        "reason": pod.status.reason,
        "message": _cut(pod.status.message),
        "conditions": [_leave_blanks_out(condition) for condition in _make_conditions(pod)],
        "containers": [_make_container(status, images.get(status.name, "")) for status in statuses],
    }
    return _leave_blanks_out(found)


def _fit_pod(shown: Json) -> tuple[Json, int]:
    """Without its largest parts, as long as it is too large; with its size."""
    measured = _measure(shown)
    for part in ("conditions", "containers", "message"):
        if measured[1] <= LARGEST_POD_BYTES:
            break
        shown.pop(part, None)
        measured = _measure(shown)
    return measured


def _make_conditions(pod: PodView) -> list[Json]:
    return [
        {
            "type": _cut(condition.type),
            "status": _cut(condition.status),
            "reason": _cut(condition.reason),
            "message": _cut(condition.message),
            "lastTransitionTime": condition.since,
        }
        for condition in pod.status.conditions[:MOST_CONDITIONS]
    ]


def _make_container(status: ContainerStatus, image: str) -> Json:
    return _leave_blanks_out(
        {
            "name": status.name,
            "ready": status.is_ready,
            "restartCount": status.restart_count,
            "image": _cut(image),
            "state": _cut(_describe_state(status.state)),
        }
    )


def _describe_state(state: ContainerState) -> str:
    if state.running is not None:
        return f"running since {state.running.started_at or 'an unknown time'}"
    if state.terminated is not None:
        ended = state.terminated
        return (
            f"terminated at {ended.finished_at or 'an unknown time'} exitCode: {ended.exit_code} reason: {ended.reason}"
        )
    if state.waiting is not None:
        return f"waiting: {state.waiting.reason}"
    return ""


def _make_service(objects: RunObjects) -> Json | None:
    if not isinstance(objects.anchor, DeploymentView) or objects.anchor.metadata.annotations.wish != "run":
        return None
    own = [service for service in objects.services if service.metadata.name == objects.anchor.metadata.name]
    if not own:
        return None
    service = own[0]
    addresses = _list_addresses(objects, service)
    balancer = next(iter(service.status.load_balancer.ingress), Ingress())
    found = {
        "name": service.metadata.name,
        "namespace": service.metadata.namespace,
        "type": service.spec.type,
        "clusterIP": service.spec.cluster_ip,
        "externalIps": list(service.spec.external_ips[:MOST_PORTS]),
        "ip": balancer.ip,
        "hostname": balancer.hostname,
        "ports": [
            {"name": port.name, "port": port.port, "target_port": port.target_port, "node_port": port.node_port or None}
            for port in service.spec.ports[:MOST_PORTS]
        ],
        "addresses": addresses,
        "urls": [address["url"] for address in addresses],
        "url": addresses[0]["url"] if addresses else "",
        "aliases": [
            f"{alias.metadata.name}.{alias.metadata.namespace}:{port.port}"
            for alias in objects.services[:MOST_PORTS]
            if alias is not service
            for port in alias.spec.ports[:1]
        ],
    }
    shown = _leave_blanks_out(found)
    if len(json.dumps(shown)) <= LARGEST_SERVICE_BYTES:
        return shown
    return {name: shown[name] for name in ("name", "namespace", "type", "url") if name in shown}


def _list_addresses(objects: RunObjects, service: ServiceView) -> list[Json]:
    """`host:port` without a scheme, and from where it works; the first one is the `url`."""
    ports = service.spec.ports[:MOST_PORTS]
    balancers = [one.hostname or one.ip for one in service.status.load_balancer.ingress[:MOST_PORTS]]
    balanced = [_make_address(host, port.port, "outside") for host in balancers if host for port in ports]
    host = f"{service.metadata.name}.{service.metadata.namespace}"
    inside = [_make_address(host, port.port, "cluster") for port in ports]
    nodes = sorted({pod.status.host_ip for pod in objects.pods if pod.status.host_ip and is_ready(pod)})
    by_node = [_make_address(node, port.node_port, "nodes") for node in nodes for port in ports if port.node_port]
    return [*balanced, *inside, *by_node][:MOST_PORTS]


def _make_address(host: str, port: int, where: str) -> Json:
    shown = f"[{host}]" if ":" in host else host
    return {"url": f"{shown}:{port}", "from": where}


def _make_event(event: EventView) -> Json:
    message = _cut(event.message)
    return _leave_blanks_out(
        {
            "type": _cut(event.type),
            "reason": _cut(event.reason),
            "message": message,
            "note": message,
            "timestamp": find_time(event),
            "kind": _cut(event.involved.kind),
            "name": _cut(event.involved.name),
            "count": count_repeats(event),
        }
    )


def _cut(text: str) -> str:
    return cut_text(text, LONGEST_NOTE_BYTES)


def _leave_blanks_out(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def _keep_newest(entries: Sequence[tuple[Json, int]], *, most_bytes: int) -> list[Any]:
    """The last entries whose JSON is that small together; each comes with its size."""
    kept: list[Any] = []
    for entry, size_bytes in reversed(entries):
        most_bytes -= size_bytes + 2
        if most_bytes < 0:
            break
        kept.append(entry)
    return kept[::-1]
