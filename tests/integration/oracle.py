"""Other people's code as a judge: programs of the testbed that answer line by line.

Sub-commands of the Kubernetes program, and the parser of image references of the container runtimes.
"""

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed import build, doctor
from testbed.pytest_plugin import kubernetes_version

Document = dict[str, Any]


class Oracle:
    """One process of such a program, asked line by line."""

    def __init__(self, program: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, question: object) -> Document:
        return self.ask_text(json.dumps(question))

    def ask_text(self, line: str) -> Document:
        self._write([line])
        return self._read()

    def ask_all(self, questions: Sequence[object]) -> list[Document]:
        """The answers in order; asked while they are read, so that neither side waits for the other."""
        writer = threading.Thread(target=self._write, args=(map(json.dumps, questions),))
        writer.start()
        try:
            return [self._read() for _ in questions]
        finally:
            writer.join()

    def close(self) -> int:
        self._process.communicate(timeout=10)
        return self._process.returncode

    def _write(self, lines: Iterable[str]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the reader tells
            self._process.stdin.writelines(f"{line}\n" for line in lines)
            self._process.stdin.flush()

    def _read(self) -> Document:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the oracle has ended"
        answer: Document = json.loads(line)
        return answer


@pytest.fixture(scope="module")
def version() -> str:
    """The Kubernetes version that is asked. Skips where its program is neither in the cache nor can be compiled."""
    chosen = kubernetes_version()
    if not build.is_cached(chosen):
        missing = [finding.what for finding in doctor.examine_build() if not finding.is_there]
        if missing:
            pytest.skip(f"Kubernetes cannot be built on this machine: it lacks {', '.join(missing)}")
    return chosen
