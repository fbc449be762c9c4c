"""What happens when a supervisor is killed."""

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.procs import Hooks, Plan, end_leftovers, is_supervised, leftovers, read_state, request_stop
from runyard.procs.supervision import write_state
from runyard.procs.supervisor.process_tree import find_start_time, list_marked, send_signal
from tests.unit.procs.lab import PATH, Lab, shell, wait_for


def kill_supervisor(lab: Lab, folder: Path) -> None:
    os.kill(lab.pid(folder), signal.SIGKILL)
    lab.reap(folder)
    assert not is_supervised(folder)


def test_tree_is_gone_and_the_loss_recorded_when_a_supervisor_was_killed(lab: Lab) -> None:
    script = "(setsid sh -c 'trap \"\" TERM; sleep 61' &); setsid sleep 61 & sleep 61"
    folder = lab.start(Plan(main=shell(script)))
    state = lab.wait(folder, lambda state: state.phase == "running")
    wait_for(lambda: len(list_marked(state.mark)) >= 4)
    kill_supervisor(lab, folder)
    assert end_leftovers(folder)
    assert list_marked(state.mark) == {}
    ended = read_state(folder)
    assert ended is not None
    assert (ended.phase, ended.version > state.version, ended.cgroup) == ("ended", True, None)
    assert ended.failure is not None
    assert ended.failure.code == "supervisor.lost"
    assert ended.failure.message == "the supervisor was killed; everything it had started was ended"
    assert ended.instances[0].ended_at is not None
    assert ended.instances[0].exit_code is None
    assert state.cgroup is None or not Path(state.cgroup).exists()


def test_process_is_gone_when_it_left_with_an_empty_environment(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = lab.start(Plan(main=shell("(setsid env -i sleep 61 &); setsid env -i sleep 61 & echo left; sleep 61")))
    state = lab.wait(folder, lambda state: state.phase == "running")
    wait_for(lambda: len(list_marked(state.mark)) >= 4)
    # As on a machine without cgroups.
    monkeypatch.setattr(leftovers, "kill_cgroup", lambda _path: None)
    monkeypatch.setattr(leftovers, "list_cgroup_processes", lambda _paths: {})
    left = list_marked(state.mark)
    kill_supervisor(lab, folder)
    assert end_leftovers(folder)
    assert [pid for pid, start_time in left.items() if is_alive(pid, start_time)] == []


def is_alive(pid: int, start_time: int) -> bool:
    """Whether a process is there, and is no zombie."""
    return find_start_time(pid) == start_time and bool(Path(f"/proc/{pid}/cmdline").read_bytes())


def test_command_dies_with_its_supervisor_when_nobody_clears_up(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("exec sleep 61")))
    state = lab.wait(folder, lambda state: state.phase == "running")
    assert list_marked(state.mark) != {}
    kill_supervisor(lab, folder)
    wait_for(lambda: list_marked(state.mark) == {})


def test_cleanup_hook_runs_when_a_supervisor_was_killed(lab: Lab) -> None:
    trace = lab.folder / "trace"
    hooks = Hooks(cleanup=("sh", "-c", f"echo cleanup >> {trace}"), env={"PATH": PATH})
    folder = lab.start(Plan(main=shell("sleep 61"), hooks=hooks))
    lab.wait(folder, lambda state: state.phase == "running")
    kill_supervisor(lab, folder)
    end_leftovers(folder)
    end_leftovers(folder)
    assert trace.read_text() == "cleanup\n"


def test_nothing_is_done_when_the_supervisor_lives(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("sleep 61")))
    state = lab.wait(folder, lambda state: state.phase == "running")
    assert not end_leftovers(folder)
    assert is_supervised(folder)
    now = read_state(folder)
    assert now is not None
    # A supervisor that lives may write its state again, without news.
    assert replace(now, version=state.version) == state


