"""A supervisor starts commands, records how they end, and outlives whoever started it."""

import os
import signal
import socket
import time

import pytest

from runyard.procs import AlreadySupervised, Command, Limits, Plan, is_supervised, read_state, request_stop, start
from runyard.procs.supervisor.process_tree import list_marked
from tests.unit.procs.lab import Lab, read_log, shell, wait_for


def test_exit_code_and_output_are_recorded_when_a_command_ends(lab: Lab) -> None:
    folder, state = lab.run(Plan(main=shell("echo out; echo err >&2; exit 3")))
    (instance,) = state.instances
    assert (instance.command, instance.instance, instance.exit_code, instance.signal) == ("main", 0, 3, None)
    assert instance.ended_at is not None
    assert instance.ended_at >= instance.started_at
    assert read_log(folder) == "out\nerr\n"
    assert (instance.log_bytes, instance.dropped_bytes, state.failure) == (8, 0, None)


def test_signal_is_recorded_when_a_command_kills_itself(lab: Lab) -> None:
    _, state = lab.run(Plan(main=shell("kill -9 $$")))
    assert (state.instances[0].exit_code, state.instances[0].signal) == (None, signal.SIGKILL)


def test_environment_is_only_what_the_plan_says_when_a_command_starts(lab: Lab) -> None:
    folder, state = lab.run(
        Plan(main=Command(name="main", argv=("/usr/bin/env",), env={"A": "b c", "É": "ü"}, cwd="/"))
    )
    assert sorted(read_log(folder).splitlines()) == ["A=b c", f"RUNYARD_SUPERVISION={state.mark}", "É=ü"]


def test_nothing_else_is_open_when_a_command_starts(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.set_inheritable(True)
        script = "ls -l /proc/self/fd; ps -o sid= -p $$; echo $$; umask"
        folder, _ = lab.run(Plan(main=shell(script)))
    *descriptors, session, pid, mask = read_log(folder).splitlines()
    targets = [line.rsplit(" -> ")[1] for line in descriptors if " -> " in line]
    assert targets[0] == "/dev/null"
    assert targets[1] == targets[2]
    assert targets[1].startswith("pipe:")
    assert len(targets) == 4, "ls itself opens the fourth"
    assert (session.strip(), mask) == (pid, "0022")


def test_supervisor_is_supervised_from_the_first_moment_when_started(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("sleep 60")))
    assert is_supervised(folder)
    state = read_state(folder)
    assert state is not None
    assert state.phase == "setup"


def test_second_supervisor_is_refused_when_the_folder_has_one(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("sleep 60")))
    with pytest.raises(AlreadySupervised):
        start(folder, Plan(main=shell("true")), listeners=lab.listeners)


def test_second_supervisor_is_refused_when_the_folder_had_one(lab: Lab) -> None:
    folder, _ = lab.run(Plan(main=shell("true")))
    lab.reap(folder)
    with pytest.raises(AlreadySupervised):
        start(folder, Plan(main=shell("true")), listeners=lab.listeners)


def test_command_goes_on_when_the_process_that_started_it_is_killed(lab: Lab) -> None:
    folder = lab.folder / "one"
    folder.mkdir()
    server = os.fork()
    if server == 0:
        try:
            start(folder, Plan(main=shell("sleep 0.5; echo done; exit 7")), listeners=lab.listeners)
            time.sleep(60)
        finally:
            os._exit(1)
    wait_for(lambda: (state := read_state(folder)) is not None and state.supervisor_pid is not None)
    os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)
    state = lab.wait(folder)
    assert state.instances[0].exit_code == 7
    assert read_log(folder) == "done\n"


def test_stop_ends_a_command_with_grace_when_requested(lab: Lab) -> None:
    script = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    folder = lab.start(Plan(main=shell(script)))
    wait_for(lambda: (folder / "log" / "main.0").exists() and "ready" in read_log(folder))
    assert request_stop(folder)
    state = lab.wait(folder)
    assert (state.is_stop_requested, state.instances[0].exit_code) == (True, 5)
    assert read_log(folder).endswith("bye\n")
    lab.reap(folder)
    assert not request_stop(folder)


def test_stop_is_obeyed_when_requested_before_the_supervisor_runs(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("sleep 60")))
    request_stop(folder)
    assert lab.wait(folder).is_stop_requested


def test_kill_follows_the_grace_when_a_command_ignores_a_stop(lab: Lab) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    folder = lab.start(Plan(main=shell(script), grace_seconds=0.5))
    wait_for(lambda: (folder / "log" / "main.0").exists() and "ready" in read_log(folder))
    began = time.monotonic()
    request_stop(folder)
    assert lab.wait(folder).instances[0].signal == signal.SIGKILL
    assert 0.4 < time.monotonic() - began < 20


