"""Why a container does not start, and how one ended, from the words of the kubelet and of the container runtime."""

import re
import signal as signals

from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.observations.container_exits import (
    OUT_OF_MEMORY,
    START_ERRORS,
    classify_exit,
    find_signal,
    read_memory,
)
from runyard.engines.kubernetes.observations.explanations import Explanation
from runyard.engines.kubernetes.observations.pod_steps import CRASH_LOOP, UNKNOWN_END, iter_statuses
from runyard.engines.kubernetes.views import ContainerStatus, PodView, Terminated, Waiting
from runyard.pods.container_failure import is_root_refusal
from runyard.pods.image_pull import PULL_FAILURES, PullKind, read_pull_failure
from runyard.pods.memory_advice import advise_memory
from runyard.pods.termination import read_termination

MOST_LAST_LINES = 10
"""How many of the last lines of a container's log the message of its run has."""
LONGEST_LINES = 2048
"""How many characters of these lines, the last ones."""
UNREADABLE_LOG = "Error on reading termination message from logs"
_BACK_OFF = re.compile(r"back-off (\S{1,20}) restarting")
_MISSING = re.compile(r'(secret|configmap) "([^"]{1,253})" not found')
_MISSING_KEY = re.compile(r"couldn't find key (\S{1,253}) in (Secret|ConfigMap) \S{1,253}/(\S{1,253})")
_RUNTIME_WRAPPERS = re.compile(
    r"(?:failed to (?:create containerd task|create shim task|start container[^:]{0,100})"
    r"|OCI runtime create failed|runc create failed|unable to start container process): "
)
_PULLS = {
    PullKind.MISSING: Reason.IMAGE_MISSING,
    PullKind.REFUSED: Reason.IMAGE_REFUSED,
    PullKind.UNREACHABLE: Reason.IMAGE_UNREACHABLE,
}


def find_permanent_fault(pod: PodView) -> Explanation | None:
    """Why the pod can never start, however long it waits."""
    if pod.metadata.deleted_at:
        return None
    for status in iter_statuses(pod):
        waiting = status.state.waiting
        if waiting is None:
            continue
        if waiting.reason == "CreateContainerConfigError" and is_root_refusal(waiting.message):
            return Explanation(
                Reason.IMAGE_ROOT,
                f"the image {find_image(pod, status)} runs as root, which is not allowed;"
                " set run_as_user: 1000, or use an image with a non-root user",
            )
        if waiting.reason == "InvalidImageName":
            return Explanation(Reason.IMAGE_INVALID, f"the image name is not valid: {waiting.message}")
    return None


def explain_container(pod: PodView, status: ContainerStatus) -> Explanation | None:
    """Why a container of a pod that has not finished does not run; None if it runs, or only starts."""
    waiting = status.state.waiting
    if waiting is None:
        return _explain_restart(pod, status, waiting)
    if waiting.reason in PULL_FAILURES:
        failure = read_pull_failure(waiting.message)
        words = f": {failure.words}" if failure.words else ""
        return Explanation(_PULLS[failure.kind], f"the image {find_image(pod, status)} cannot be pulled{words}")
    if waiting.reason == "CreateContainerConfigError":
        return _explain_configuration(status, waiting.message)
    if waiting.reason in ("CreateContainerError", *START_ERRORS):
        return _explain_start(status, waiting.message)
    return _explain_restart(pod, status, waiting)


def explain_end(pod: PodView, status: ContainerStatus, ended: Terminated) -> Explanation:
    """How an instance of a container failed."""
    if ended.reason == OUT_OF_MEMORY:
        return Explanation(Reason.MEMORY_EXCEEDED, _advise_memory(pod, status, ended))
    if ended.reason in START_ERRORS:
        return _explain_start(status, ended.message)
    return Explanation(classify_exit(ended), _describe_exit(status, ended))


def find_image(pod: PodView, status: ContainerStatus) -> str:
    """The image of a container as its spec names it."""
    return next((each.image for each in pod.spec.containers if each.name == status.name and each.image), status.name)


def _explain_configuration(status: ContainerStatus, message: str) -> Explanation:
    if found := _MISSING.search(message):
        reason = Reason.SECRET_MISSING if found[1] == "secret" else Reason.CONFIG_MISSING
        kind = "Secret" if found[1] == "secret" else "ConfigMap"
        return Explanation(reason, f"the {kind} {found[2]} does not exist in the namespace")
    if found := _MISSING_KEY.search(message):
        reason = Reason.SECRET_MISSING if found[2] == "Secret" else Reason.CONFIG_MISSING
        return Explanation(reason, f"the {found[2]} {found[3]} has no key {found[1]}")
    return Explanation(Reason.CONFIG_MISSING, f"container {status.name} cannot be configured: {message}")


def _explain_start(status: ContainerStatus, message: str) -> Explanation:
    words = _RUNTIME_WRAPPERS.sub("", message).removesuffix(": unknown").strip()
    said = f": {words}" if words else ""
    return Explanation(Reason.START_FAILED, f"the program of container {status.name} could not be started{said}")


def _explain_restart(pod: PodView, status: ContainerStatus, waiting: Waiting | None) -> Explanation | None:
    """A container that ended and is started again, or waits to be."""
    ended = status.state.terminated or status.last_state.terminated
    if status.state.running is not None or ended is None:
        return None
    if waiting is None and ended.exit_code == 0:
        return None
    how = explain_end(pod, status, ended)
    delay = _BACK_OFF.search(waiting.message) if waiting is not None else None
    times = f" (restarts so far: {status.restart_count})" if status.restart_count else ""
    again = f"container {status.name} is started again{f' after {delay[1]}' if delay else ''}{times}"
    reason = Reason.CRASH_LOOP if how.reason is Reason.RUN_FAILED else how.reason
    is_new = waiting is not None and waiting.reason != CRASH_LOOP and not status.restart_count
    return None if is_new else Explanation(reason, f"{again}; last time: {how.message}")


def _describe_exit(status: ContainerStatus, ended: Terminated) -> str:
    what = f"container {status.name} {_describe_code(ended)}"
    if ended.message.startswith(UNREADABLE_LOG):
        return what
    message, _ = read_termination(ended.message)
    if message is None:
        return what
    if message != ended.message.strip():
        return message  # the launcher's sentence: it says what the exception was
    lines = message[-LONGEST_LINES:].splitlines()[-MOST_LAST_LINES:]
    return f"{what}; last lines: " + "\n".join(lines)


def _describe_code(ended: Terminated) -> str:
    if ended.reason == UNKNOWN_END:
        return "is gone, and its exit code is not known"
    number = find_signal(ended)
    if number is None:
        return f"ended with exit code {ended.exit_code}"
    try:
        name = signals.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    not_memory = "; its memory limit was not the cause" if number == signals.SIGKILL else ""
    return f"was killed by {name} (exit code {ended.exit_code}){not_memory}"


def _advise_memory(pod: PodView, status: ContainerStatus, ended: Terminated) -> str:
    limit, request = read_memory(pod, status.name)
    _, peak = read_termination(ended.message)
    return advise_memory(peak, limit_bytes=limit, request_bytes=request).text
