"""Scripts as forks of a python of the line that has the SDK's libraries imported, but not the SDK itself.

The libraries are most of what a script takes to start. The SDK reads its settings when it is imported, so every script
imports it anew.
"""

import contextlib
import importlib
import os
import runpy
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO

from tests.fork_server import ForkedProcess, ForkServer

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR")
"""Variables that scripts have from this process."""
ROOT = Path(__file__).resolve().parents[3]
PACKAGE = "tests.e2e.sdk.scripts"
LIBRARIES = (
    "boto3",
    "boto3.s3.transfer",
    "botocore.client",
    "git",
    "numpy",
    "psycopg2",
    "pydantic",
    "pydantic.json_schema",
    "pydantic.main",
    "pydantic.types",
    "requests",
    "slugify",
    "sqlalchemy.orm",
    "yaml",
)
"""Lines differ in what they have."""


def start_script(
    script: str,
    python: Path,
    folder: Path,
    environment: Mapping[str, str],
    *,
    stdin: IO[bytes],
    stdout: IO[bytes],
    stderr: IO[bytes],
) -> ForkedProcess:
    """Start a script with the python of a line, in a folder."""
    return _open_forks(python, os.getpid()).start(
        f"{__name__}:run_script",
        ["-m", script],
        environment=environment,
        folder=folder,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )


@cache
def _open_forks(python: Path, _process_id: int) -> ForkServer:
    """One for each line and test process. Its own environment is that of a script without settings."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    # numpy would start a thread for each processor, and a fork has only the one that forked.
    settings = {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    return ForkServer(warm_up=f"{__name__}:warm_up", python=python, environment={**passed_on, **settings})


def warm_up() -> None:
    """Import the libraries."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def run_script() -> None:
    """Run the script that is the only argument, as `python -m` does."""
    (script,) = sys.argv[1:]
    runpy.run_module(f"{PACKAGE}.{script}", run_name="__main__", alter_sys=True)
