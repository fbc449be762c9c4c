"""PID 1 of a container (an init process, as tini): forwards signals, reaps zombies, and ends as the launcher ended.

The kernel gives every orphan of a container to its PID 1 and ignores signals that PID 1 does not handle. User code that
is PID 1 itself would leave zombies of daemons, and could not tell them from its own children. So PID 1 forks at once,
before it imports anything large, and the child goes on as the launcher.

If the kernel kills the launcher because memory ran out, PID 1 survives with cgroup v1, and with v2 where the kubelet
does not end the whole group. It then notes the peak of memory, which otherwise nobody could read anymore.
"""

import importlib
import os
import signal
from contextlib import suppress
from pathlib import Path

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
INIT_VARIABLE = "RUNYARD_INIT_PID"
"""Tells the launcher that its parent belongs to the run, and so may be in its control group."""


def main() -> int:
    """Launch the run; as PID 1, in a child process. Returns the exit code."""
    if os.getpid() == 1:
        code = _supervise()
        if code is not None:
            return code
    launch = importlib.import_module(".program", __package__).main
    return int(launch())


def _supervise() -> int | None:
    """Fork. None in the child; in the parent, once the child ended, the exit code."""
    # Blocked before the fork, so that no signal is lost: the parent takes them from the kernel's queue.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*FORWARDED, signal.SIGCHLD))
    child = os.fork()
    if child == 0:
        os.environ[INIT_VARIABLE] = str(os.getppid())
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return None
    while True:
        number = signal.sigwait((*FORWARDED, signal.SIGCHLD))
        if number != signal.SIGCHLD:
            with suppress(ProcessLookupError):
                os.kill(child, number)
        status = _reap(child)
        if status is not None:
            return _end(os.waitstatus_to_exitcode(status))


def _reap(child: int) -> int | None:
    """Collect every process that has ended; the status of `child` if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = status


def _end(code: int) -> int:
    if code >= 0:
        return code
    # A launcher that was killed wrote nothing. Imported only now: PID 1 stays small.
    termination = importlib.import_module(".termination_log", __package__)
    settings = importlib.import_module(".launch_settings", __package__)
    peak = importlib.import_module(".memory_peak", __package__)
    path: Path | None = settings.find_termination_log(os.environ)
    if path is not None and path.is_file() and path.stat().st_size == 0:
        termination.write_termination(path, message=None, peak_bytes=peak.find_peak_bytes())
    return 128 - code
