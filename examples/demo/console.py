"""Prints what the demo does, and executes the commands that it prints."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
"""The checkout, where every command is executed."""
WIDTH = 120
LONGEST_COMMAND_SECONDS = 120.0
API = """api() { curl --silent --show-error --no-buffer --header 'Content-Type: application/json' "$@"; }"""
"""The command that sends a request."""


class DemoFailed(Exception):
    """A step did not do what the demo says. The text is for the user."""


class Console:
    """A shell that shows what it executes. Definitions (variables, functions) hold for all later commands."""

    def __init__(self) -> None:
        self._definitions: list[str] = []
        self._is_bold = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        bin_folder = Path(sys.executable).parent
        kept = {name: text for name, text in os.environ.items() if _is_harmless(name)}
        self.environment = {**kept, "PATH": f"{bin_folder}:{os.environ.get('PATH', os.defpath)}"}

    def title(self, text: str) -> None:
        """Print the heading of a step."""
        heading = f"== {text}"
        self._print(f"\n\033[1m{heading}\033[0m" if self._is_bold else f"\n{heading}")

    def tell(self, text: str) -> None:
        """Print a sentence."""
        self._print(textwrap.fill(text, WIDTH, break_on_hyphens=False, break_long_words=False))

    def answer(self, lines: str | Iterable[str]) -> None:
        """Print what a command answered, or the part of it that matters."""
        for line in lines.splitlines() if isinstance(lines, str) else lines:
            self._print(f"    {line}".rstrip())

    def show(self, command: str) -> None:
        """Print a command as a user types it."""
        first, *others = command.splitlines()
        self._print(f"  $ {first}")
        for line in others:
            self._print(f"    {line}")

    def define(self, definition: str, *, hidden: str | None = None) -> None:
        """Print a definition and use it from now on; `hidden` is used in its place."""
        self.show(definition)
        self._definitions.append(hidden or definition)

    def run(self, command: str, *, codes: tuple[int, ...] = (0,)) -> str:
        """Print and execute a command; returns its standard output."""
        self.show(command)
        return self.execute(command, codes=codes)

    def execute(self, command: str, *, codes: tuple[int, ...] = (0,)) -> str:
        """Execute a command; raises `DemoFailed` if it ends with another exit code."""
        try:
            done = subprocess.run(
                self._to_arguments(command),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                cwd=ROOT,
                env=self.environment,
                timeout=LONGEST_COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DemoFailed(f"no end after {LONGEST_COMMAND_SECONDS:.0f} s: {command}") from None
        if done.returncode not in codes:
            raise DemoFailed(f"exit code {done.returncode} of: {command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def ask(self, command: str) -> Any:
        """Print and execute a request; returns the JSON of the response."""
        return self._read_json(command, self.run(command))

    def poll(self, command: str) -> Any:
        """Execute a request that was printed before, without printing it again."""
        return self._read_json(command, self.execute(command))

    def follow(self, command: str) -> list[str]:
        """Print and execute a command, and its output as it arrives; returns the lines."""
        self.show(command)
        lines = []
        for line in self._iter_lines(command):
            self.answer(line)
            lines.append(line)
        return lines

    def _iter_lines(self, command: str) -> Iterator[str]:
        with subprocess.Popen(
            self._to_arguments(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=self.environment,
        ) as process:
            timer = threading.Timer(LONGEST_COMMAND_SECONDS, process.kill)
            timer.start()
            try:
                yield from (line.rstrip("\n") for line in process.stdout or ())
            except BaseException:
                process.kill()
                raise
            finally:
                timer.cancel()
        if process.returncode:
            raise DemoFailed(f"exit code {process.returncode} of: {command}")

    def _to_arguments(self, command: str) -> list[str]:
        return ["bash", "-c", "\n".join([*self._definitions, command])]

    @staticmethod
    def _read_json(command: str, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            raise DemoFailed(f"the answer is not JSON: {command}\n{text[:2000]}") from None

    @staticmethod
    def _print(text: str) -> None:
        print(text, flush=True)


def define_api(console: Console, *, netrc: Path | None = None) -> None:
    """Define `api`, the command that sends a request: curl, or a replacement where curl is not installed.

    `netrc` is a file with user and password of an account, which are not printed.
    """
    definition = render_api(netrc)
    replacement = None
    if shutil.which("curl") is None:
        console.tell("(curl is not installed here; the demo sends these requests by a replacement of its own.)")
        replacement = definition.replace(
            "curl --silent --show-error --no-buffer", f"{sys.executable} -m examples.demo.http_client"
        )
    console.define(definition, hidden=replacement)


def render_api(netrc: Path | None) -> str:
    """The definition of `api`, with an account if there is one."""
    return API if netrc is None else API.replace('"$@"', f'--netrc-file {netrc} "$@"')


def _is_harmless(name: str) -> bool:
    """Whether a variable of the caller may reach the demo: no settings of another Runyard, no proxies."""
    is_setting = name.startswith(("RUNYARD_", "DHCORE_")) and not name.startswith("RUNYARD_TESTBED_")
    return not is_setting and not name.lower().endswith("_proxy")
