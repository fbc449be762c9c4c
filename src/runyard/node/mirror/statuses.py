"""What the local pod's status becomes, from that of the pod at the provider. Pure.

Only what a kubelet owns is taken over: phase, start, its own conditions and the containers. Everything else of the
local status stays: `qosClass`, `PodScheduled` and the conditions of others, such as those of readiness gates. An ended
pod stays as it is, and a container that may not run again stays terminated.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from runyard.node.providers.provider import Object
from runyard.node.timestamps import write_time

PodIps = Literal["none", "remote", "agent"]
STARTED = "k8s.gpu/Started"
"""The condition that the provider has taken the pod. A pod that has it is never started again."""
UNREACHABLE = "ProviderUnreachable"
LONGEST_MESSAGE = 4096
"""How many characters of a message are taken over; a kubelet writes at most as many of a termination message."""

_KUBELETS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", "DisruptionTarget")
_TERMINAL = ("Succeeded", "Failed")
_COMPARED = ("status", "reason", "message")
_CONTAINER_LISTS = (("initContainerStatuses", "initContainers"), ("containerStatuses", "containers"))
_CREATING = {"reason": "ContainerCreating"}
_MERGED_LISTS = ("podIPs", "hostIPs")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSettings:
    """What the local status shows instead of the provider's."""

    host_address: str
    """The agent's address."""
    pod_ips: PodIps = "none"
    """Whose address the pod has. The provider's is reachable there only, and Services would send traffic to it."""


def is_terminal(pod: Mapping[str, Any]) -> bool:
    """Whether the pod has ended."""
    return (pod.get("status") or {}).get("phase") in _TERMINAL


def is_started(pod: Mapping[str, Any]) -> bool:
    """Whether the provider has taken the pod at some time."""
    return _find_condition(pod, STARTED).get("status") == "True"


def mirror_status(
    local: Mapping[str, Any],
    remote: Mapping[str, Any],
    *,
    remote_name: str | None,
    settings: StatusSettings,
    now: datetime,
    unreachable: str = "",
) -> Object:
    """The local status, as far as it is the provider's.

    `remote_name`: what the provider calls the pod; None once it is gone. `unreachable`: since when nobody knows more.
    """
    if is_terminal(local):
        return {}
    reason, message = _explain(remote)
    desired: Object = {
        "phase": remote.get("phase") or "Pending",
        "reason": reason,
        "message": message,
        **_addresses(remote, settings),
    }
    if started_at := (local.get("status") or {}).get("startTime") or remote.get("startTime"):
        desired["startTime"] = started_at
    for field, of in _CONTAINER_LISTS:
        if statuses := _containers(local, remote, field, of):
            desired[field] = statuses
    conditions = [*_kubelet_conditions(local, remote, now=now, unreachable=unreachable)]
    if remote_name is not None:
        message = f"runs at the provider as {remote_name}"
        conditions.append(_condition(local, STARTED, "True", "Started", message, now=now))
    return _complete(desired, conditions, local)


def end_status(
    local: Mapping[str, Any],
    final: Mapping[str, Any] | None,
    *,
    reason: str,
    message: str,
    settings: StatusSettings,
    now: datetime,
) -> Object:
    """The last status of a pod that is gone, or that never will be: how it ended if that was seen, else that it failed.

    `final` is the last status that was seen. Containers that had not ended then have an unknown end, as a kubelet says
    of those that it cannot find.
    """
    if is_terminal(local):
        return {}
    desired = (
        {"conditions": []}
        if final is None
        else mirror_status(local, final, remote_name=None, settings=settings, now=now)
    )
    if final is not None and final.get("phase") in _TERMINAL:
        return desired
    desired |= {"phase": "Failed", "reason": reason, "message": message[:LONGEST_MESSAGE]}
    for field, _ in _CONTAINER_LISTS:
        if found := desired.get(field) or (local.get("status") or {}).get(field):
            desired[field] = [_end_unknown(status, now) for status in found]
    conditions = {condition["type"]: condition for condition in desired.pop("conditions")}
    for kind in ("ContainersReady", "Ready"):
        if kind in conditions or _find_condition(local, kind):
            conditions[kind] = _condition(local, kind, "False", "PodFailed", "", now=now)
    return _complete(desired, [*conditions.values()], local)


