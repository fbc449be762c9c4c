"""For tests of code that uses the SDK: a server of their own with the local engine, gone afterwards.

Needs the extras `server` and `local`. Imports only `sdk`; the server is a process of its own.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Literal

from runyard.sdk.errors import ConfigurationError, NotFound, RunyardError, WaitTimeout
from runyard.sdk.sync.client import Client

START_SECONDS = 90.0
STOP_SECONDS = 30.0
_LISTENS = re.compile(rb"^runyard listens on (\S+)$", re.MULTILINE)
_PROGRAM = "import sys; from runyard.cli.main import main; sys.exit(main())"


@contextmanager
def start_server(
    *,
    engine: Literal["local", "none"] = "local",
    profiles: str | Path | None = None,
    policy: str | Path | None = None,
) -> Iterator[Client]:
    """A client of a new server on a free port of loopback, without accounts.

    At the end its projects are deleted, which ends their runs, and nothing of it stays. Raises `ConfigurationError`
    with the server's own words if it does not start.
    """
    with TemporaryDirectory(prefix="runyard-testing-") as name:
        folder = Path(name)
        words = ["server", "--engine", engine, "--port", "0", "--data", str(folder / "data")]
        words += ["--profiles", str(profiles)] if profiles is not None else []
        words += ["--policy", str(policy)] if policy is not None else []
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as errors:
            process = _start(words, out=out, errors=errors)
        try:
            with Client(_wait_until_it_listens(process, folder)) as client:
                try:
                    yield client
                finally:
                    _delete_projects(client)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(words: list[str], *, out: IO[bytes], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _PROGRAM, *words]
    # Variables of the client, such as RUNYARD_ENDPOINT, are settings of a server too.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RUNYARD_")}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=environment)


def _wait_until_it_listens(process: subprocess.Popen[bytes], folder: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while (found := _LISTENS.search((folder / "stdout").read_bytes())) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            said = (folder / "stderr").read_text(errors="replace")[-2000:]
            raise ConfigurationError(f"the server did not start:\n{said}")
        time.sleep(0.05)
    return found[1].decode()


def _delete_projects(client: Client) -> None:
    """Delete everything, and wait until the engine has ended the runs."""
    deadline = time.monotonic() + STOP_SECONDS
    for project in client.list_projects(limit=1000):
        for run in project.list_runs(limit=1000):
            try:
                run.stop().wait(until="end", timeout=max(0.1, deadline - time.monotonic()))
            except (NotFound, WaitTimeout):
                continue
        try:
            project.delete(cascade=True)
        except RunyardError:
            continue  # the folder goes anyway
