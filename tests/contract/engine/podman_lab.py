"""The local engine with containers of a real podman: the same scripts, in busybox."""

import asyncio
import dataclasses
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest

from runyard.app.engine import Assignment
from runyard.domain.effective_spec import EffectiveSpec
from runyard.engines.local import container_runs
from runyard.engines.local.container_runs import name_container
from runyard.engines.local.containers import ContainerRuntime
from tests.contract.engine.local_lab import MOST_LOOKED_AT_BYTES, LocalLab, open_local_lab
from tests.integration.engines.containers.lab import IMAGE, open_runtime

LISTEN = 'httpd -p 8080 -h /tmp; exec "$@"'
"""Opens the port of a service, and becomes the command that follows."""
WORDS = "/tmp"
"""Where `Lab.send` leaves words, in the container."""


class PodmanLab(LocalLab):
    """`tests.contract.engine.lab.Lab`."""

    runtime: ContainerRuntime

    def adapt(self, spec: EffectiveSpec) -> EffectiveSpec:
        command = spec.command if spec.action == "job" else ("sh", "-c", LISTEN, "sh", *spec.command)
        return dataclasses.replace(
            spec, kind="container", image=spec.image or IMAGE, command=command, envs={**spec.envs, "LAB": WORDS}
        )

    async def pass_time(self) -> None:
        await asyncio.sleep(2)

    async def send(self, assignment: Assignment, word: str) -> None:
        await self._call("exec", self._name(assignment), "touch", f"{WORDS}/{word}")

    async def kill(self, assignment: Assignment, signal: int) -> None:
        await self._call("kill", "--signal", str(signal), self._name(assignment))

    async def count_secret_values(self, text: str) -> int:
        """Files on disk and in memory, and environments of processes."""
        return await asyncio.to_thread(self._count, text.encode())

    def _count(self, wanted: bytes) -> int:
        store = Path(self.runtime.options[self.runtime.options.index("--root") + 1])
        # Podman's database in memory keeps what it has deleted until it writes over it.
        files = [*_iter_files(self.place), *_iter_files(store), *_iter_files(self.runtime.memory / "containers")]
        environments = Path("/proc").glob("[0-9]*/environ")
        return sum(wanted in _read(path) for path in (*files, *environments))

    def _name(self, assignment: Assignment) -> str:
        releases = (self.place / "runs" / assignment.run_uid / "releases").iterdir()
        return name_container(assignment.run_uid, max(int(path.name) for path in releases))

    async def _call(self, *arguments: str) -> None:
        argv = [*self.runtime.argv, *arguments]
        done = await asyncio.to_thread(
            subprocess.run, argv, env=dict(self.runtime.env), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def _iter_files(folder: Path) -> Iterator[Path]:
    """The files below a folder, without those of logs, which are a run's own output."""
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names if Path(parent).name != "log")


def _read(path: Path) -> bytes:
    with suppress(OSError):
        return b"" if path.is_symlink() or not path.is_file() else path.read_bytes()[:MOST_LOOKED_AT_BYTES]
    return b""


_opened = ExitStack()


@cache
def get_runtime() -> ContainerRuntime:
    """One podman for all labs of a test process, because to find it takes a second; skips where there is none."""
    folder = Path(tempfile.mkdtemp(prefix="runyard-podman-"))
    _opened.callback(shutil.rmtree, folder, ignore_errors=True)
    return _opened.enter_context(open_runtime(folder))


@pytest.fixture(scope="session", autouse=True)
def podman_ends() -> Iterator[None]:
    """Closes what `get_runtime` has opened, when the test process has run its last test."""
    yield
    _opened.close()
    get_runtime.cache_clear()


@asynccontextmanager
async def open_podman_lab() -> AsyncIterator[PodmanLab]:
    """An engine at a new place, whose functions run in containers."""
    shared = await asyncio.to_thread(get_runtime)

    def find_runtime(folder: Path, *, place_uid: str) -> ContainerRuntime:
        folder.mkdir(exist_ok=True)
        return dataclasses.replace(shared, place_uid=place_uid)

    with patch.object(container_runs, "find_runtime", find_runtime):
        async with open_local_lab(PodmanLab) as lab:
            assert isinstance(lab, PodmanLab)
            lab.runtime = shared
            yield lab
