"""The life of a supervision: steps, then main, again if it is a service or may be retried, until the end or a stop."""

from __future__ import annotations

import marshal
import os
import sys
import time

from runyard.procs.supervisor import child, system
from runyard.procs.supervisor.failures import START_FAILED, STEP_FAILED, SUPERVISOR_LOST, Failed
from runyard.procs.supervisor.hooks import parse_inspection, run_hook
from runyard.procs.supervisor.instances import MOST_INSTANCES, Instance, remove_old_logs
from runyard.procs.supervisor.light import signal
from runyard.procs.supervisor.poll_loop import PollLoop
from runyard.procs.supervisor.ports import NoFreePort, Ports, substitute
from runyard.procs.supervisor.process_tree import find_start_time, read_boot_id
from runyard.procs.supervisor.readiness import Probe
from runyard.procs.supervisor.record import Record
from runyard.procs.supervisor.termination import make_termination_file, read_termination_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
"""Back-off between instances of main: doubled from the first pause, begun anew after an instance that ran as long."""
GRACE_PLACEHOLDER = "$(GRACE_SECONDS)"
"""Becomes the rest of the grace, in whole seconds, in the stop hook."""
LONGEST_OVERTIME_SECONDS = 10.0
"""How long the hook that stops a container may take beyond the grace, before everything is killed."""
UNKILLABLE_SECONDS = 10.0
"""After this time the state says that something cannot be killed: it hangs in the kernel."""
_KILL_PERIOD_SECONDS = 0.02
_START_PERIOD_SECONDS = 0.05
_REMOVAL_ATTEMPTS = 50


def supervise(folder: str, listeners: str, *, plan_descriptor: int, lock_descriptor: int) -> NoReturn:
    """Run the plan to its end; does not return."""
    os.set_inheritable(lock_descriptor, False)
    # Who started us may have left others open, such as the socket it listens on.
    os.closerange(max(plan_descriptor, lock_descriptor) + 1, child.MOST_DESCRIPTORS)
    os.umask(0o077)
    os.chdir("/")
    system.prctl(system.PR_SET_CHILD_SUBREAPER, 1)
    # The plan is in our memory: no other process of this user may read it, and no core dump may hold it.
    system.prctl(system.PR_SET_DUMPABLE, 0)
    with open(plan_descriptor, "rb") as file:
        file.seek(0)
        plan, state = marshal.loads(file.read())  # noqa: S302  # from `supervision.start`, through memory
    loop = PollLoop()
    Supervisor(folder, plan, Record(folder, listeners, state, loop), loop).run()
    os._exit(0)