def test_end_stays_as_it_was_when_a_supervision_had_ended(lab: Lab) -> None:
    folder, state = lab.run(Plan(main=shell("exit 3")))
    lab.reap(folder)
    assert end_leftovers(folder)
    assert read_state(folder) == state


def test_restart_of_the_machine_is_the_reason_when_it_was_restarted(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("sleep 61")))
    lab.wait(folder, lambda state: state.phase == "running")
    kill_supervisor(lab, folder)
    raw = json.loads((folder / "state.json").read_text())
    write_state(folder, {**raw, "boot_id": "another"})
    end_leftovers(folder)
    state = read_state(folder)
    assert state is not None
    assert state.failure is not None
    assert state.failure.message == "the machine was restarted"


def test_other_process_is_not_signalled_when_it_has_the_pid_of_a_supervisor(lab: Lab) -> None:
    other = os.posix_spawn("/bin/sleep", ["sleep", "61"], {})
    try:
        start_time = find_start_time(other)
        assert start_time is not None
        assert not send_signal(other, signal.SIGKILL, start_time=start_time + 1)
        assert not send_signal(other, signal.SIGKILL, start_time=None)
        folder = lab.start(Plan(main=shell("sleep 61")))
        lab.wait(folder, lambda state: state.phase == "running")
        raw = json.loads((folder / "state.json").read_text())
        write_state(folder, {**raw, "supervisor": {"pid": other, "start_time": start_time - 1}})
        request_stop(folder)
        assert os.waitpid(other, os.WNOHANG) == (0, 0)
        assert send_signal(other, signal.SIGKILL, start_time=start_time)
    finally:
        os.waitpid(other, 0)
    os.kill(lab.pid(folder), signal.SIGTERM)


def test_other_cgroups_stay_when_a_state_was_tampered_with(lab: Lab) -> None:
    other = lab.folder / "runyard-other-main.0"
    other.mkdir()
    folder = lab.start(Plan(main=shell("sleep 61")))
    lab.wait(folder, lambda state: state.phase == "running")
    kill_supervisor(lab, folder)
    raw = json.loads((folder / "state.json").read_text())
    write_state(folder, {**raw, "cgroups": [*raw["cgroups"], str(other)]})
    end_leftovers(folder)
    assert other.exists()


def test_original_goes_on_when_its_folder_was_copied(lab: Lab, tmp_path: Path) -> None:
    cleaned = tmp_path / "cleaned"
    hooks = Hooks(cleanup=("touch", str(cleaned)), env={"PATH": PATH})
    folder = lab.start(Plan(main=shell("sleep 61"), hooks=hooks))
    state = lab.wait(folder, lambda state: state.phase == "running")
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.new"))  # they are renamed at any moment
    assert end_leftovers(copy)
    ended = read_state(copy)
    assert ended is not None
    assert ended.failure is not None
    assert ended.failure.message == "the folder is a copy: its supervisor works elsewhere"
    assert list_marked(state.mark) != {}
    assert not cleaned.exists()
    assert is_supervised(folder)


def test_stop_is_obeyed_when_the_supervisor_was_stopped_by_a_signal(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("sleep 61")))
    lab.wait(folder, lambda state: state.phase == "running")
    os.kill(lab.pid(folder), signal.SIGSTOP)
    assert request_stop(folder)
    assert lab.wait(folder, seconds=30).is_stop_requested


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "odd"},
        {"phase": []},
        {"message": 5},
        {"instances": [{"command": "main", "instance": 0, "pid": 1, "started_at": 1e16}]},
        {"instances": [{"command": "main", "instance": 0, "pid": 1, "started_at": 1, "signal": "9"}]},
        {"failure": {"code": []}},
        {"supervisor": {"pid": "1"}},
    ],
)
def test_state_is_damaged_when_a_field_is_of_another_type(lab: Lab, change: dict[str, object]) -> None:
    folder, _ = lab.run(Plan(main=shell("true")))
    path = folder / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert read_state(folder) is None