def _end_unknown(status: Object, now: datetime) -> Object:
    """A container that was running ended in a way that nobody saw."""
    running = (status.get("state") or {}).get("running")
    if running is None:
        return status
    ended: Object = {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": "the pod was gone before the end of its container was seen",
        "startedAt": running.get("startedAt"),
        "finishedAt": write_time(now),
    }
    return {**status, "ready": False, "started": False, "state": {"terminated": ended}}


def wait_status(
    local: Mapping[str, Any], *, reason: str, message: str, settings: StatusSettings, now: datetime
) -> Object:
    """The status of a pod that cannot be started yet: its containers wait for that reason."""
    waiting = {"waiting": {"reason": reason, "message": message[:LONGEST_MESSAGE]}}
    desired: Object = {"phase": "Pending", "reason": None, "message": None, **_addresses({}, settings)}
    for field, of in _CONTAINER_LISTS:
        desired[field] = [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": waiting,
            }
            for container in local["spec"].get(of) or ()
        ]
    conditions = [
        _condition(local, kind, "False", "ContainersNotReady", message[:LONGEST_MESSAGE], now=now)
        for kind in ("ContainersReady", "Ready")
    ]
    return _complete({key: value for key, value in desired.items() if value != []}, conditions, local)


def unready_status(local: Mapping[str, Any], *, message: str, now: datetime) -> Object:
    """The status of a pod of which nothing is known any more, and nothing was yet since the agent began."""
    if is_terminal(local) or _find_condition(local, "Ready").get("status") != "True":
        return {}
    return {"conditions": [_condition(local, "Ready", "False", UNREACHABLE, message, now=now)]}


def status_patch(local: Mapping[str, Any], desired: Object) -> Object | None:
    """A strategic merge patch for `status` that brings `desired` about, or None where nothing would change.

    Conditions are merged by type: those that it does not name stay, whoever wrote them meanwhile.
    """
    held = local.get("status") or {}
    patch: Object = {
        key: value
        for key, value in desired.items()
        if key != "conditions" and (held.get(key) != value) and not (value is None and key not in held)
    }
    for key in _MERGED_LISTS:
        if key in patch:
            patch[key] = [{"$patch": "replace"}, *patch[key]]
    if changed := [*_changed_conditions(local, desired.get("conditions") or ())]:
        patch["conditions"] = changed
    if not patch or set(patch) == {"observedGeneration"}:
        return None
    return {"metadata": {"uid": local["metadata"]["uid"]}, "status": patch}


def _complete(desired: Object, conditions: list[Object], local: Mapping[str, Any]) -> Object:
    generation = local["metadata"].get("generation")
    if isinstance(generation, int) and generation > 0:
        desired["observedGeneration"] = generation
        conditions = [{**condition, "observedGeneration": generation} for condition in conditions]
    return {**desired, "conditions": conditions}


