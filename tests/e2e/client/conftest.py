"""One server with the local engine for a file of tests, and its address in the environment."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import runyard as ry
from examples.demo.stage import end_runs
from runyard.cli.main import run as run_command
from tests.core_process import CoreProcess, run_core
from tests.unit.cli.conftest import Call, Called

ROOT = Path(__file__).parents[3]
RULES = ROOT / "examples" / "rules"
SECONDS = 120.0
PROGRAM = """
import time

def hello(name: str = "world") -> dict[str, str]:
    print(f"hello {name}")
    return {"greeting": f"hello {name}"}

def fail() -> None:
    print("before")
    raise ValueError("no luck")

def count(until: int, path: str) -> None:
    for number in range(until):
        print(f"line {number}", flush=True)
    while not __import__("os").path.exists(path):
        time.sleep(0.05)
    for number in range(until, 2 * until):
        print(f"line {number}", flush=True)

def sleep() -> None:
    print("sleeping", flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoreProcess]:
    folder = tmp_path_factory.mktemp("core")
    options = ("--engine", "local", "--profiles", str(RULES / "profiles"), "--policy", str(RULES / "policy.yaml"))
    try:
        with run_core(*options, folder=folder) as process:
            yield process
    finally:
        end_runs(folder / "data")


@pytest.fixture
def server(core: CoreProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Its address, which the environment names as well."""
    set_environment(monkeypatch, tmp_path)
    monkeypatch.setenv("RUNYARD_ENDPOINT", core.url)
    monkeypatch.setenv("RUNYARD_PROJECT", "demo")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    ry.set_client(None)
    yield core.url
    ry.set_client(None)


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """A command in this process."""

    def make_call(*arguments: str | Path, stdin: str | bytes = b"") -> Called:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        capfd.readouterr()
        code = run_command([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Called(code, captured.out, captured.err)

    return make_call


def set_environment(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """A user without any configuration."""
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "RUNYARD_CONTEXTS", "RUNYARD_CONTEXT", "RUNYARD_TOKEN", "RUNYARD_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("DHCORE_ENDPOINT", "DH_CONFIG", "DH_NAME", "RUNYARD_USER", "RUNYARD_PASSWORD", "RUNYARD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
