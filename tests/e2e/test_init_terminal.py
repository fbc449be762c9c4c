"""`runyard init` at a terminal: its questions, and Ctrl-C."""

import os
import sys
from pathlib import Path

from runyard.spec.run_documents import read_run_file
from runyard.spec.yaml.loader import load_document
from tests.e2e.terminals import open_terminal

RUNYARD = str(Path(sys.executable).parent / "runyard")
ENVIRONMENT = {**os.environ, "TERM": "xterm-256color"}


def test_file_has_the_answers_when_a_person_gave_them(tmp_path: Path) -> None:
    with open_terminal([RUNYARD, "init", "--gpu", "1"], folder=tmp_path, environment=ENVIRONMENT) as terminal:
        for question, answer in (
            (r"What runs \(python, container\) \[container\]: ", ""),
            (r"To do what \(job, serve, deploy\) \[job\]: ", "serve"),
            (r"Image .*: ", "registry.example.org/model:1"),
            (r"Program and arguments .*: ", "python -m model --port 8080"),
            (r"Profile .*: ", ""),
            (r"CPU cores \[500m\]: ", "lots"),
            (r"error: resources.cpu: (?s:.*)CPU cores \[500m\]: ", "2"),
            (r"Memory \[512Mi\]: ", "8Gi"),
        ):
            terminal.read_until(question)
            terminal.type(f"{answer}\r")
        terminal.read_until(r"written: run.yaml(?s:.*)next: `runyard explain -f run.yaml`")
        assert terminal.wait() == 0
    run = read_run_file(load_document((tmp_path / "run.yaml").read_bytes()).data)
    assert (run.kind, run.action, run.fields.image) == ("container", "serve", "registry.example.org/model:1")
    assert run.fields.command == ("python", "-m", "model", "--port", "8080")
    assert load_document((tmp_path / "run.yaml").read_bytes()).data["resources"] == {
        "cpu": "2",
        "mem": "8Gi",
        "gpu": "1",
    }


def test_nothing_is_written_when_ctrl_c_is_pressed_at_a_question(tmp_path: Path) -> None:
    with open_terminal([RUNYARD, "init"], folder=tmp_path, environment=ENVIRONMENT) as terminal:
        terminal.read_until("What runs .*: ")
        terminal.type("\x03")
        terminal.read_until("\n")
        assert terminal.wait() == 130
    assert list(tmp_path.iterdir()) == []
