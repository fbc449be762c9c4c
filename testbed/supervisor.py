"""The first process of a cluster's namespaces: starts, reaps and stops its components.

Run as `python -m testbed.supervisor DIRECTORY`. It moves into new network, mount and process namespaces, and
the process that stays there is pid 1 of them: when it ends, for whatever reason, the kernel ends every process
inside (containerd's shims and the containers too), undoes every mount and removes every device and rule. That
is what makes `down` certain, also after a crash.

Until it reads `detach` on its standard input, the end of that input ends it: a killed `up` leaves nothing.
Afterwards it answers one JSON request per connection on DIRECTORY/control.sock.
"""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CONTROL_SOCKET = "control.sock"
IDENTITY_FILE = "supervisor.json"

_CLONE_NEWNS = 0x00020000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000

# Folders in which container runtimes and the kubelet leave things whatever their configuration says.
_EMPTY_FOLDERS = ("/run", "/var/log")
# Here they make folders of their own, which this machine may not have, beside things that are needed.
_COPIED_FOLDER = "/var/lib"
PRIVATE_FOLDERS = (*_EMPTY_FOLDERS, _COPIED_FOLDER)


def process_start_ticks(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot; None when there is none. Tells a reused pid."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def enter_namespaces() -> None:
    """Move into new namespaces. The process namespace begins with the next child."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")


def arrange_mounts() -> None:
    """Give the namespace its own /proc, and its own copies of the folders that get littered."""
    _run("mount", "--make-rprivate", "/")
    # Shared again, among the cluster's own processes only: mount propagation of pods needs it.
    _run("mount", "--make-rshared", "/")
    _run("mount", "-t", "proc", "proc", "/proc")
    for folder in _EMPTY_FOLDERS:
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    layers = Path("/run/testbed")
    for name in ("upper", "work"):
        (layers / name).mkdir(parents=True)
    options = f"lowerdir={_COPIED_FOLDER},upperdir={layers / 'upper'},workdir={layers / 'work'}"
    _run("mount", "-t", "overlay", "-o", options, "overlay", _COPIED_FOLDER)


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True)


class Supervisor:
    """Owns the components' processes; single-threaded, driven by one selector."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: dict[str, dict[str, Any]] = {}
        self._selector = selectors.DefaultSelector()
        self._detached = False

    def run(self) -> None:
        """Serve until told to shut down, or until standard input ends before `detach`."""
        wakeup_read, wakeup_write = socket.socketpair()
        for end in (wakeup_read, wakeup_write):
            end.setblocking(False)
        signal.set_wakeup_fd(wakeup_write.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._directory / CONTROL_SOCKET))
        listener.listen(16)
        self._selector.register(wakeup_read, selectors.EVENT_READ, "children")
        self._selector.register(listener, selectors.EVENT_READ, "control")
        self._selector.register(sys.stdin, selectors.EVENT_READ, "starter")
        _log("ready")
        while True:
            for key, _ in self._selector.select():
                if key.data == "children":
                    with contextlib.suppress(BlockingIOError):
                        wakeup_read.recv(4096)
                    self._reap()
                elif key.data == "starter":
                    self._read_starter()
                else:
                    self._serve(listener.accept()[0])

    def _read_starter(self) -> None:
        line = sys.stdin.readline()
        if line.strip() == "detach":
            self._detached = True
            self._selector.unregister(sys.stdin)
        elif not line:
            _log("the starter went away before the cluster was up: ending everything")
            raise SystemExit(1)

    def _reap(self) -> None:
        """Collect every dead child, adopted orphans included, and say so when it was a component."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for name, process in self._processes.items():
                if process["pid"] == pid and process["exit_code"] is None:
                    process["exit_code"] = os.waitstatus_to_exitcode(status)
                    process["ended_at"] = time.time()
                    if not process["stopping"]:
                        _log(f"{name} (pid {pid}) died with exit code {process['exit_code']}")

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        with connection, connection.makefile("rw") as channel:
            try:
                request = json.loads(channel.readline())
                answer = self._answer(request)
            except (OSError, ValueError, KeyError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            with contextlib.suppress(OSError):
                channel.write(json.dumps(answer) + "\n")
                channel.flush()

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        operation = request["operation"]
        if operation == "start":
            return {"pid": self._start(request["name"], request.get("argv"))}
        if operation == "signal":
            return {"signalled": self._signal(request["name"], int(request["signal"]))}
        if operation == "status":
            return {"processes": self._processes}
        raise ValueError(f"unknown operation {operation!r}")

    def _start(self, name: str, argv: list[str] | None) -> int:
        """Start a component, or the same one again where no command is given."""
        known = self._processes.get(name)
        if known and known["exit_code"] is None:
            raise ValueError(f"{name} is already running (pid {known['pid']})")
        if argv is None:
            if known is None:
                raise ValueError(f"{name} was never started; allowed: {', '.join(self._processes)}")
            argv = known["argv"]
        log = self._directory / "logs" / f"{name}.log"
        # Not Popen: its own bookkeeping of children would compete with ours for the exit codes.
        with log.open("ab") as output:
            pid = os.posix_spawn(
                argv[0],
                argv,
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
                    (os.POSIX_SPAWN_DUP2, output.fileno(), 2),
                ],
                setsid=True,
                setsigdef=[signal.SIGPIPE, signal.SIGCHLD],
            )
        self._processes[name] = {
            "pid": pid,
            "argv": argv,
            "exit_code": None,
            "stopping": False,
            "started_at": time.time(),
            "ended_at": None,
        }
        _log(f"started {name} (pid {pid})")
        return pid

    def _signal(self, name: str, number: int) -> bool:
        process = self._processes[name]
        if process["exit_code"] is not None:
            return False
        # A frozen component has not ended, and is not about to.
        process["stopping"] |= number not in (signal.SIGSTOP, signal.SIGCONT)
        os.kill(process["pid"], number)
        return True


def _log(text: str) -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stderr.write(f"{stamp} {text}\n")
    sys.stderr.flush()


def main() -> None:
    """Enter the namespaces, leave pid 1 of them behind, and end: the caller waits for nothing."""
    directory = Path(sys.argv[1])
    enter_namespaces()
    written_read, written_write = os.pipe()
    pid = os.fork()
    if pid:
        # Written by the parent: only out here is the pid the one that the rest of the machine knows.
        identity = {"pid": pid, "start_ticks": process_start_ticks(pid)}
        temporary = directory / f"{IDENTITY_FILE}.new"
        temporary.write_text(json.dumps(identity))
        temporary.rename(directory / IDENTITY_FILE)
        os.write(written_write, b"1")
        os._exit(0)
    # Not before it is written: both share the mounts, and a new /proc would hide the child from the parent.
    if not os.read(written_read, 1):
        raise SystemExit("the starter could not write the supervisor's identity")
    os.setsid()
    arrange_mounts()
    Supervisor(directory).run()


if __name__ == "__main__":
    main()
