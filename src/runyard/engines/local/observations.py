"""What the files of a run say about it. Pure: records and the supervisor's state in, an observation out."""

import json
import signal as signals
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runyard.app.engine import (
    LARGEST_DETAILS_BYTES,
    LONGEST_MESSAGE_BYTES,
    MOST_ENDS,
    Anchor,
    ContainerEnd,
    Observation,
)
from runyard.app.model import Json
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from runyard.engines.local.capacity.amounts import MEMORY
from runyard.engines.local.containers.container_plan import IMAGE_STEP
from runyard.engines.local.folders.run_folders import AnchorRecord, ReleaseRecord, WishRecord
from runyard.engines.local.pod_plans import MAIN
from runyard.engines.local.virtual_environments.environments import describe_failure
from runyard.pods.memory_advice import advise_memory
from runyard.pods.termination import read_termination
from runyard.procs import Failure, Instance, State

RESUMABLE = frozenset({"serve", "deploy"})
"""Actions that can be started again after a stop."""
MOST_STEP_LINES = 5
"""How many lines of the log of a step that failed its message has, the last ones."""
MOST_EVENTS = 50
"""How many warnings an observation lists."""
_PHASES = {
    "setup": Seen.PENDING,
    "starting": Seen.PENDING,
    "restarting": Seen.PENDING,
    "running": Seen.RUNNING,
    "stopping": Seen.RUNNING,
}
STEP_FAILED = "step.failed"
_ENFORCED = {
    "memory": "the memory limit is not enforced: the machine gives the server no cgroup",
    "cpu": "the limit of CPU time is not enforced: the machine gives the server no cgroup",
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a run that was released does not start yet."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """Everything that is known of a run, as it was read together."""

    anchor: AnchorRecord
    wish: WishRecord
    release: ReleaseRecord | None = None
    """The newest one."""
    state: State | None = None
    """Of the newest release; None if it was not started yet."""
    is_supervised: bool = False
    waiting: Waiting | None = None
    """It is in the memory of this engine only."""
    step_log: bytes = b""
    """The end of the log of the step that failed, if one did."""


def name_pod(anchor: AnchorRecord, release: int) -> str:
    """The name of the pod that a release stands for."""
    return f"{anchor.name}-{release}"


def observe_absence(anchor: Anchor, ends: tuple[ContainerEnd, ...] = ()) -> Observation:
    """The anchor is not there; `ends` as far as they were seen."""
    return Observation(run_uid=anchor.run_uid, uid=anchor.uid, seen=Seen.ABSENT, ends=ends)


def observe_run(files: RunFiles) -> Observation:
    """The observation of an anchor that is there."""
    seen = _judge(files)
    reason, message = _explain(files, seen)
    return Observation(
        run_uid=files.anchor.run_uid,
        uid=files.anchor.uid,
        seen=seen,
        version=files.wish.version + (0 if files.state is None else files.state.version),
        generation=files.wish.generation,
        reason=reason,
        message=None if message is None else cut_text(message),
        ends=tuple(_iter_ends(files))[-MOST_ENDS:],
        details=_make_details(files),
    )


def choose_newer(known: Observation, other: Observation) -> Observation:
    """The newer of two observations of one run; the other one if it cannot be told. A UID does not come back."""
    if known.uid != other.uid or other.seen is Seen.ABSENT:
        return other
    return known if known.seen is Seen.ABSENT or known.version > other.version else other


def is_live(files: RunFiles) -> bool:
    """Whether something of the run is executed, or is about to be."""
    return files.is_supervised if files.state is None else not files.state.is_ended


def cut_text(text: str) -> str:
    """The beginning of a message, in `LONGEST_MESSAGE_BYTES`."""
    if len(text) * 4 <= LONGEST_MESSAGE_BYTES:
        return text
    return text.encode(errors="replace")[:LONGEST_MESSAGE_BYTES].decode(errors="ignore")


def _judge(files: RunFiles) -> Seen:
    wish, state = files.wish.wish, files.state
    if files.waiting is not None:
        return Seen.PENDING
    if state is None:
        if wish == "hold" or (wish == "run" and not files.is_supervised):
            return Seen.HELD
        return Seen.PENDING if wish == "run" else Seen.STOPPED
    if not state.is_ended:
        is_unready = state.phase == "running" and not state.is_ready
        return Seen.PENDING if is_unready and wish == "run" else _PHASES[state.phase]
    if wish == "hold":
        return Seen.HELD  # it was released again while the last release was being stopped
    return _judge_end(files.anchor, state)


def _judge_end(anchor: AnchorRecord, state: State) -> Seen:
    if state.failure is not None:
        is_stopped = state.is_stop_requested and state.failure.code == STEP_FAILED
        return Seen.STOPPED if is_stopped else Seen.FAILED
    if state.is_stop_requested:
        return Seen.STOPPED
    last = _find_main(state)
    is_done = last is not None and last.exit_code == 0
    return Seen.SUCCEEDED if is_done and anchor.action not in RESUMABLE else Seen.FAILED


def _find_main(state: State) -> Instance | None:
    return next((one for one in reversed(state.instances) if one.command == MAIN), None)


def _explain(files: RunFiles, seen: Seen) -> tuple[str | None, str | None]:
    state = files.state
    if files.waiting is not None:
        return files.waiting.reason, files.waiting.message
    if state is None or seen in (Seen.HELD, Seen.STOPPED, Seen.SUCCEEDED):
        return None, None
    if seen is Seen.FAILED:
        return _explain_failure(files, state)
    if seen is Seen.PENDING:
        return Reason.ENGINE_RELEASED, _describe_start(state)
    return None, None


def _describe_start(state: State) -> str:
    last = _find_main(state)
    if state.phase == "restarting" and last is not None:
        return f"is started again: it {describe_end(last)}"
    if state.phase == "running":
        return "was started, and is not ready yet"
    return state.message or ("is being set up" if state.phase == "setup" else "is being started")


def _explain_failure(files: RunFiles, state: State) -> tuple[str, str | None]:
    if state.failure is not None:
        return _explain_procs_failure(files, state, state.failure)
    last = _find_main(state)
    if last is not None and last.is_out_of_memory:
        return Reason.MEMORY_EXCEEDED, _advise_memory(files, last)
    message, _ = read_termination(state.termination)
    if message is None and last is not None:
        message = f"the process {describe_end(last)}"
    return Reason.RUN_FAILED, message


def _explain_procs_failure(files: RunFiles, state: State, failure: Failure) -> tuple[str, str]:
    if failure.code == STEP_FAILED:
        step = find_failed_step(state)
        if step is not None and step.command == IMAGE_STEP:
            return Reason.IMAGE_MISSING, _describe_missing_image(files.step_log) or failure.message
        is_out_of_memory = step is not None and step.is_out_of_memory
        return Reason.ENVIRONMENT_FAILED, "it ran out of memory; " * is_out_of_memory + describe_failure(files.step_log)
    known = {str(reason) for reason in Reason}
    return (failure.code if failure.code in known else Reason.RUN_FAILED), failure.message


def find_failed_step(state: State) -> Instance | None:
    """The step whose failure ended the supervision, if one did."""
    is_step = state.failure is not None and state.failure.code == STEP_FAILED and state.instances
    return state.instances[-1] if is_step else None


def _describe_missing_image(log: bytes) -> str:
    lines = [line.strip() for line in log.decode(errors="replace").splitlines() if line.strip()]
    if not lines or lines[-1].startswith("the image "):
        return "".join(lines[-1:])  # our own sentence: it was not to be pulled
    return "\n".join(["the image could not be pulled:", *lines[-MOST_STEP_LINES:]])


def _advise_memory(files: RunFiles, end: Instance) -> str:
    limit = None if files.release is None else files.release.memory_limit_bytes
    request = None if files.release is None else files.release.demand.get(MEMORY)
    return advise_memory(end.peak_bytes, limit_bytes=limit, request_bytes=request).text


def describe_end(end: Instance) -> str:
    """How a process ended, in words."""
    if end.is_out_of_memory:
        return "ran out of memory"
    if end.signal is not None:
        try:
            name = signals.Signals(end.signal).name
        except ValueError:
            name = f"signal {end.signal}"
        return f"was killed by {name}"
    return "ended, and its exit code is not known" if end.exit_code is None else f"ended with exit code {end.exit_code}"


def _iter_ends(files: RunFiles) -> Iterator[ContainerEnd]:
    """Every end of the main process, and of steps that failed."""
    state = files.state
    if state is None:
        return
    pod = name_pod(files.anchor, files.wish.release)
    last = _find_main(state)
    for one in state.instances:
        is_step = one.command != MAIN
        if one.ended_at is None or (is_step and one.exit_code == 0):
            continue
        told = read_termination(state.termination)[1] if one is last else None
        yield ContainerEnd(
            pod=pod,
            container=one.command,
            instance=one.instance,
            exit_code=one.exit_code if one.signal is None else 128 + one.signal,
            signal=one.signal,
            is_out_of_memory=one.is_out_of_memory,
            peak_bytes=one.peak_bytes if one.peak_bytes is not None else told,
        )


def _make_details(files: RunFiles) -> Json:
    details: Json = {}
    state, release = files.state, files.release
    if state is not None and is_live(files):
        details["pods"] = [_make_pod(files, state)]
    if state is not None and release is not None and release.service is not None and not state.is_ended:
        details["service"] = _make_service(release.service, state)
    if events := list(_iter_events(files)):
        details["events"] = _keep_small(events, most_bytes=LARGEST_DETAILS_BYTES - len(json.dumps(details)) - 64)
    return details


def _make_pod(files: RunFiles, state: State) -> Json:
    last = state.instances[-1] if state.instances else None
    pod: Json = {"name": name_pod(files.anchor, files.wish.release), "phase": state.phase, "is_ready": state.is_ready}
    if last is not None:
        pod |= {"command": last.command, "started_at": last.started_at.isoformat(), "restarts": last.instance}
    return pod


def _make_service(service: Any, state: State) -> Json:
    """Where it is reached: host ports are on the loopback address of this machine."""
    ports = [{**port, "host_port": state.ports.get(port["target_port"])} for port in service["ports"]]
    urls = [f"127.0.0.1:{port['host_port']}" for port in ports if port["host_port"] is not None]
    found = {"type": service["type"], "name": service["name"], "ports": ports, "urls": urls}
    return found | ({"url": urls[0]} if urls else {})


def _iter_events(files: RunFiles) -> Iterator[Json]:
    """What the machine does not do for the run, as warnings."""
    if files.release is None:
        return
    enforced = {} if files.state is None else files.state.enforced
    notes = [*files.release.not_enforced, *(text for name, text in _ENFORCED.items() if enforced.get(name) == "no")]
    for note in notes[:MOST_EVENTS]:
        yield {"type": "Warning", "reason": "NotEnforced", "message": note}


def _keep_small(events: Sequence[Json], *, most_bytes: int) -> list[Json]:
    kept: list[Json] = []
    for event in events:
        most_bytes -= len(json.dumps(event)) + 2
        if most_bytes < 0:
            break
        kept.append(event)
    return kept