class Supervisor:
    """Runs one plan. Each method below `run` is a part of its life, in order."""

    def __init__(self, folder: str, plan: dict[str, Any], record: Record, loop: PollLoop) -> None:
        self._folder = folder
        self._plan = plan
        self._record = record
        self._loop = loop
        self._ports = Ports()
        self._current: Instance | None = None
        self._has_children = False
        self._stop_deadline: float | None = None
        loop.add_signal(signal.SIGCHLD, self._reap)
        loop.add_signal(signal.SIGTERM, self._read_stop_request)

    def _is_stopping(self) -> bool:
        if self._record.is_gone and self._stop_deadline is None:
            self._stop_deadline = time.monotonic() + self._plan["grace_seconds"]
        return self._stop_deadline is not None

    def run(self) -> None:
        """Live: from the first state to the last."""
        pid = os.getpid()
        self._record.save(supervisor={"pid": pid, "start_time": find_start_time(pid)}, boot_id=read_boot_id())
        # Before anything is started: a state without a supervisor means that nothing was.
        self._record.flush()
        if os.path.exists(f"{self._folder}/stop"):
            self._read_stop_request()
        failure = None
        try:
            self._run_steps()
            self._run_main()
        except Failed as failed:
            failure = {"code": failed.code, "message": str(failed)}
        except Exception as error:  # noqa: BLE001  # whatever it is, the end must be known: see `errors`
            sys.excepthook(type(error), error, error.__traceback__)
            failure = {"code": SUPERVISOR_LOST, "message": f"the supervisor failed: {error}"}
        self._record.save(phase="ended", message=None, is_ready=False, cgroup=None, cgroups=[], failure=failure)
        self._record.finish()

    def _run_steps(self) -> None:
        for step in self._plan["steps"]:
            if self._is_stopping():
                return
            self._record.save(phase="setup", message=step["message"])
            instance = self._run_instance(step, 0, limits=self._plan["step_limits"])
            if instance.record["exit_code"] != 0 and not self._is_stopping():
                raise Failed(STEP_FAILED, f"{step['name']} {describe_end(instance.record)}")

    def _run_main(self) -> None:
        number, pause = 0, FIRST_PAUSE_SECONDS
        while not self._is_stopping():
            started = time.monotonic()
            instance = self._run_instance(self._fill_in(), number, limits=self._plan["limits"], is_main=True)
            number += 1
            has_succeeded = instance.record["exit_code"] == 0
            is_again = self._plan["is_restarted"] or (not has_succeeded and number <= self._plan["retries"])
            if self._is_stopping() or not is_again:
                return
            if time.monotonic() - started >= LONGEST_PAUSE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            message = f"main {describe_end(instance.record)}; starting again in {pause:g} s"
            self._record.save(phase="restarting", message=message, is_ready=False)
            self._loop.run_until(self._is_stopping, seconds=pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _fill_in(self) -> dict[str, Any]:
        """Return the main command with the host ports of its next instance."""
        main = self._plan["main"]
        identity = main["identity"]
        is_root = os.geteuid() == 0 if identity is None else identity["uid"] == 0
        try:
            ports = self._ports.choose(self._plan["ports"], is_root=is_root)
        except NoFreePort as error:
            raise Failed(START_FAILED, str(error)) from error
        self._record.state["ports"] = ports
        return {
            **main,
            "argv": [substitute(each, ports) for each in main["argv"]],
            "env": {name: substitute(value, ports) for name, value in main["env"].items()},
        }

    def _run_instance(
        self, command: dict[str, Any], number: int, *, limits: dict[str, Any], is_main: bool = False
    ) -> Instance:
        instance = Instance(
            command,
            number,
            folder=self._folder,
            loop=self._loop,
            runtime_bytes=self._plan["hooks"]["runtime_bytes"] if is_main and self._plan["hooks"]["inspect"] else None,
        )
        self._current = instance
        if is_main:
            self._record.save(phase="starting", message=command["message"], is_ready=False)
            self._make_termination_file(command)
        probe = None
        try:
            remove_old_logs(f"{self._folder}/log", self._record.state["instances"], limits["log_bytes"])
            self._has_children = True
            instance.start(self._plan, limits, self._record.state["mark"], is_stopping=self._is_stopping)
            self._record_start(instance, is_main=is_main)
            probe = self._open_probe() if is_main else None
            self._loop.run_until(lambda: instance.wait_status is not None or self._is_stopping())
            if self._is_stopping():
                self._stop(instance, uses_hook=is_main)
        finally:
            self._loop.cancel(self._look_for_start)
            if probe is not None:
                probe.close()
            self._end(instance, is_main=is_main)
        return instance

    def _record_start(self, instance: Instance, *, is_main: bool) -> None:
        state = self._record.state
        state["instances"] = [*state["instances"], instance.record][-MOST_INSTANCES:]
        state["cgroup"], state["cgroups"] = instance.cgroup.memory_path, instance.cgroup.paths
        if is_main:
            state["enforced"] = instance.enforced
            self._look_for_start()
        self._record.save()

    def _look_for_start(self) -> None:
        """Note that main runs, once the container that it represents does."""
        path = self._plan["hooks"]["started_path"]
        if path is not None and not os.path.exists(path):
            self._loop.call_later(_START_PERIOD_SECONDS, self._look_for_start)
        elif not self._is_stopping():
            self._record.save(
                phase="running", is_ready=self._record.state["is_ready"] or self._plan["readiness"] is None
            )

    def _open_probe(self) -> Probe | None:
        readiness = self._plan["readiness"]
        if readiness is None:
            return None
        port = self._record.state["ports"].get(readiness["port"], readiness["port"])
        identity = self._plan["main"]["identity"]
        is_container = bool(self._plan["hooks"]["inspect"])
        owner = None if is_container else os.geteuid() if identity is None else identity["uid"]
        return Probe(readiness, port, self._loop, lambda is_ready: self._record.save(is_ready=is_ready), owner=owner)

    def _stop(self, instance: Instance, *, uses_hook: bool) -> None:
        """End the process tree with grace, until the deadline, which a later request may bring forward.

        As in a container, the first process is told alone: it may end its children as it likes. What it leaves is told
        when it has ended.
        """
        self._record.save(phase="stopping", is_ready=False)
        hook = self._plan["hooks"]["stop"] if uses_hook else []
        if hook:
            grace = max(0.0, (self._stop_deadline or 0.0) - time.monotonic())
            argv = [each.replace(GRACE_PLACEHOLDER, str(int(-(-grace // 1)))) for each in hook]
            run_hook(self._loop, argv, self._plan["hooks"]["env"], seconds=None, is_over=self._is_overtime)
            self._loop.run_until(lambda: instance.wait_status is not None or self._is_overtime())
            return
        instance.signal_first(signal.SIGTERM)
        self._run_until_deadline(lambda: instance.wait_status is not None)
        instance.signal_tree(signal.SIGTERM)
        self._run_until_deadline(lambda: not self._has_children)

    def _run_until_deadline(self, condition: Callable[[], bool]) -> None:
        while not condition() and time.monotonic() < (self._stop_deadline or 0.0):
            self._loop.turn(max(0.0, (self._stop_deadline or 0.0) - time.monotonic()))

    def _is_overtime(self) -> bool:
        return time.monotonic() > (self._stop_deadline or 0.0) + LONGEST_OVERTIME_SECONDS

    def _end(self, instance: Instance, *, is_main: bool) -> None:
        """Leave nothing of an instance: end its tree, read its output, remove its cgroup, run the hooks."""
        hooks = self._plan["hooks"] if is_main else {"inspect": [], "cleanup": []}
        inspection = self._run_inspection(hooks) if instance.wait_status is not None else {}
        if hooks["cleanup"]:
            # Before the tree is killed: processes of the container runtime below us are not interrupted then.
            run_hook(self._loop, hooks["cleanup"], hooks["env"])
        self._kill_tree(instance)
        instance.finish()
        if not instance.record["is_out_of_memory"]:
            # If it is, the watchdog has killed the container runtime too, which cannot know how the container ended.
            instance.record.update(inspection)
        if is_main and self._plan["termination_path"] is not None:
            identity = instance.command["identity"]
            self._record.state["termination"] = read_termination_file(self._plan["termination_path"], identity)
        for _ in range(_REMOVAL_ATTEMPTS):
            if instance.remove_cgroup():
                break
            time.sleep(_KILL_PERIOD_SECONDS)
        self._current = None

    def _run_inspection(self, hooks: dict[str, Any]) -> dict[str, Any]:
        if not hooks["inspect"]:
            return {}
        return parse_inspection(run_hook(self._loop, hooks["inspect"], hooks["env"]))

    def _kill_tree(self, instance: Instance) -> None:
        """Kill until no child is left. Orphans are our children (subreaper), so that none escapes."""
        self._reap()
        pause = _KILL_PERIOD_SECONDS
        began: float | None = time.monotonic()
        while self._has_children:
            instance.kill_tree()
            if began is not None and time.monotonic() - began > UNKILLABLE_SECONDS:
                self._record.save(message="waiting for processes that cannot be killed: they hang in the kernel")
                began = None
            self._loop.turn(pause)
            self._reap()
            pause = min(1.0, pause * 1.5)

    def _make_termination_file(self, command: dict[str, Any]) -> None:
        path = self._plan["termination_path"]
        if path is None:
            return
        try:
            make_termination_file(path, command["identity"])
        except OSError as error:
            raise Failed(START_FAILED, f"cannot make the termination file: {error.strerror}") from error

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self._has_children = False
                return
            if pid == 0:
                self._has_children = True
                return
            if self._current is not None and pid == self._current.pid:
                self._current.note_end(status, usage.ru_maxrss * 1024)

    def _read_stop_request(self) -> None:
        grace = None
        try:
            with open(f"{self._folder}/stop", "rb") as file:
                grace = float(file.read(100))
        except (OSError, ValueError):
            pass  # A signal without a request: the plan's own grace.
        deadline = time.monotonic() + (self._plan["grace_seconds"] if grace is None else grace)
        is_first = self._stop_deadline is None
        self._stop_deadline = deadline if self._stop_deadline is None else min(self._stop_deadline, deadline)
        if is_first:
            self._record.save(is_stop_requested=True)


def describe_end(record: dict[str, Any]) -> str:
    """Return how an instance ended, in words."""
    if record["is_out_of_memory"]:
        return "ran out of memory"
    if record["signal"] is not None:
        return f"was ended by signal {record['signal']}"
    return f"exited with code {record['exit_code']}"
