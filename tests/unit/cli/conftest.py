"""A call of the command line in this process: exit code, standard output, standard error."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from runyard.cli.main import run


@dataclass(frozen=True, slots=True)
class Called:
    code: int
    out: str
    err: str


Call = Callable[..., Called]


BUILT_IN_NOTE = (
    "note: answered offline, by the built-in policy alone: no server is configured; "
    "--endpoint http://localhost:8080 asks that of this machine\n"
)


def forget_servers(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make this user one who has no server configured."""
    monkeypatch.setenv("HOME", str(folder / "nobody"))
    for name in ("XDG_CONFIG_HOME", "RUNYARD_CONTEXTS", "RUNYARD_CONTEXT", "RUNYARD_ENDPOINT", "DHCORE_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    forget_servers(monkeypatch, tmp_path)

    def make_call(*arguments: str | Path, stdin: str | bytes = b"") -> Called:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Called(code, captured.out, captured.err)

    return make_call


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The examples of the contract, in the current folder: a run, a profile, a policy."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text("profile: 1xa100\nresources: {mem: 6Gi}\nimage: busybox:1.36\n")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/a100.yaml").write_text(
        "id: 1xa100\nname: One A100\ndescription: For training\n"
        "resources:\n  requests: {memory: 32Gi}\n  limits: {nvidia.com/gpu: 1}\nnode_selector: {gpu: a100}\n"
    )
    (tmp_path / "policy.yaml").write_text(
        "resources.mem: {default: 256Mi, max: 64Gi}\ntolerations: {allowed: [{key: spot}]}\n"
        "projects: {vision: {resources.mem: {max: 16Gi}}}\n"
    )
    return tmp_path
