"""The v1 PodStatus of processes, from what their supervisors wrote. Pure."""

from collections.abc import Mapping

from runyard.node.providers.local.pod_folder import PodRecord, format_time
from runyard.node.providers.provider import Object
from runyard.procs import Instance, State

LONGEST_MESSAGE = 1024
_START_FAILED = 128
_KILLED = 137


def render_status(record: PodRecord, states: Mapping[str, State | None]) -> Object:
    """The status of a pod. A container without a state was never started, and never will be."""
    inits = [_render_init(name, image, states.get(name), record) for name, image in record.init_images.items()]
    is_initialized = all(each["ready"] for each in inits)
    containers = [_render_container(name, image, states.get(name), record) for name, image in record.images.items()]
    if not is_initialized:
        containers = [{**each, "state": _initializing(each["state"])} for each in containers]
    phase = _phase(containers, inits)
    is_ready = phase == "Running" and all(container["ready"] for container in containers)
    reason = {} if is_ready else {"reason": "PodCompleted" if phase == "Succeeded" else "ContainersNotReady"}
    readiness = {"status": "True" if is_ready else "False", **reason, "lastTransitionTime": record.started_at}
    return {
        "phase": phase,
        "startTime": record.started_at,
        "hostIP": "127.0.0.1",
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "qosClass": "BestEffort",
        "conditions": [
            {
                "type": "Initialized",
                "status": "True" if is_initialized else "False",
                "lastTransitionTime": record.started_at,
            },
            {"type": "ContainersReady", **readiness},
            {"type": "Ready", **readiness},
        ],
        "containerStatuses": containers,
        **({"initContainerStatuses": inits} if inits else {}),
    }


def is_over(states: Mapping[str, State | None], record: PodRecord) -> bool:
    """Whether nothing of the pod runs any more, or will."""
    found = [states.get(name) for name in record.containers]
    return all(state is None or state.is_ended for state in found)


def _phase(containers: list[Object], inits: list[Object]) -> str:
    if any(_has_failed(each) for each in inits):
        return "Failed"
    if not all(each["ready"] for each in inits):
        return "Pending"
    ended = [container["state"]["terminated"] for container in containers if "terminated" in container["state"]]
    if len(ended) == len(containers):
        return "Succeeded" if all(state["exitCode"] == 0 for state in ended) else "Failed"
    is_begun = any("running" in container["state"] or container["lastState"] for container in containers)
    return "Running" if is_begun or ended else "Pending"


def _has_failed(init: Object) -> bool:
    """Whether an init container has ended badly, and is not started again."""
    return bool(init["state"].get("terminated", {}).get("exitCode"))


def _render_init(name: str, image: str, state: State | None, record: PodRecord) -> Object:
    """An init container is ready when it has ended well."""
    rendered = _render_container(name, image, state, record)
    if state is not None and state.phase == "setup":
        rendered["state"] = {"waiting": {"reason": "PodInitializing"}}
    ended = rendered["state"].get("terminated")
    return {**rendered, "ready": ended is not None and ended["exitCode"] == 0}


def _initializing(state: Object) -> Object:
    """The state of a container that waits for init containers; one that was stopped meanwhile has ended."""
    return {"waiting": {"reason": "PodInitializing"}} if "waiting" in state else state


def _render_container(name: str, image: str, state: State | None, record: PodRecord) -> Object:
    instances = [] if state is None else [instance for instance in state.instances if instance.command == name]
    current, last = _render_states(state, instances, record)
    is_running = "running" in current
    return {
        "name": name,
        "image": image,
        "imageID": "",
        "ready": is_running,
        "started": is_running,
        "restartCount": instances[-1].instance if instances else 0,
        "state": current,
        "lastState": last,
    }


def _render_states(state: State | None, instances: list[Instance], record: PodRecord) -> tuple[Object, Object]:
    """`state` and `lastState` of a container."""
    if state is None:
        message = "the agent ended before it had started this container; it is not started again"
        return {"terminated": _failed("StartInterrupted", message, record)}, {}
    newest = instances[-1] if instances else None
    before = {"terminated": _terminated(instances[-2], state)} if len(instances) > 1 else {}
    if newest is None:
        if state.is_ended:
            message = state.failure.message if state.failure else "it was stopped before it had started"
            return {"terminated": _failed("StartError", message, record)}, {}
        return {"waiting": {"reason": "ContainerCreating"}}, {}
    if newest.ended_at is None:
        return {"running": {"startedAt": format_time(newest.started_at)}}, before
    if state.is_ended or state.phase == "stopping":
        return {"terminated": _terminated(newest, state)}, before
    waiting = {"reason": "CrashLoopBackOff", "message": "the container has ended and is started again after a pause"}
    return {"waiting": waiting}, {"terminated": _terminated(newest, state)}


def _terminated(instance: Instance, state: State) -> Object:
    code = instance.exit_code
    if code is None:
        code = 128 + instance.signal if instance.signal else _KILLED
    reason = "Completed" if code == 0 else "Error"
    message = {}
    if instance.is_out_of_memory:
        code, reason = _KILLED, "OOMKilled"
    elif state.failure is not None and instance is state.instances[-1]:
        reason = "StartError" if instance.exit_code is None and instance.signal is None else reason
        message = {"message": state.failure.message[:LONGEST_MESSAGE]}
    signal = {"signal": instance.signal} if instance.signal else {}
    return {
        "exitCode": code,
        "reason": reason,
        **signal,
        **message,
        "startedAt": format_time(instance.started_at),
        "finishedAt": format_time(instance.ended_at or instance.started_at),
    }


def _failed(reason: str, message: str, record: PodRecord) -> Object:
    return {
        "exitCode": _START_FAILED,
        "reason": reason,
        "message": message[:LONGEST_MESSAGE],
        "startedAt": record.started_at,
        "finishedAt": record.started_at,
    }
