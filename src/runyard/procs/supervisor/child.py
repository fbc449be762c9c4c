"""What a forked child does before it becomes the command: cgroup, mounts, identity, then exec."""

from __future__ import annotations

import os
import sys

from runyard.procs.supervisor import system
from runyard.procs.supervisor.failures import START_FAILED, USER_IMPOSSIBLE, Failed
from runyard.procs.supervisor.light import signal
from runyard.procs.supervisor.mounts import enter_mounts
from runyard.procs.supervisor.process_tree import MARK_NAME, list_limit_marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

MOST_DESCRIPTORS = 1 << 20
"""Inherited descriptors up to this number are closed; one by one before Linux 5.9."""
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
OUT_OF_MEMORY_SCORE = 500
"""If the machine itself runs out of memory, commands are killed before their supervisors and the server."""


def execute(
    command: dict[str, Any], *, mark: str, plan: dict[str, Any], output: int, report: int, cgroups: list[str]
) -> NoReturn:
    """Become the command. A failure is written to `report`, which exec closes; does not return."""
    try:
        _prepare(command, mark=mark, plan=plan, output=output, report=report, cgroups=cgroups)
    except Failed as failed:
        _report(report, "failure", failed.code, str(failed))
    except Exception as error:  # noqa: BLE001  # a forked child must not return into the supervisor's loop
        _report(report, "failure", START_FAILED, f"cannot start {command['name']}: {error}")
    os._exit(127)


def _prepare(
    command: dict[str, Any], *, mark: str, plan: dict[str, Any], output: int, report: int, cgroups: list[str]
) -> None:
    supervisor = os.getppid()
    _reset_signals()
    # At once, so that nothing of a supervisor that was killed is left: neither a child that hangs in a mount, nor the
    # lock by which the supervisor looks alive.
    system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
    _close_all_but(output, report)
    os.setsid()
    system.prctl(system.PR_SET_DUMPABLE, 1)
    for directory in cgroups:
        with open(f"{directory}/cgroup.procs", "w") as file:
            file.write("0")
    _raise_out_of_memory_score()
    _set_limit_mark(mark)
    os.umask(0o022)
    identity = _check_identity(command)
    # Before the mounts: they are the command's, and root opens nothing in them.
    stdin = _open_input(command["stdin"])
    note = enter_mounts(plan if command["has_mounts"] else {**plan, "mounts": []}, identity)
    if note is not None:
        _report(report, "note", "mounts", note)
    os.dup2(stdin, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    _drop_privileges(identity)
    # Again: the change of user has cleared it.
    system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(127)
    if command["no_new_privileges"]:
        system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)
    _enter(command["cwd"])
    _exec(command, mark)


def _open_input(text: str | None) -> int:
    """Return what the command reads: nothing, or a text that is in memory only."""
    if text is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(text.encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _close_all_but(*kept: int) -> None:
    first = 3
    for descriptor in sorted(kept):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, MOST_DESCRIPTORS)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _raise_out_of_memory_score() -> None:
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(OUT_OF_MEMORY_SCORE))
    except OSError:
        pass


def _set_limit_mark(mark: str) -> None:
    for value in list_limit_marks(mark):
        try:
            system.set_limit(system.RLIMIT_RTTIME, value)
        except OSError:
            continue
        return


def _check_identity(command: dict[str, Any]) -> dict[str, Any] | None:
    """Return the identity to change to; None if it is the supervisor's own."""
    identity: dict[str, Any] | None = command["identity"]
    if identity is None or (os.geteuid(), os.getegid()) == (identity["uid"], identity["gid"]) != (0, 0):
        return None
    if os.geteuid() != 0:
        raise Failed(
            USER_IMPOSSIBLE,
            f"cannot run as user {identity['uid']}, group {identity['gid']}: only root can change users, and this"
            f" server runs as user {os.geteuid()}, group {os.getegid()}",
        )
    return identity


def _drop_privileges(identity: dict[str, Any] | None) -> None:
    if identity is None:
        return
    uid, gid = identity["uid"], identity["gid"]
    try:
        os.setgroups(identity["groups"])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except (OSError, OverflowError) as error:
        raise Failed(USER_IMPOSSIBLE, f"cannot run as user {uid}, group {gid}: {error}") from error


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise Failed(START_FAILED, f"cannot enter the working directory {folder}: {error.strerror}") from error


def _exec(command: dict[str, Any], mark: str) -> None:
    """Search the program in the PATH of the command, as execvp(3) does.

    `os.execvpe` would import a module first, which the command's identity may not be able to read.
    """
    environment = {MARK_NAME: mark, **command["env"]}
    environment[MARK_NAME] = mark
    program = command["argv"][0]
    folders = environment.get("PATH", DEFAULT_PATH).split(":")
    candidates = [program] if "/" in program else [f"{folder or '.'}/{program}" for folder in folders]
    reason = "No such file or directory"
    for candidate in candidates:
        try:
            os.execve(candidate, command["argv"], environment)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            reason = error.strerror or str(error)
        except ValueError as error:
            raise Failed(START_FAILED, f"cannot start {program}: {error}") from error
    raise Failed(START_FAILED, f"cannot start {program}: {reason}")


def _report(descriptor: int, *fields: str) -> None:
    try:
        os.write(descriptor, ("\t".join(" ".join(each.split()) for each in fields) + "\n").encode(errors="replace"))
    except OSError:
        sys.exit(127)
