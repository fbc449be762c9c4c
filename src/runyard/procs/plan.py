"""What a supervisor is told to run. A plan holds secrets, so it is never on disk: it travels through a memfd."""

import marshal
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

LARGEST_PLAN_BYTES = 8 << 20
"""How large a plan may be, encoded: the supervisor keeps it in memory for restarts."""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class InvalidPlan(ValueError):
    """The plan cannot be run: the name of a command, or its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The user and groups that a command runs as. Another one than the supervisor's own needs root."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program and how it is started.

    `$(PORT_8080)` in `argv` and in the values of `env` becomes the host port that was chosen for port 8080 of the plan.
    """

    name: str
    """Names its log files, `log/<name>.<instance>`: letters, digits, `.`, `_` and `-`; unique in the plan."""
    argv: tuple[str, ...]
    """The program is searched in the PATH of `env`, as this command's identity and inside its mounts."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The whole environment: nothing is inherited. The supervisor adds `RUNYARD_SUPERVISION` only."""
    stdin: str | None = field(default=None, repr=False)
    """What it reads from its standard input, kept in memory only; None: nothing."""
    cwd: str = "/"
    message: str | None = None
    """What the state says while this command runs, such as "installing requirements"."""
    identity: Identity | None = None
    """None: the supervisor's own."""
    has_mounts: bool = True
    """False: this command does not get the plan's mounts. What is reachable or hidden is the same for all."""
    no_new_privileges: bool = True
    """Set-user-ID programs have no effect. False only for programs of the platform that need them (rootless podman)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """Something that the command finds at `target`, in a mount namespace of its own.

    The target need not exist: nothing is created on the file system of the machine for it.
    """

    target: str
    """An absolute path."""
    kind: Literal["bind", "tmpfs", "files"]
    """`bind`: the folder or file `source`. `tmpfs`: an empty folder in memory. `files`: `contents`, in memory only."""
    source: str | None = None
    """Of `bind`. Folders above it may belong to root only: it is opened before privileges are dropped."""
    sub_path: str | None = None
    """Below `source`, or one name of `contents`. Symbolic links in it are refused; a missing folder is created."""
    is_read_only: bool = False
    size_bytes: int | None = None
    """Of `tmpfs`. The content counts as memory of the command where a cgroup limits it."""
    contents: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of `files`: text by relative path. The mount is read-only, and the files belong to the command's identity."""
    mode: int | None = None
    """Of each file of `files` (default 0o644), or of the folder of `tmpfs` (default 0o1777)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a command with everything it starts; None: no bound. The state says how each is enforced."""

    memory_bytes: int | None = None
    cpu_millis: int | None = None
    processes: int | None = None
    """Processes and threads."""
    log_bytes: int | None = None
    """Of the log of one instance. Output beyond it is dropped and counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """When a service is ready: a TCP connection, or an HTTP GET that is answered with a status of 200 to 399."""

    port: int
    """A port of the plan; its host port on the loopback address is asked."""
    path: str | None = None
    """None: a TCP connection is enough."""
    initial_delay_seconds: float = 0
    period_seconds: float = 1
    timeout_seconds: float = 1
    success_threshold: int = 1
    failure_threshold: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Programs that act on a container which the main command only represents. No secrets: cleanup is stored on disk.

    They run as the supervisor's own user, outside of mounts and limits.
    """

    stop: tuple[str, ...] = ()
    """Ends it with grace, instead of SIGTERM to the process tree. `$(GRACE_SECONDS)` becomes the grace that is left."""
    inspect: tuple[str, ...] = ()
    """Prints `{"exit_code": 1, "signal": null, "oom": true, "peak_bytes": null}`; runs after main, before `cleanup`."""
    cleanup: tuple[str, ...] = ()
    """Removes it, whatever happened, after each instance; also after a supervisor was killed. Idempotent."""
    runtime_bytes: int = 0
    """Memory of the runtime's own processes, where only the watchdog limits a container's memory: it sees both."""
    started_path: str | None = None
    """A file that is there once the container runs; main is only starting before. None: main itself is enough."""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps that run once, in order, and then the main command, until it has ended or a stop is requested."""

    main: Command
    steps: tuple[Command, ...] = ()
    """A step that fails ends the supervision: failure `step.failed`."""
    is_restarted: bool = False
    """A service: main is started again whenever it ends. Back-off of 1 s, doubled up to 60 s; reset after 60 s."""
    retries: int = 0
    """A job: how often main is started again after it failed, with the same back-off."""
    grace_seconds: float = 30
    """Between SIGTERM and SIGKILL, for the whole process tree."""
    limits: Limits = Limits()
    """Of each instance of main."""
    step_limits: Limits = Limits()
    """Of each step."""
    mounts: tuple[Mount, ...] = ()
    reachable: tuple[str, ...] = ()
    """Files and folders that commands need although their identity may not search a folder above (`/root/…`).

    Such a folder above is covered by an empty one, in the mount namespace, in which they are mounted at their own path.
    Paths that are reachable anyway cost nothing.
    """
    hidden: tuple[str, ...] = ()
    """Folders that commands see empty, except for what `reachable` and `mounts` put below them."""
    ports: Mapping[int, int | None] = field(default_factory=dict)
    """Ports that main listens on, each with the host port to prefer; None: any. Chosen before each instance."""
    readiness: Readiness | None = None
    hooks: Hooks = Hooks()
    termination_path: str | None = None
    """A file in which main may leave a message; made anew for each instance, owned by its identity.

    The folder above it must exist; only its last 4096 bytes are read, and never through a symbolic link.
    """


def encode_plan(plan: Plan, state: dict[str, Any]) -> bytes:
    """Return the plan and the first state as the supervisor reads them; raises `InvalidPlan`.

    The supervisor is run by the same Python, so that marshal is safe; JSON would take more of its memory.
    """
    names = [command.name for command in (*plan.steps, plan.main)]
    wrong = [name for name in names if _NAME.fullmatch(name) is None]
    if wrong or len(set(names)) < len(names):
        raise InvalidPlan(f"names of commands must be unique file names: {', '.join(names)}")
    encoded = marshal.dumps((_to_plain(plan), state))
    if len(encoded) > LARGEST_PLAN_BYTES:
        raise InvalidPlan(f"a plan of {len(encoded)} bytes; at most {LARGEST_PLAN_BYTES}")
    return encoded


def _to_plain(value: Any) -> Any:
    """Return the same of built-in types only: marshal knows no subclasses."""
    if is_dataclass(value):
        return {each.name: _to_plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {_to_plain(key): _to_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(each) for each in value]
    if isinstance(value, str):
        return "".join(value)
    return value