def test_grace_is_shortened_when_a_second_stop_asks_for_it(lab: Lab) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    folder = lab.start(Plan(main=shell(script), grace_seconds=60))
    wait_for(lambda: (folder / "log" / "main.0").exists() and "ready" in read_log(folder))
    request_stop(folder)
    lab.wait(folder, lambda state: state.phase == "stopping")
    request_stop(folder, grace_seconds=0)
    assert lab.wait(folder, seconds=30).instances[0].signal == signal.SIGKILL


@pytest.mark.parametrize(
    "script",
    [
        "sleep 61 & sleep 61 & wait",
        "setsid sleep 61 & wait",
        "(setsid sh -c 'sleep 61 & exec sleep 61' &) ; sleep 61",
        "trap '' TERM; (trap '' TERM; setsid sh -c 'while :; do sleep 0.1; done' &); while :; do sleep 0.1; done",
    ],
    ids=["children", "another-session", "double-fork", "ignores-the-signal"],
)
def test_whole_tree_is_gone_when_a_stop_has_ended(lab: Lab, script: str) -> None:
    folder = lab.start(Plan(main=shell(f"{script}"), grace_seconds=0.3))
    mark = lab.wait(folder, lambda state: state.phase == "running").mark
    wait_for(lambda: len(list_marked(mark)) >= 2)
    request_stop(folder)
    lab.wait(folder)
    assert list_marked(mark) == {}


def test_tree_is_ended_and_output_kept_when_a_grandchild_holds_the_pipe(lab: Lab) -> None:
    said = lab.folder / "said"
    child = f"trap '' TERM; echo child; touch {said}; sleep 61"
    script = f'(setsid sh -c "{child}" &); until [ -e {said} ]; do sleep 0.05; done; echo main; exit 4'
    folder, state = lab.run(Plan(main=shell(script)), seconds=30)
    assert state.instances[0].exit_code == 4
    assert read_log(folder) == "child\nmain\n"
    assert list_marked(state.mark) == {}


def test_command_goes_on_when_it_closes_its_output(lab: Lab) -> None:
    _, state = lab.run(Plan(main=shell("exec >&- 2>&-; sleep 0.3; exit 6")))
    assert state.instances[0].exit_code == 6


def test_steps_run_once_in_order_when_a_plan_has_some(lab: Lab) -> None:
    trace = lab.folder / "trace"
    steps = tuple(shell(f"echo {name} >> {trace}", name=name, message=f"doing {name}") for name in ("one", "two"))
    _, state = lab.run(Plan(steps=steps, main=shell(f"echo main >> {trace}; exit 1"), retries=1))
    assert trace.read_text().split() == ["one", "two", "main", "main"]
    assert [(each.command, each.instance) for each in state.instances] == [
        ("one", 0), ("two", 0), ("main", 0), ("main", 1),
    ]  # fmt: skip


def test_main_is_not_started_when_a_step_fails(lab: Lab) -> None:
    steps = (shell("echo why; exit 9", name="setup"),)
    folder, state = lab.run(Plan(steps=steps, main=shell("echo main")))
    assert state.failure is not None
    assert (state.failure.code, state.failure.message) == ("step.failed", "setup exited with code 9")
    assert [each.command for each in state.instances] == ["setup"]
    assert read_log(folder, "setup") == "why\n"


def test_failure_says_why_when_a_program_does_not_exist(lab: Lab) -> None:
    _, state = lab.run(Plan(main=Command(name="main", argv=("no-such-program",), env={"PATH": "/usr/bin"})))
    assert state.failure is not None
    assert state.failure.code == "start.failed"
    assert state.failure.message == "cannot start no-such-program: No such file or directory"


def test_failure_says_why_when_the_working_directory_does_not_exist(lab: Lab) -> None:
    _, state = lab.run(Plan(main=shell("true", cwd="/no/such/folder")))
    assert state.failure is not None
    assert state.failure.code == "start.failed"
    assert state.failure.message == "cannot enter the working directory /no/such/folder: No such file or directory"


def test_service_is_started_again_when_it_ends(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("echo again; exit 0"), is_restarted=True))
    state = lab.wait(folder, lambda state: len(state.instances) >= 2)
    assert state.instances[1].started_at.timestamp() - state.instances[0].started_at.timestamp() >= 0.9
    request_stop(folder)
    assert lab.wait(folder).failure is None


def test_output_beyond_the_limit_is_counted_when_a_command_prints_more(lab: Lab) -> None:
    script = "head -c 3000000 /dev/zero"
    folder, state = lab.run(Plan(main=shell(script), limits=Limits(log_bytes=1_000_000)))
    instance = state.instances[0]
    assert (instance.exit_code, instance.log_bytes, instance.dropped_bytes) == (0, 1_000_000, 2_000_000)
    assert (folder / "log" / "main.0").stat().st_size == 1_000_000
