"""What commands say while nothing else is to be shown: the state of the run, after a second and when it changes."""

import subprocess
import time

import pytest

import runyard as ry
from runyard.cli import state_notes
from tests.core_process import COMMAND, make_environment
from tests.e2e.client.conftest import SECONDS

SILENT = "import time\ndef main():\n    time.sleep(600)\n"


@pytest.fixture
def run(server: str) -> ry.Run:
    return ry.get_or_create_project("demo").new_function("silent", code=SILENT, handler="main").run()


@pytest.mark.parametrize("words", [("wait",), ("logs", "-f", "--container", "main")])
def test_state_is_told_when_a_command_waits_for_longer_than_a_second(run: ry.Run, words: tuple[str, ...]) -> None:
    run.wait(until="running", timeout=SECONDS)
    environment = make_environment({"RUNYARD_ENDPOINT": ry.get_client().endpoint, "RUNYARD_PROJECT": "demo"})
    with subprocess.Popen([*COMMAND, *words, run.id], stderr=subprocess.PIPE, text=True, env=environment) as command:
        assert command.stderr is not None
        first = command.stderr.readline()
        run.stop()
        rest = command.stderr.read().splitlines()
    assert first == f"note: run {run.id}: RUNNING\n"
    assert command.returncode == 3
    assert rest[-1].startswith(f"run {run.id}: STOPPED")
    assert first.strip() not in rest


def test_nothing_is_told_when_the_wait_is_over_sooner(
    run: ry.Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run.wait(until="running", timeout=SECONDS)
    with state_notes.note_states(run) as is_over:
        is_over.set()
    monkeypatch.setattr(state_notes, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(state_notes, "POLL_SECONDS", 0.01)
    with state_notes.note_states(run):
        deadline = time.monotonic() + SECONDS
        shown = ""
        while not shown:
            assert time.monotonic() < deadline
            shown = capsys.readouterr().err
            time.sleep(0.01)
    assert shown == f"note: run {run.id}: RUNNING\n"
    run.stop().wait(until="end", timeout=SECONDS)
    with state_notes.note_states(run) as is_over:
        assert not is_over.wait(0.2)
    assert capsys.readouterr().err == ""
