"""What a supervisor has written about itself and its commands: the file `state.json` of its folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

T = TypeVar("T")

Phase = Literal["setup", "starting", "running", "restarting", "stopping", "ended"]
"""`setup`: a step runs. `starting`: main is being started. `running`: main was started; `is_ready` says the rest.
`restarting`: the pause before the next instance of main. `stopping`: a stop was requested, something still runs.
`ended`: nothing runs any more, and every byte of output is in the logs."""

STATE_FILE = "state.json"
LOG_FOLDER = "log"
LARGEST_STATE_BYTES = 1 << 20
"""How much of a state file is read; a larger one is treated as damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a supervision ended other than by the end of main.

    `code`: `mount.impossible`, `user.impossible`, `start.failed`, `step.failed` or `supervisor.lost`.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One execution of a command."""

    command: str
    instance: int
    """0, 1 … for each command."""
    pid: int
    started_at: datetime
    ended_at: datetime | None = None
    """None: it runs, or its output is still being read."""
    exit_code: int | None = None
    """None also if a signal ended it, or if the end was not observed."""
    signal: int | None = None
    is_out_of_memory: bool = False
    peak_bytes: int | None = None
    log_bytes: int = 0
    """In the log file; known after the end."""
    dropped_bytes: int = 0
    """Output beyond the limit of the log, or that a full disk did not take; known after the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of a supervision. `version` grows with every change."""

    version: int
    phase: Phase
    mark: str
    """Random; every process of the supervision has it in its environment as RUNYARD_SUPERVISION."""
    message: str | None = None
    is_ready: bool = False
    is_stop_requested: bool = False
    ports: Mapping[int, int] = field(default_factory=dict)
    """Host ports of the current instance of main, by port of the plan."""
    cgroup: str | None = None
    """Of the instance that runs: its directory in the memory hierarchy, or in the unified one."""
    enforced: Mapping[str, str] = field(default_factory=dict)
    """How bounds hold: `memory`, `cpu`, `processes`: "cgroup v2", "cgroup v1", "watchdog" (memory), "no";
    `mounts`: "mount namespace", "user namespace", "no". Only what the plan asks for is listed."""
    supervisor_pid: int | None = None
    """None: no command was started yet. Without a supervisor, another folder may then safely run the same plan."""
    supervisor_start_time: int | None = None
    """In clock ticks since boot: pid and start time name a process whatever pids are reused."""
    instances: tuple[Instance, ...] = ()
    """The newest last; at most 50."""
    termination: str | None = None
    """What the last instance of main left in the termination file."""
    failure: Failure | None = None

    @property
    def is_ended(self) -> bool:
        """Nothing of the supervision runs any more."""
        return self.phase == "ended"


def read_state(folder: Path) -> State | None:
    """Return the state of a supervision; None if it has none or the file is damaged."""
    raw = read_raw_state(folder)
    try:
        return None if raw is None else _decode_state(raw)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError):
        return None


def read_raw_state(folder: Path) -> dict[str, Any] | None:
    """Return the state file as it is; None if missing, larger than `LARGEST_STATE_BYTES` or not JSON."""
    try:
        with (folder / STATE_FILE).open("rb") as file:
            content = file.read(LARGEST_STATE_BYTES + 1)
        raw = json.loads(content) if len(content) <= LARGEST_STATE_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    return raw if isinstance(raw, dict) else None


def log_path(folder: Path, command: str, instance: int) -> Path:
    """Return where the output of an instance is: raw bytes of stdout and stderr, in order."""
    return folder / LOG_FOLDER / f"{command}.{instance}"


def _decode_state(raw: dict[str, Any]) -> State:
    supervisor = raw.get("supervisor") or {}
    failure = raw.get("failure")
    if raw["phase"] not in get_args(Phase):
        raise ValueError("not a phase")
    return State(
        version=int(raw["version"]),
        phase=raw["phase"],
        mark=str(raw["mark"]),
        message=_read_optional(raw, "message", str),
        is_ready=bool(raw.get("is_ready")),
        is_stop_requested=bool(raw.get("is_stop_requested")),
        ports={int(port): int(host) for port, host in (raw.get("ports") or {}).items()},
        cgroup=_read_optional(raw, "cgroup", str),
        enforced=dict(raw.get("enforced") or {}),
        supervisor_pid=_read_optional(supervisor, "pid", int),
        supervisor_start_time=_read_optional(supervisor, "start_time", int),
        instances=tuple(_decode_instance(each) for each in raw.get("instances") or ()),
        termination=_read_optional(raw, "termination", str),
        failure=None if failure is None else Failure(code=str(failure["code"]), message=str(failure["message"])),
    )


def _decode_instance(raw: dict[str, Any]) -> Instance:
    ended_at = raw.get("ended_at")
    return Instance(
        command=str(raw["command"]),
        instance=int(raw["instance"]),
        pid=int(raw["pid"]),
        started_at=datetime.fromtimestamp(raw["started_at"], UTC),
        ended_at=None if ended_at is None else datetime.fromtimestamp(ended_at, UTC),
        exit_code=_read_optional(raw, "exit_code", int),
        signal=_read_optional(raw, "signal", int),
        is_out_of_memory=bool(raw.get("is_out_of_memory")),
        peak_bytes=_read_optional(raw, "peak_bytes", int),
        log_bytes=int(raw.get("log_bytes") or 0),
        dropped_bytes=int(raw.get("dropped_bytes") or 0),
    )


def _read_optional(raw: dict[str, Any], name: str, kind: type[T]) -> T | None:
    """Return a field of that type, or None; raises TypeError. Without root, commands can write to the file."""
    value = raw.get(name)
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} is not a {kind.__name__}")
    return value
