"""Runs a golden path's script with the python of a line, against a Core, and reads what the script saw."""

import json
import os
import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.sdk.core import Core
from tests.e2e.sdk.environments import ensure_environment
from tests.e2e.sdk.script_forks import PACKAGE, PASSED_ON, ROOT, start_script
from tests.fork_server import ForkedProcess

SCRIPT_SECONDS = 240

Seen = dict[str, Any]


class ScriptError(AssertionError):
    """A script did not come to its end: after which step, and what it said last."""


@dataclass(slots=True)
class Driver:
    """A user of one line of the SDK. A script that was run once is not run again; how it ended is kept."""

    core: Core
    line: str
    folder: Path
    wrapper: tuple[str, ...] = ()
    """A command that starts the script's python, given as its arguments."""
    script_seconds: int = SCRIPT_SECONDS
    _kept: dict[str, dict[str, Seen] | ScriptError] = field(default_factory=dict)

    @property
    def release(self) -> tuple[int, ...]:
        """The line as numbers, to compare."""
        return tuple(int(part) for part in self.line.split("."))

    def saw(self, script: str) -> dict[str, Seen]:
        """What the script saw in a project of its own, by step."""
        if script not in self._kept:
            try:
                self._kept[script] = self.run(script)
            except ScriptError as error:
                self._kept[script] = error
        kept = self._kept[script]
        if isinstance(kept, ScriptError):
            raise ScriptError(str(kept))
        return kept

    def run(
        self,
        script: str,
        *,
        project: str | None = None,
        credentials: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> dict[str, Seen]:
        """Run the script now; as the Core's user unless other credentials are given."""
        home = self.folder / f"{script}-{secrets.token_hex(3)}"
        home.mkdir()
        environment = {
            **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
            "HOME": str(home),
            "DH_CONFIG": str(home / "dhcore.ini"),
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "DHCORE_ENDPOINT": self.core.endpoint,
            "RUNYARD_SDK_PROJECT": project or self.new_project_name(script),
            **({"RUNYARD_SDK_PROFILE": self.core.profile} if self.core.profile else {}),
            **(self.core.credentials if credentials is None else credentials),
            **(settings or {}),
        }
        python = ensure_environment(self.line)
        with (
            Path(os.devnull).open("rb") as stdin,
            (home / "stdout").open("wb") as stdout,
            (home / "stderr").open("wb") as stderr,
        ):
            process: subprocess.Popen[bytes] | ForkedProcess
            if self.wrapper:
                command = [*self.wrapper, str(python), "-m", f"{PACKAGE}.{script}"]
                process = subprocess.Popen(
                    command, cwd=home, env=environment, stdin=stdin, stdout=stdout, stderr=stderr
                )
            else:
                process = start_script(script, python, home, environment, stdin=stdin, stdout=stdout, stderr=stderr)
        ended = _wait(process, seconds=self.script_seconds)
        steps = [json.loads(line) for line in _read_lines(home / "stdout") if line.startswith('{"step": ')]
        if ended != "exit code 0":
            after = f"step {steps[-1]['step']!r}" if steps else "no step"
            said = "\n".join(_read_lines(home / "stderr"))[-4000:]
            raise ScriptError(f"{script} with SDK {self.line}: {ended} after {after}\n{said}")
        return {step.pop("step"): step for step in steps}

    def new_project_name(self, script: str) -> str:
        """A name that no other project on this Core has; names of projects are short."""
        return f"{script.replace('_', '-')[:16]}-{self.line.replace('.', '-')}-{secrets.token_hex(4)}"


def _wait(process: subprocess.Popen[bytes] | ForkedProcess, *, seconds: int) -> str:
    """How it ended."""
    try:
        return f"exit code {process.wait(seconds)}"
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return f"no end within {seconds} s"


def _read_lines(file: Path) -> list[str]:
    return file.read_text(errors="replace").splitlines()
