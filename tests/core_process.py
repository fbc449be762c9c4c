"""`runyard server` as a process of its own, on a free port of loopback, over either database.

Servers and commands are forks of a process that has everything imported (`tests/fork_server.py`), unless a test names
the program: `program=COMMAND` is the installed one.

`run_core()` waits until the process says where it listens, and leaves nothing behind. Nothing of the caller's
environment that begins with `RUNYARD_` reaches it. What it printed is kept: `read_errors()` is its log.
"""

import asyncio
import importlib
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

import httpx2

from runyard.store import upgrade
from tests.fork_server import ForkedProcess, ForkServer

START_SECONDS = 90.0
STOP_SECONDS = 60.0
COMMAND = (str(Path(sys.executable).parent / "runyard"),)
ENTRY = "runyard.cli.main:main"
IMPORTED = (
    "asyncpg",
    "runyard.bootstrap",
    "runyard.cli.commands.db",
    "runyard.cli.commands.keys",
    "runyard.cli.commands.server",
    "runyard.cli.commands.user",
    "runyard.cli.main",
    "runyard.engines.kubernetes",
    "runyard.engines.local.local_engine",
    "runyard.store.migrator",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
)
_LISTENS = re.compile(rb"^runyard listens on (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreProcess:
    """A server that listens at `url`; its output lies in `folder`."""

    process: subprocess.Popen[bytes] | ForkedProcess
    url: str
    folder: Path
    started_in: float
    """Seconds until it said that it listens."""

    @asynccontextmanager
    async def client(self, user: tuple[str, str] | None = None, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
        """A client of it; proxies of the environment are none of its business."""
        async with make_client(self.url, user=user, **options) as client:
            yield client

    async def wait(self) -> int:
        """How it ended, once it has; one that does not end fails the test."""
        try:
            return await asyncio.to_thread(self.process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server did not end:\n{self.read_errors()[-3000:]}") from None

    def kill(self) -> None:
        """As a crash would."""
        self.process.kill()
        self.process.wait()

    def read_output(self) -> str:
        """What it said on standard output."""
        return (self.folder / "stdout").read_text()

    def read_errors(self) -> str:
        """What it said on standard error: its log."""
        return (self.folder / "stderr").read_text()


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that is over."""

    code: int
    out: str
    err: str


@contextmanager
def run_core(
    *arguments: str,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    program: tuple[str, ...] | None = None,
) -> Iterator[CoreProcess]:
    """A server, which is gone afterwards; raises `AssertionError` with what it said if it does not listen."""
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    words = ["server", "--port", "0", "--data", str(folder / "data"), *arguments]
    with (
        Path(os.devnull).open("rb") as nothing,
        (folder / "stdout").open("wb") as out,
        (folder / "stderr").open("ab") as errors,
    ):
        process = _start(words, program, stdin=nothing, stdout=out, stderr=errors, environment=environment)
    try:
        url = _wait_until_it_listens(process, folder)
        yield CoreProcess(process=process, url=url, folder=folder, started_in=time.monotonic() - begun)
    finally:
        process.kill()
        process.wait()
        storage = folder / "data/local/containers/storage/overlay"
        if storage.is_dir():
            # Podman leaves this folder mounted on itself, and pytest cannot remove it later.
            subprocess.run(["umount", storage], capture_output=True, check=False)


def call_runyard(*arguments: str, environment: Mapping[str, str] | None = None, given: str = "") -> Ended:
    """Run a command of `runyard` to its end, with that on its standard input."""
    with TemporaryFile() as stdin, TemporaryFile() as out, TemporaryFile() as errors:
        stdin.write(given.encode())
        stdin.seek(0)
        process = _start(arguments, None, stdin=stdin, stdout=out, stderr=errors, environment=environment)
        try:
            code = process.wait(START_SECONDS)
        except BaseException:
            process.kill()
            raise
        out.seek(0)
        errors.seek(0)
        return Ended(code, out.read().decode(), errors.read().decode())


def make_client(url: str, *, user: tuple[str, str] | None = None, **options: Any) -> httpx2.AsyncClient:
    """A client that takes nothing from the environment."""
    options = {"timeout": 60.0, "limits": httpx2.Limits(max_connections=64), **options}
    return httpx2.AsyncClient(base_url=url, auth=user, trust_env=False, **options)


def make_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's, but for settings of Runyard and proxies."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("RUNYARD_") and not name.lower().endswith("_proxy")
    }
    return {**kept, "PYTHONUNBUFFERED": "1", **(more or {})}


def _start(
    arguments: Sequence[str],
    program: Sequence[str] | None,
    *,
    stdin: IO[bytes],
    stdout: IO[bytes],
    stderr: IO[bytes],
    environment: Mapping[str, str] | None,
) -> subprocess.Popen[bytes] | ForkedProcess:
    """Start that program, or a fork instead of the installed command."""
    env = make_environment(environment)
    if program is None:
        words = [*COMMAND, *arguments]
        return open_forks().start(ENTRY, words, environment=env, stdin=stdin, stdout=stdout, stderr=stderr)
    return subprocess.Popen([*program, *arguments], stdin=stdin, stdout=stdout, stderr=stderr, env=env)


def open_forks() -> ForkServer:
    """The process whose forks are commands."""
    return _open_forks(os.getpid())


@cache
def _open_forks(_process_id: int) -> ForkServer:
    """One for each test process."""
    return ForkServer(warm_up=f"{__name__}:warm_up")


def warm_up() -> None:
    """Load what commands import, and what the migrations of a new database load when they run."""
    for name in IMPORTED:
        importlib.import_module(name)
    with TemporaryDirectory() as folder:
        asyncio.run(upgrade(f"sqlite:///{folder}/runyard.db"))


def _wait_until_it_listens(process: subprocess.Popen[bytes] | ForkedProcess, folder: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while (found := _LISTENS.search((folder / "stdout").read_bytes())) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            said = (folder / "stderr").read_text()
            raise AssertionError(f"the server did not start ({process.returncode}):\n{said[-3000:]}")
        time.sleep(0.01)
    return found[1].decode()
