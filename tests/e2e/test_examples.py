"""Every example does what its README says, without a server: `test_demo.py` runs them as runs."""

import json
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.guides import PROJECT_ROOT, follow, list_commands

EXAMPLES = PROJECT_ROOT / "examples"
READMES = sorted(EXAMPLES.glob("*/README.md"))


class Context:
    """What the launcher gives a handler as `context`, as far as the examples use it."""

    def __init__(self) -> None:
        self.metrics: dict[str, list[float]] = {}
        self.model: Any = None

    def log_metric(self, name: str, value: float) -> None:
        self.metrics.setdefault(name, []).append(value)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Context]:
    """The result of the training example, in a folder of its own."""
    folder = tmp_path_factory.mktemp("training")
    made = subprocess.run(
        [sys.executable, EXAMPLES / "training/make_readings.py"], capture_output=True, check=True, timeout=60
    )
    (folder / "readings.csv").write_bytes(made.stdout)
    context = Context()
    train = load("training/train.py", "train")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = train(context, folder / "readings.csv")
        return {**result, "model": result["model"].resolve()}, context


def load(path: str, handler: str) -> Any:
    return runpy.run_path(str(EXAMPLES / path))[handler]


def test_every_folder_has_a_readme_and_a_row_in_the_index_when_examples_are_listed() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {readme.parent.name for readme in READMES} == folders
    index = (EXAMPLES / "README.md").read_text()
    assert [name for name in folders if f"| [{name}]({name}/) |" not in index] == []


@pytest.mark.parametrize("readme", READMES, ids=[readme.parent.name for readme in READMES])
def test_every_command_answers_as_shown_when_it_is_pasted_from_a_readme(readme: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(EXAMPLES)
    follow(list_commands(readme.read_text()), folder=tmp_path)


def test_hello_greets_when_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert load("hello/hello.py", "hello")(name="Ada") == {"greeting": "hello Ada"}
    assert capsys.readouterr().out == "hello Ada\n"


def test_training_learns_when_it_is_called(trained: tuple[dict[str, Any], Context]) -> None:
    result, context = trained
    assert result["accuracy"] == 0.9583
    assert context.metrics["accuracy"] == [0.9583]
    losses = context.metrics["loss"]
    assert len(losses) == 10
    assert losses == sorted(losses, reverse=True)
    assert json.loads(result["model"].read_text())["states"] == ["failing", "healthy", "worn"]


@pytest.mark.parametrize(
    ("readings", "state"),
    [
        ({"temperature": 81.5, "vibration": 5.6, "pressure": 2.9}, "failing"),
        ({"temperature": 70.0, "vibration": 3.6, "pressure": 3.7}, "worn"),
        ({"temperature": 60.0, "vibration": 2.0, "pressure": 4.2}, "healthy"),
    ],
)
def test_served_model_tells_the_state_when_it_is_asked(
    trained: tuple[dict[str, Any], Context], readings: dict[str, float], state: str
) -> None:
    context = Context()
    load("serving/predict.py", "load")(context, trained[0]["model"])
    answer = load("serving/predict.py", "predict")(context, **readings)
    assert answer["state"] == state
    assert 0.5 < answer["probability"] <= 1


def test_memory_example_needs_some_85_mib_with_a_launcher_when_it_runs() -> None:
    program = (
        "import re, runpy, sys\n"
        "result = runpy.run_path(sys.argv[1])['find_nearest']()\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())\n"
        "print(int(peak[1]) // 1024, result['distance'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, EXAMPLES / "memory/nearest.py"], capture_output=True, text=True, timeout=60
    )
    peak_mib, distance = done.stdout.splitlines()[-1].split()
    # The launcher adds a few MiB. The demo begins with a limit of 70 MiB, and is then told to use 105.
    assert 66 <= int(peak_mib) <= 92
    assert float(distance) == 0.000379


def test_search_keeps_its_best_guess_when_it_is_stopped() -> None:
    program = (
        "import runpy, signal, sys\n"
        "def stop(*_): raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "runpy.run_path(sys.argv[1])['search'](pause_seconds=0.05)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-u", "-c", program, EXAMPLES / "stopping/search.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("guess 1: ")
        process.send_signal(signal.SIGTERM)
        lines = process.stdout.read().splitlines()
    assert lines[-1].startswith("stopped after ")
