"""What a supervisor costs, and what it survives."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from runyard.procs import Command, InvalidPlan, Limits, Mount, Plan, is_supervised, read_state, request_stop
from runyard.procs.plan import LARGEST_PLAN_BYTES
from runyard.procs.supervisor.process_tree import list_marked
from tests.unit.procs.lab import Lab, can_mount, read_log, shell, wait_for

ROOT = Path(__file__).parents[3]
SOURCE_ENV = {"PYTHONPATH": f"{ROOT}/src:{ROOT}", "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}


def read_resident_bytes(pid: int) -> int:
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


def test_memory_stays_small_when_a_supervisor_has_much_to_do(lab: Lab) -> None:
    script = "head -c 50000000 /dev/zero; for i in 1 2 3 4 5; do sleep 0.01; done; sleep 61"
    plan = Plan(main=shell(script), limits=Limits(memory_bytes=1 << 30, log_bytes=60_000_000))
    folder = lab.start(plan)
    lab.wait(folder, lambda state: state.phase == "running")
    wait_for(lambda: (folder / "log" / "main.0").stat().st_size == 50_000_000)
    assert read_resident_bytes(lab.pid(folder)) <= 12_000_000


def test_secrets_are_not_on_disk_when_a_plan_holds_some(lab: Lab) -> None:
    secret = "very-s3cret-of-tests"
    main = shell("test $TOKEN = $1; sleep 61", env={"TOKEN": secret})
    main = Command(name=main.name, argv=(*main.argv, "sh", secret), env=main.env)
    folder = lab.start(Plan(main=main))
    lab.wait(folder, lambda state: state.phase == "running")
    request_stop(folder)
    lab.wait(folder)
    files = [file for file in lab.folder.rglob("*") if file.is_file()]
    assert {file.name for file in files} >= {"state.json", "lock", "main.0"}
    assert [file for file in files if secret.encode() in file.read_bytes()] == []


def test_memory_of_a_supervisor_is_private_when_others_run_as_its_user(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("sleep 61")))
    lab.wait(folder, lambda state: state.phase == "running")
    pid = lab.pid(folder)
    assert Path(f"/proc/{pid}/mem").stat().st_uid == 0, "a process that is not dumpable belongs to root"


def test_output_is_whole_when_it_comes_fast(lab: Lab) -> None:
    size = 200_000_000
    folder, state = lab.run(Plan(main=shell(f"head -c {size} /dev/zero")), seconds=100)
    assert (folder / "log" / "main.0").stat().st_size == state.instances[0].log_bytes == size
    (folder / "log" / "main.0").unlink()


def test_lines_are_whole_and_in_order_when_a_command_ends_at_once(lab: Lab) -> None:
    folder, _ = lab.run(Plan(main=shell("seq 1 200000")))
    assert read_log(folder) == "".join(f"{number}\n" for number in range(1, 200_001))


def test_everything_is_ended_when_the_folder_is_removed(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("sleep 0.5; (setsid sleep 61 &) ; exit 1"), is_restarted=True))
    mark = lab.wait(folder, lambda state: state.phase == "running").mark
    # First moved: the supervisor may write into it while it is being removed.
    shutil.rmtree(folder.rename(folder.with_name("removed")))
    lab.reap(folder, seconds=40)
    assert list_marked(mark) == {}


def test_failure_says_why_when_the_log_folder_was_replaced(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("(setsid sleep 61 &); sleep 0.5; exit 1"), retries=1))
    mark = lab.wait(folder, lambda state: state.phase == "running").mark
    shutil.rmtree(folder / "log")
    (folder / "log").touch()
    state = lab.wait(folder)
    assert state.failure is not None
    assert state.failure.code == "start.failed"
    assert "Not a directory" in state.failure.message
    assert list_marked(mark) == {}


def test_plan_is_refused_when_it_is_too_large(lab: Lab) -> None:
    with pytest.raises(InvalidPlan, match="a plan of 83"):
        lab.start(Plan(main=shell("true", env={"LARGE": "x" * LARGEST_PLAN_BYTES})))
    assert not is_supervised(lab.folder / "one")


@pytest.mark.parametrize("name", ["", "../main", "a/b", ".hidden", "x" * 64])
def test_plan_is_refused_when_a_name_is_no_file_name(lab: Lab, name: str) -> None:
    with pytest.raises(InvalidPlan, match="names of commands"):
        lab.start(Plan(main=shell("true", name=name)))


def test_plan_is_refused_when_two_commands_share_a_name(lab: Lab) -> None:
    with pytest.raises(InvalidPlan, match="names of commands"):
        lab.start(Plan(steps=(shell("true"),), main=shell("true")))


def test_state_is_none_when_the_file_is_damaged(lab: Lab) -> None:
    folder = lab.folder / "damaged"
    folder.mkdir()
    for content in ("", "{", "[]", "{}", '{"version": 1}', '{"version": 1, "phase": "ended", "mark": "x", "ports": 3}'):
        (folder / "state.json").write_text(content)
        assert read_state(folder) is None, content


@pytest.mark.skipif(not can_mount(), reason="neither root nor user namespaces can mount here")
def test_command_goes_on_and_its_end_is_known_when_the_disk_was_full(lab: Lab) -> None:
    scenario = Path(__file__).with_name("full_disk_scenario.py")
    main = Command(name="main", argv=(sys.executable, str(scenario), "/mnt", str(lab.folder)), env=SOURCE_ENV)
    disk = Mount(target="/mnt", kind="tmpfs", size_bytes=96 * 1024)
    folder, state = lab.run(Plan(main=main, mounts=(disk,)), seconds=60)
    assert (read_log(folder), state.instances[0].exit_code) == ("as it should be\n", 0)