def _explain(remote: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Why the pod is as it is: the provider's own words, or why it has no machine for it yet."""
    scheduled = _find_condition({"status": remote}, "PodScheduled")
    if remote.get("phase") == "Pending" and scheduled.get("status") == "False":
        return f"Provider{scheduled.get('reason') or 'Unschedulable'}", _cut(scheduled.get("message"))
    return remote.get("reason") or None, _cut(remote.get("message"))


def _addresses(remote: Mapping[str, Any], settings: StatusSettings) -> Object:
    addresses: Object = {"hostIP": settings.host_address, "hostIPs": [{"ip": settings.host_address}]}
    if settings.pod_ips == "agent":
        addresses |= {"podIP": settings.host_address, "podIPs": [{"ip": settings.host_address}]}
    elif settings.pod_ips == "remote" and remote.get("podIP"):
        addresses |= {"podIP": remote["podIP"], "podIPs": remote.get("podIPs") or [{"ip": remote["podIP"]}]}
    return addresses


def _containers(local: Mapping[str, Any], remote: Mapping[str, Any], field: str, of: str) -> list[Object]:
    """The containers' states, in the order of the spec; those that the local pod does not have are left out."""
    held = {status.get("name"): status for status in (local.get("status") or {}).get(field) or ()}
    found = {status.get("name"): status for status in remote.get(field) or ()}
    statuses: list[Object] = []
    for container in local["spec"].get(of) or ():
        name = container["name"]
        before, after = held.get(name), found.get(name)
        if after is not None and not (before and _must_stay(before, after, container, local)):
            statuses.append(_cut_messages(after))
        elif before is not None:
            is_waiting = "waiting" in (before.get("state") or {})
            statuses.append({**before, "state": {"waiting": _CREATING}} if is_waiting else before)
    return statuses


def _must_stay(
    before: Mapping[str, Any], after: Mapping[str, Any], container: Mapping[str, Any], local: Mapping[str, Any]
) -> bool:
    """Whether a container ended for good, and the provider says otherwise."""
    ended = (before.get("state") or {}).get("terminated")
    if ended is None or "terminated" in (after.get("state") or {}) or container.get("restartPolicyRules"):
        return False
    policy = container.get("restartPolicy") or local["spec"].get("restartPolicy", "Always")
    return bool(policy == "Never" or (policy == "OnFailure" and ended.get("exitCode") == 0))


def _cut_messages(status: Mapping[str, Any]) -> Object:
    """A container's status, its messages cut."""
    cut: Object = dict(status)
    for field in ("state", "lastState"):
        cut[field] = {
            kind: {**state, **({"message": state["message"][:LONGEST_MESSAGE]} if state.get("message") else {})}
            for kind, state in (status.get(field) or {}).items()
        }
    return cut


def _kubelet_conditions(
    local: Mapping[str, Any], remote: Mapping[str, Any], *, now: datetime, unreachable: str
) -> Iterator[Object]:
    for kind in _KUBELETS:
        given = _find_condition({"status": remote}, kind)
        if not given:
            continue
        status, reason, message = given.get("status"), given.get("reason") or "", given.get("message") or ""
        if kind == "Ready" and status == "True":
            if unreachable:
                status, reason, message = "False", UNREACHABLE, unreachable
            elif gates := [*_closed_gates(local)]:
                status, reason = "False", "ReadinessGatesNotReady"
                message = f"the readiness gate {gates[0]} is not True"
        is_theirs = status == given.get("status")
        at = given.get("lastTransitionTime") if is_theirs else None
        yield _condition(local, kind, str(status), reason, message, now=now, changed_at=at)


def _closed_gates(local: Mapping[str, Any]) -> Iterator[str]:
    for gate in local["spec"].get("readinessGates") or ():
        if _find_condition(local, gate.get("conditionType", "")).get("status") != "True":
            yield gate.get("conditionType", "")


def _condition(
    local: Mapping[str, Any],
    kind: str,
    status: str,
    reason: str,
    message: str,
    *,
    now: datetime,
    changed_at: str | None = None,
) -> Object:
    held = _find_condition(local, kind)
    if held.get("status") == status:
        changed_at = held.get("lastTransitionTime") or changed_at
    condition: Object = {
        "type": kind,
        "status": status,
        "lastTransitionTime": changed_at or write_time(now),
        "reason": reason or None,
        "message": _cut(message),
    }
    return condition


def _changed_conditions(local: Mapping[str, Any], desired: Iterable[Object]) -> Iterator[Object]:
    for condition in desired:
        held = _find_condition(local, condition["type"])
        if any((held.get(field) or None) != (condition.get(field) or None) for field in _COMPARED):
            yield condition


def _find_condition(pod: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            return dict(condition)
    return {}


def _cut(text: str | None) -> str | None:
    return text[:LONGEST_MESSAGE] if text else None
