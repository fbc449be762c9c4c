import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from runyard.app.engine import EngineRefusal
from runyard.engines.local.virtual_environments.environment_setup import IDLE_SECONDS, READY
from runyard.engines.local.virtual_environments.environments import (
    LONGEST_FAILURE_BYTES,
    MOST_ENVIRONMENTS,
    Environment,
    choose_environment,
    describe_failure,
    find_uv,
    get_uv,
    is_ready,
    list_setup_paths,
    plan_setup,
)
from runyard.engines.local.virtual_environments.interpreters import Interpreter, Interpreters
from runyard.engines.local.virtual_environments.package_index import read_index_variables
from runyard.procs import Identity
from tests.unit.launcher.interpreters import find_interpreter

FOUND_UV = find_uv()
NOBODY = 65534
INSTALLED = [minor for minor in range(10, 15) if find_interpreter(f"3.{minor}") is not None]
needs_uv = pytest.mark.skipif(FOUND_UV is None, reason="uv is not installed")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run the step as another user")
UV = FOUND_UV or Path("uv")
OWN = f"PYTHON3_{sys.version_info.minor}"


def write_wheel(folder: Path, name: str, *, requires: str = "", code: str = "WORKS = True") -> None:
    """A wheel with one module, as small as a wheel can be."""
    info = f"{name}-1.0.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{f'Requires-Dist: {requires}' if requires else ''}\n"
    )
    files = {
        f"{name}.py": code,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for path, content in (files | {f"{info}/RECORD": record}).items():
            wheel.writestr(path, content)


class Lab:
    """The folders of one project, and an index of two wheels that needs no network."""

    def __init__(self, folder: Path) -> None:
        self.environments = folder / "environments"
        self.cache = folder / "cache"
        self.wheels = folder / "wheels"
        for path in (self.environments, self.cache):
            path.mkdir()
        write_wheel(self.wheels, "liba", requires="libb")
        write_wheel(self.wheels, "libb")
        self.interpreters = Interpreters()
        self.index: Mapping[str, str] = {"UV_OFFLINE": "1", "UV_FIND_LINKS": str(self.wheels)}

    def choose(self, *requirements: str, python_version: str = OWN) -> Environment:
        return choose_environment(self.environments, self.interpreters.get(python_version), requirements)

    def start(self, environment: Environment, *, uv: Path = UV, in_use: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        command = plan_setup(environment, uv=uv, cache_folder=self.cache, index_variables=self.index, in_use=in_use)
        return subprocess.Popen(
            command.argv,
            env=dict(command.env),
            cwd=command.cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def build(self, environment: Environment, *, in_use: tuple[str, ...] = ()) -> str:
        process = self.start(environment, in_use=in_use)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        return output

    def age(self, environment: Environment, seconds: float) -> None:
        at = time.time() - seconds
        os.utime(environment.folder / READY, (at, at))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users reach: the folders above `tmp_path` are for their owner only."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def write_slow_uv(path: Path, *, begun: Path, go_on: Path) -> Path:
    """A uv that tells when it is about to install, and waits for a word."""
    wait = f"touch {begun}; until [ -e {go_on} ]; do sleep 0.05; done"
    path.write_text(f'#!/bin/sh\nif [ "$1" = pip ]; then {wait}; fi\nexec {UV} "$@"\n')
    path.chmod(0o755)
    return path


def ask(environment: Environment, code: str) -> str:
    return subprocess.run([environment.python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@needs_uv
def test_requirements_are_importable_when_the_environment_is_built(lab: Lab) -> None:
    environment = lab.choose("liba")
    assert not is_ready(environment)
    output = lab.build(environment)
    assert is_ready(environment)
    assert "creating a virtual environment with Python" in output
    assert "installing 1 requirement\n" in output
    assert "Installed 2 packages" in output
    assert ask(environment, "import liba, libb; print(liba.WORKS, libb.WORKS)") == "True True"
    assert Path(ask(environment, "import sys; print(sys.prefix)")) == environment.folder
    assert list(environment.folder.rglob("__pycache__/liba.*.pyc"))


@needs_uv
@pytest.mark.parametrize("minor", INSTALLED)
def test_interpreter_is_that_of_the_function_when_the_machine_has_it(lab: Lab, minor: int) -> None:
    environment = lab.choose("libb", python_version=f"PYTHON3_{minor}")
    lab.build(environment)
    assert ask(environment, "import sys, libb; print(sys.version_info.minor)") == str(minor)


@needs_uv
def test_environment_is_empty_when_there_are_no_requirements(lab: Lab) -> None:
    environment = lab.choose()
    output = lab.build(environment)
    assert "installing" not in output
    assert ask(environment, "print(1)") == "1"


@needs_uv
def test_nothing_is_built_when_another_process_built_it(lab: Lab) -> None:
    environment = lab.choose("libb")
    lab.build(environment)
    assert lab.build(environment) == "the environment is ready\n"


@needs_uv
def test_one_process_builds_when_two_start_at_once(lab: Lab) -> None:
    environment = lab.choose("liba")
    processes = [lab.start(environment) for _ in range(3)]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert sum("creating a virtual environment" in output for output in outputs) == 1
    assert sum(output.endswith("the environment is ready\n") for output in outputs) == 2
    assert ask(environment, "import liba; print(liba.WORKS)") == "True"


@needs_uv
def test_environment_is_built_anew_when_a_build_was_killed_in_the_middle(lab: Lab, tmp_path: Path) -> None:
    environment = lab.choose("liba")
    begun = tmp_path / "begun"
    process = lab.start(environment, uv=write_slow_uv(tmp_path / "slow-uv", begun=begun, go_on=tmp_path / "never"))
    assert process.stdout is not None
    while not begun.exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not is_ready(environment)
    (environment.folder / "half-written").touch()
    output = lab.build(environment)
    assert output.startswith("removing what an interrupted build left\n")
    assert is_ready(environment)
    assert not (environment.folder / "half-written").exists()
    assert ask(environment, "import liba; print(liba.WORKS)") == "True"


@needs_uv
def test_lock_is_held_until_uv_has_ended_when_only_its_parent_is_killed(lab: Lab, tmp_path: Path) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    slow = write_slow_uv(tmp_path / "slow-uv", begun=begun, go_on=go_on)
    environment = lab.choose("libb")
    command = plan_setup(environment, uv=slow, cache_folder=lab.cache, index_variables=lab.index)
    process = subprocess.Popen(command.argv, env=dict(command.env), stdout=subprocess.DEVNULL)
    while not begun.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    with lab.start(environment) as waiting:
        assert waiting.stdout is not None
        said = waiting.stdout.readline()
        go_on.touch()
        rest = waiting.stdout.read()
    assert (waiting.returncode, said) == (0, "waiting for another run that builds the same environment\n"), rest
    assert rest.startswith("removing what")
    assert ask(environment, "import libb; print(libb.WORKS)") == "True"


@needs_uv
def test_nothing_is_left_and_the_cause_is_shown_when_a_requirement_does_not_exist(lab: Lab) -> None:
    environment = lab.choose("no-such-package-of-runyard")
    process = lab.start(environment)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert not environment.folder.exists()
    assert not is_ready(environment)
    message = describe_failure(output.encode())
    assert message.startswith("the virtual environment could not be built:\ncreating a virtual environment")
    assert "no-such-package-of-runyard" in message


@needs_uv
@needs_root
def test_step_runs_as_the_user_of_the_project_when_the_server_is_root(public_folder: Path) -> None:
    lab = Lab(public_folder)
    for path in (lab.environments, lab.cache):
        os.chown(path, NOBODY, NOBODY)
    interpreter = next((one for one in _iter_reachable(lab.interpreters)), None)
    if interpreter is None:
        pytest.skip("no interpreter of this machine can be reached by another user without a mount namespace")
    uv = public_folder / "uv"
    shutil.copy(UV, uv)
    environment = choose_environment(lab.environments, interpreter, ["libb"])
    command = plan_setup(environment, uv=uv, cache_folder=lab.cache, index_variables=lab.index)
    done = subprocess.run(
        command.argv, env=dict(command.env), cwd="/", user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert is_ready(environment)
    assert (environment.folder / READY).stat().st_uid == NOBODY


def _iter_reachable(interpreters: Interpreters) -> Iterator[Interpreter]:
    for minor in range(10, 15):
        try:
            found = interpreters.get(f"PYTHON3_{minor}")
        except EngineRefusal:
            continue
        if all(parent.stat().st_mode & 0o001 for parent in found.path.parents):
            yield found
    system = Path("/usr/bin/python3")
    if system.exists():
        version = subprocess.run(
            [system, "-c", "import platform; print(platform.python_version())"], capture_output=True
        )
        yield Interpreter(
            version=version.stdout.decode().strip(), path=system.resolve(), prefix=Path("/usr"), platform="linux"
        )


def test_environment_is_the_same_when_requirements_are_in_another_order(lab: Lab) -> None:
    assert lab.choose("a", "b").key == lab.choose("b", "a", "a").key
    assert len({lab.choose("a").key, lab.choose("a==1").key, lab.choose().key}) == 3


def test_requirement_is_refused_when_it_is_an_option(lab: Lab) -> None:
    with pytest.raises(EngineRefusal, match="options are not supported"):
        lab.choose("--index-url=https://example.org")


@pytest.mark.parametrize("plant", ["link to a folder", "link to a file", "folder instead of a file", "file"])
def test_environment_is_not_ready_when_a_hostile_run_planted_something(lab: Lab, tmp_path: Path, plant: str) -> None:
    environment = lab.choose("libb")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / READY).touch()
    os.utime(elsewhere / READY, (1, 1))
    if plant == "link to a folder":
        environment.folder.symlink_to(elsewhere)
    elif plant == "file":
        environment.folder.touch()
    else:
        environment.folder.mkdir()
        if plant == "link to a file":
            (environment.folder / READY).symlink_to(elsewhere / READY)
        else:
            (environment.folder / READY).mkdir()
    assert not is_ready(environment)
    assert (elsewhere / READY).stat().st_mtime == 1


@needs_uv
def test_link_is_replaced_when_a_hostile_run_put_it_where_the_environment_belongs(lab: Lab, tmp_path: Path) -> None:
    environment = lab.choose("libb")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/precious").touch()
    environment.folder.symlink_to(tmp_path / "elsewhere")
    lab.build(environment)
    assert is_ready(environment)
    assert (tmp_path / "elsewhere/precious").exists()


@needs_uv
def test_least_recently_used_are_removed_when_there_are_too_many(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.engines.local.virtual_environments.environments.MOST_ENVIRONMENTS", 3)
    old, used, fresh, unused = (lab.choose(f"libb; '{n}' == '{n}'") for n in range(4))
    for environment in (old, used, fresh, unused):
        lab.build(environment)
    for environment, age in ((old, 30), (used, 40), (unused, 20)):
        lab.age(environment, IDLE_SECONDS * age)
    abandoned = lab.environments / ("0" * 64)
    abandoned.mkdir()
    os.utime(abandoned, (1, 1))
    lab.build(lab.choose("liba"), in_use=(used.key,))
    assert not old.folder.exists()
    assert not unused.folder.exists()
    assert not abandoned.exists()
    assert is_ready(used)
    assert is_ready(fresh)
    assert not (lab.environments / f"{old.key}.lock").exists()


@needs_uv
def test_environments_are_removed_when_they_are_too_large_together(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = lab.choose("libb"), lab.choose("liba")
    lab.build(first)
    lab.age(first, IDLE_SECONDS * 2)
    size = json.loads((first.folder / READY).read_text())["bytes"]
    assert size > 0
    monkeypatch.setattr("runyard.engines.local.virtual_environments.environments.LARGEST_ENVIRONMENTS_BYTES", size)
    lab.build(second)
    assert not first.folder.exists()
    assert is_ready(second)
    assert MOST_ENVIRONMENTS > 2


def test_step_gets_no_secret_of_the_server_when_it_is_planned(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNYARD_DATABASE_PASSWORD", "secret")
    command = plan_setup(lab.choose("libb"), uv=UV, cache_folder=lab.cache, index_variables=lab.index)
    assert command.name == "environment"
    assert command.env.keys() - lab.index.keys() == {
        *("HOME", "LANG", "NO_COLOR", "PATH", "UV_CACHE_DIR", "UV_NO_PROGRESS", "UV_PYTHON_DOWNLOADS")
    }
    assert command.argv[-1] == "libb"


def test_files_are_copied_without_a_warning_when_the_project_has_a_user_of_its_own(lab: Lab) -> None:
    """Its folders are then mounts of their own, between which nothing can be linked."""
    identity = Identity(uid=os.getuid(), gid=os.getgid())
    plan = partial(plan_setup, lab.choose("libb"), uv=UV, cache_folder=lab.cache, index_variables=lab.index)
    assert plan(identity=identity).env["UV_LINK_MODE"] == "copy"
    assert "UV_LINK_MODE" not in plan().env


def test_reachable_paths_are_those_of_interpreter_uv_and_index_when_the_step_is_planned(lab: Lab) -> None:
    environment = lab.choose("libb")
    assert environment.reachable[:2] == (str(lab.environments), str(environment.interpreter.prefix))
    assert list_setup_paths(UV, lab.cache, lab.index) == (str(UV), str(lab.cache), str(lab.wheels))


def test_uv_is_asked_for_when_the_machine_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert find_uv({"PATH": str(tmp_path)}) is None
    with pytest.raises(EngineRefusal, match=r"the server has no uv, .* install runyard\[local\]"):
        get_uv({"PATH": str(tmp_path)})
    (tmp_path / "uv").touch(mode=0o755)
    assert get_uv({"PATH": ""}) == tmp_path / "uv"


def test_message_has_the_last_lines_when_a_build_failed_with_much_output() -> None:
    log = b"".join(b"line %d \x1b[31mred\x1b[0m\x07\r\n\n" % number for number in range(1000)) + b"\xff last"
    lines = describe_failure(log).split("\n")
    assert len(lines) == 16
    assert lines[-2:] == ["line 999 red", "\N{REPLACEMENT CHARACTER} last"]
    assert len(describe_failure(b"x" * 1_000_000).encode()) < LONGEST_FAILURE_BYTES + 100
    assert describe_failure(b"\n") == "the virtual environment could not be built, and uv said nothing"


@needs_uv
def test_real_package_is_installed_when_the_index_of_the_machine_answers(lab: Lab) -> None:
    lab.index = read_index_variables() | {"UV_HTTP_TIMEOUT": "20"}
    environment = lab.choose("iniconfig")
    process = lab.start(environment)
    output, _ = process.communicate(timeout=200)
    if process.returncode != 0:
        pytest.skip(f"no package index can be reached: {output.splitlines()[-1] if output else 'no output'}")
    assert ask(environment, "import iniconfig; print(iniconfig.__name__)") == "iniconfig"
