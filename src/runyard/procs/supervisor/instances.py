"""One execution of a command: forked, its output read, its end known, its process tree ended."""

from __future__ import annotations

import os
import time

from runyard.procs.supervisor import child
from runyard.procs.supervisor.cgroups import NAME_PREFIX, Cgroup, make_cgroup
from runyard.procs.supervisor.failures import START_FAILED, Failed
from runyard.procs.supervisor.light import signal
from runyard.procs.supervisor.memory_watchdog import MemoryWatchdog
from runyard.procs.supervisor.output import Output
from runyard.procs.supervisor.process_tree import list_descendants, send_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from runyard.procs.supervisor.poll_loop import PollLoop

MOST_INSTANCES = 50
"""Instances that the state lists; of older ones the log is removed too."""
MOST_LOG_SHARES = 4
"""The logs of a supervision may take this many times the limit of one; the oldest are removed."""
LARGEST_REPORT_BYTES = 16384
"""How much of what a child says before exec is kept."""


class Instance:
    """Starts in `start`; `wait_status` is set when its first process has ended."""

    def __init__(
        self, command: dict[str, Any], number: int, *, folder: str, loop: PollLoop, runtime_bytes: int | None = None
    ) -> None:
        """`runtime_bytes`: it represents a container, and this much of its tree's memory is not the container's."""
        self.command = command
        self._is_measured = runtime_bytes is None
        self._runtime_bytes = runtime_bytes or 0
        self.pid = 0
        self.wait_status: int | None = None
        self.notes: dict[str, str] = {}
        self.log_path = f"{folder}/log/{command['name']}.{number}"
        self.record: dict[str, Any] = {"command": command["name"], "instance": number, "pid": 0, "started_at": 0.0}
        self._loop = loop
        self._limits: dict[str, Any] = {}
        self._output: Output | None = None
        self._watchdog: MemoryWatchdog | None = None
        self._memory_event: int | None = None
        self._is_out_of_memory = False
        self._largest_resident = 0
        self._report = b""
        self.cgroup = Cgroup()
        self._report_reader: int | None = None

    def start(
        self, plan: dict[str, Any], limits: dict[str, Any], mark: str, *, is_stopping: Callable[[], bool]
    ) -> None:
        """Fork, and wait until the command was executed or could not be: then raise `Failed`. A stop ends the wait."""
        self._limits = limits
        self.cgroup = make_cgroup(f"{NAME_PREFIX}{mark}-{self.command['name']}.{self.record['instance']}", limits)
        try:
            self._output = output = Output(self.log_path, limit=limits["log_bytes"])
            reader, writer = os.pipe2(os.O_CLOEXEC)
            pid = os.fork()
        except OSError as error:
            raise Failed(START_FAILED, f"cannot start {self.command['name']}: {error.strerror}") from error
        if pid == 0:
            child.execute(
                self.command, mark=mark, plan=plan, output=output.writer, report=writer, cgroups=self.cgroup.paths
            )
        os.close(writer)
        os.close(output.writer)
        self.pid = pid
        self.record.update(pid=pid, started_at=time.time())
        self._report_reader = reader
        self._loop.add(reader, self._read_report)
        self._loop.add(output.reader, self._pump)
        self._loop.run_until(lambda: self._report_reader is None or is_stopping())
        self._check_report()
        limit = limits["memory_bytes"]
        if limit is not None and "memory" not in self.cgroup.limited:
            self._watchdog = MemoryWatchdog(limit + self._runtime_bytes, self._loop, self.kill_tree)
        self._memory_event = self.cgroup.open_memory_event()
        if self._memory_event is not None:
            self._loop.add(self._memory_event, self._end_out_of_memory)

    @property
    def enforced(self) -> dict[str, str]:
        """How each limit that was asked for is enforced, and the mounts."""
        found = dict(self.notes)
        for name, controller in (("memory", "memory"), ("cpu", "cpu"), ("processes", "pids")):
            field = {"memory": "memory_bytes", "cpu": "cpu_millis", "processes": "processes"}[name]
            if self._limits[field] is not None:
                found[name] = self.cgroup.limited.get(controller, "watchdog" if name == "memory" else "no")
        return found

    def note_end(self, status: int, largest_resident: int) -> None:
        """Its first process was waited for."""
        self.wait_status = status
        self._largest_resident = largest_resident

    def list_processes(self) -> dict[int, int]:
        """Return everything below the supervisor, and everything in the cgroup."""
        return {**self.cgroup.list_processes(), **list_descendants(os.getpid())}

    def signal_first(self, number: int) -> None:
        """Signal its first process, unless it has ended. It was not waited for, so its pid is its own."""
        if self.wait_status is None:
            os.kill(self.pid, number)

    def signal_tree(self, number: int) -> None:
        """Signal every process of the tree once."""
        send_signals(self.list_processes(), number)

    def kill_tree(self) -> None:
        """Kill what is there now. Stopped first, so that a fork bomb does not outrun the list."""
        self.cgroup.kill()
        processes = self.list_processes()
        send_signals(processes, signal.SIGSTOP)
        send_signals({**processes, **self.list_processes()}, signal.SIGKILL)

    def finish(self) -> None:
        """Read the rest of the output and complete the record; the tree has ended."""
        if self._report_reader is not None:
            self._close_report()
        if self._watchdog is not None:
            self._watchdog.close()
        self._close_memory_event()
        if self._output is not None:
            if not self._output.is_closed:
                self._loop.remove(self._output.reader)
                self._output.drain()
                self._output.close()
            self.record.update(log_bytes=self._output.written, dropped_bytes=self._output.dropped)
        self.record.update(ended_at=time.time(), **self._describe_end())

    def remove_cgroup(self) -> bool:
        """Remove the cgroup; False while the kernel still counts something in it."""
        return self.cgroup.remove()

    def _describe_end(self) -> dict[str, Any]:
        status = self.wait_status
        code = None if status is None else os.waitstatus_to_exitcode(status)
        is_exceeded = self._watchdog is not None and self._watchdog.is_exceeded
        is_out_of_memory = is_exceeded or self._is_out_of_memory or self.cgroup.is_out_of_memory()
        if is_out_of_memory and code == 0:
            # The kernel killed another process, and the first one ended before it could be ended too.
            code = -signal.SIGKILL
        cgroup_peak = self.cgroup.read_peak_bytes() if self._is_measured else None
        resident = self._largest_resident if self._is_measured else 0
        watched = max(0, self._watchdog.peak - self._runtime_bytes) if self._watchdog else 0
        return {
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "is_out_of_memory": is_out_of_memory,
            "peak_bytes": cgroup_peak or max(resident, watched) or None,
        }

    def _end_out_of_memory(self) -> None:
        """The kernel kills one process at the limit (cgroup v1). The others end too, as with cgroup v2."""
        self._is_out_of_memory = True
        self._close_memory_event()
        self.kill_tree()

    def _close_memory_event(self) -> None:
        if self._memory_event is not None:
            self._loop.remove(self._memory_event)
            os.close(self._memory_event)
            self._memory_event = None

    def _pump(self) -> None:
        if self._output is not None and not self._output.is_closed and not self._output.pump():
            self._loop.remove(self._output.reader)
            self._output.close()

    def _read_report(self) -> None:
        if self._report_reader is not None:
            content = os.read(self._report_reader, LARGEST_REPORT_BYTES)
            self._report = (self._report + content)[:LARGEST_REPORT_BYTES]
            if not content:
                self._close_report()

    def _close_report(self) -> None:
        if self._report_reader is not None:
            self._loop.remove(self._report_reader)
            os.close(self._report_reader)
            self._report_reader = None

    def _check_report(self) -> None:
        for line in self._report.decode(errors="replace").splitlines():
            kind, _, rest = line.partition("\t")
            name, _, text = rest.partition("\t")
            if kind == "failure":
                raise Failed(name, text)
            self.notes[name] = text


def remove_old_logs(folder: str, records: list[dict[str, Any]], log_bytes: int | None) -> None:
    """Make room for one more instance: remove the logs of instances that the state will not list, and the oldest.

    Raises `Failed` if the folder cannot be read.
    """
    listed = records[-(MOST_INSTANCES - 1) :]
    total = sum(each.get("log_bytes", 0) for each in listed)
    kept = set()
    for each in listed:
        if log_bytes is None or total <= log_bytes * (MOST_LOG_SHARES - 1):
            kept.add(f"{each['command']}.{each['instance']}")
        else:
            total -= each.get("log_bytes", 0)
    try:
        for name in os.listdir(folder):
            if name not in kept:
                os.unlink(f"{folder}/{name}")
    except OSError as error:
        raise Failed(START_FAILED, f"cannot prepare the logs: {error.strerror}") from error
