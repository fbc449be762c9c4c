import os
import sys
import venv
from pathlib import Path

import pytest

from runyard.app.engine import EngineRefusal
from runyard.engines.local.virtual_environments.interpreters import MISSING_SECONDS, Interpreters

OWN = f"PYTHON3_{sys.version_info.minor}"


def write_program(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{content}\n")
    path.chmod(0o755)
    return path


def write_interpreter(path: Path, version: str, *, calls: Path | None = None) -> Path:
    answer = f'["{version}", "{path}", "{path.parent.parent}", "linux-x86_64"]'
    return write_program(path, f"{f'echo x >> {calls}; ' if calls else ''}echo '{answer}'")


def find(**environ: object) -> Interpreters:
    given = {name: str(value) for name, value in environ.items()}
    return Interpreters(environ={"PATH": "/nonexistent"} | given, own=Path("/nonexistent"))


def test_own_interpreter_is_found_when_its_version_is_asked_for() -> None:
    found = Interpreters().get(OWN)
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert found.prefix == Path(os.path.realpath(sys.base_prefix))
    assert not found.path.is_symlink()


def test_base_is_found_when_the_server_runs_in_a_virtual_environment(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    found = Interpreters(environ={"PATH": "/nonexistent"}, own=tmp_path / "venv/bin/python").get(OWN)
    assert found.prefix == Path(os.path.realpath(sys.base_prefix))
    assert not found.path.is_relative_to(tmp_path)


def test_next_one_is_used_when_the_first_of_the_path_is_a_shim_that_starts_nothing(tmp_path: Path) -> None:
    write_program(tmp_path / "shims/python3.10", "echo 'pyenv: python3.10: command not found' >&2; exit 127")
    real = write_interpreter(tmp_path / "real/bin/python3.10", "3.10.99")
    assert find(PATH=f"{tmp_path}/shims:{tmp_path}/real/bin").get("PYTHON3_10").path == real


def test_liar_is_passed_over_when_its_version_is_another(tmp_path: Path) -> None:
    write_interpreter(tmp_path / "a/python3.10", "3.9.1")
    write_program(tmp_path / "b/python3.10", "echo '{}'")
    write_program(tmp_path / "c/python3.10", "echo '[1, 2, 3, 4]'")
    with pytest.raises(EngineRefusal) as refused:
        find(PATH=f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/c").get("PYTHON3_10")
    assert refused.value.code == "python.missing"


@pytest.mark.parametrize(
    ("variable", "folder"),
    [
        ("PYENV_ROOT", "versions/{}"),
        ("UV_PYTHON_INSTALL_DIR", "cpython-{}-linux-x86_64-gnu"),
    ],
)
def test_newest_patch_release_is_used_when_pyenv_or_uv_installed_it(tmp_path: Path, variable: str, folder: str) -> None:
    for version in ("3.12.9", "3.12.10", "3.11.20"):
        write_interpreter(tmp_path / folder.format(version) / "bin/python3.12", version)
    assert find(**{variable: tmp_path}).get("PYTHON3_12").version == "3.12.10"


def test_refusal_lists_what_the_machine_has_when_the_version_is_missing(tmp_path: Path) -> None:
    for version in ("3.10.2", "3.11.3", "3.12.4"):
        write_interpreter(tmp_path / "bin" / f"python{version.rpartition('.')[0]}", version)
    with pytest.raises(EngineRefusal) as refused:
        find(PATH=tmp_path / "bin").get("PYTHON3_14")
    assert str(refused.value) == (
        "Python 3.14 is not installed on this machine, which has 3.10.2, 3.11.3 and 3.12.4; choose one of these as"
        " python_version, or ask an operator to install Python 3.14"
    )


def test_interpreter_is_run_once_when_it_is_asked_for_again(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    write_interpreter(tmp_path / "bin/python3.10", "3.10.2", calls=calls)
    interpreters = find(PATH=tmp_path / "bin")
    for _ in range(3):
        interpreters.get("PYTHON3_10")
    assert calls.read_text() == "x\n"


def test_version_is_searched_again_when_it_was_missing_for_a_while(tmp_path: Path) -> None:
    now = [0.0]
    interpreters = Interpreters(environ={"PATH": str(tmp_path)}, own=Path("/nonexistent"), clock=lambda: now[0])
    with pytest.raises(EngineRefusal, match="not installed on this machine, nor is any other; ask an operator"):
        interpreters.get("PYTHON3_10")
    write_interpreter(tmp_path / "python3.10", "3.10.2")
    with pytest.raises(EngineRefusal):
        interpreters.get("PYTHON3_10")
    now[0] += MISSING_SECONDS + 1
    assert interpreters.get("PYTHON3_10").version == "3.10.2"


def test_interpreter_is_searched_again_when_it_was_uninstalled(tmp_path: Path) -> None:
    first = write_interpreter(tmp_path / "a/python3.10", "3.10.2")
    write_interpreter(tmp_path / "b/python3.10", "3.10.3")
    interpreters = find(PATH=f"{tmp_path}/a:{tmp_path}/b")
    assert interpreters.get("PYTHON3_10").version == "3.10.2"
    first.unlink()
    assert interpreters.get("PYTHON3_10").version == "3.10.3"
