"""The lab of the local engine: real processes in a temporary place.

The scripts of the suite are commands of a python function here: they need neither a launcher nor a container runtime.
"""

import asyncio
import os
import shutil
import signal as signals
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from uuid import uuid4

from runyard.app.engine import Assignment, Engine
from runyard.domain.effective_spec import EffectiveSpec
from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.local.folders.place_files import read_record, write_record
from runyard.engines.local.local_engine import LocalEngine
from runyard.engines.local.local_settings import LocalSettings
from runyard.procs import read_state
from tests.contract.engine.lab import Capability
from tests.unit.procs.test_tree_ends import has_memory_cgroups

LISTEN = """\
import os, socket, sys
os.set_inheritable(socket.create_server(("127.0.0.1", int(os.environ["RUNYARD_PORT"])), backlog=4096).detach(), True)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Opens the port of a service, and becomes the command that follows."""
MOST_LOOKED_AT_BYTES = 1 << 20
"""How much of a file is searched for the value of a secret."""


@cache
def can_mount() -> bool:
    """Whether processes can have mounts of their own on this machine, as this user."""
    options = ("-m",) if os.geteuid() == 0 else ("-U", "-r", "-m")
    unshare = shutil.which("unshare")
    return unshare is not None and subprocess.run([unshare, *options, "true"], check=False).returncode == 0


@cache
def find_capabilities() -> frozenset[Capability]:
    """What this machine lets the tests do."""
    mounts: list[Capability] = ["mounts"] if can_mount() else []
    limits: list[Capability] = ["hard limits"] if has_memory_cgroups() else []
    return frozenset(["strangers", "judged memory", *mounts, *limits])


class LocalLab:
    """`tests.contract.engine.lab.Lab`."""

    patience = 1200

    def __init__(self, folder: Path, engine: LocalEngine) -> None:
        self.folder = folder
        self.place = folder / "place"
        self.engine: Engine = engine
        self.platform = engine.platform
        self.project, self.other_project = "pp", "qq"
        self.capabilities = find_capabilities()
        self._opened = [engine]

    def adapt(self, spec: EffectiveSpec) -> EffectiveSpec:
        words = folder_of_words(self.folder)
        # A service is ready when something listens on its port, which no shell can do.
        command = spec.command if spec.action == "job" else ("python3", "-c", LISTEN, *spec.command)
        return replace(
            spec,
            kind="python",
            image="python",
            command=command,
            envs={**spec.envs, "LAB": f"{words}/$(RUNYARD_RUN_UID)"},
        )

    async def rest(self) -> None:
        await asyncio.sleep(0.05)

    async def pass_time(self) -> None:
        await asyncio.sleep(0.6)

    async def reopen(self) -> Engine:
        engine = await LocalEngine.open(make_settings(self.folder))
        self._opened.append(engine)
        return engine

    async def close(self) -> None:
        for engine in self._opened:
            await engine.close()
        await asyncio.to_thread(self.end_all)

    def end_all(self) -> None:
        """End every supervisor of the place with everything that it supervises."""
        for pid in list(iter_supervisors(self.place)):
            with suppress(ProcessLookupError):
                os.kill(pid, signals.SIGTERM)

    async def send(self, assignment: Assignment, word: str) -> None:
        folder = folder_of_words(self.folder) / assignment.run_uid
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
        (folder / word).touch()

    async def kill(self, assignment: Assignment, signal: int) -> None:
        folder = self._get_folder(assignment.run_uid)
        release = max((folder / "releases").iterdir(), key=lambda path: int(path.name))
        state = read_state(release / "supervision")
        assert state is not None
        os.kill(state.instances[-1].pid, signal)

    async def lose(self, assignment: Assignment) -> None:
        moved = self.place / "runs" / f".removed-{uuid4().hex}"
        self._get_folder(assignment.run_uid).rename(moved)
        shutil.rmtree(moved, ignore_errors=True)

    async def list_sent(self, run_uid: str) -> Sequence[bytes]:
        """The objects as they were stored; Secrets are in the memory of supervisors only."""
        folder = self._get_folder(run_uid) / "objects"
        return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []

    async def count_secret_values(self, text: str) -> int:
        """Files of the place, and environments of processes. The log is the run's own output, and not looked at."""
        wanted = text.encode()
        return sum(wanted in content for content in [*self._iter_contents(), *iter_environments(self.place)])

    def _iter_contents(self) -> Iterator[bytes]:
        paths = (Path(folder, name) for folder, _, names in os.walk(self.place) for name in names)
        for path in paths:  # `rglob` fails if a folder is removed meanwhile
            if path.is_file() and not path.is_symlink() and path.parent.name != "log":
                with suppress(OSError):
                    yield path.read_bytes()[:MOST_LOOKED_AT_BYTES]

    async def count_objects(self, run_uid: str) -> int:
        """Its folder, and the processes that belong to it."""
        return self._get_folder(run_uid).exists() + sum(1 for _ in iter_supervisors(self.place / "runs" / run_uid))

    async def cut(self) -> None:
        raise NotImplementedError

    mend = begin_epoch = cut

    async def hide(self, project: str) -> None:
        raise NotImplementedError

    show = hide

    async def rotate_log(self, assignment: Assignment) -> None:
        raise NotImplementedError

    flood = rotate_log

    async def restart_often(self, assignment: Assignment, times: int) -> None:
        raise NotImplementedError

    async def make_foreign_anchor(self, project: str) -> str:
        run_uid = uuid4().hex
        self._make_stranger(run_uid, project)
        return run_uid

    async def take_name(self, assignment: Assignment) -> None:
        self._make_stranger(assignment.run_uid, assignment.project)

    async def is_name_taken(self, assignment: Assignment) -> bool:
        found = read_record(self._get_folder(assignment.run_uid) / "anchor.json")
        return found is not None and found["place"] == "theirs"

    def _make_stranger(self, run_uid: str, project: str) -> None:
        """An anchor of another installation, whose folder somebody copied to this place."""
        folder = self._get_folder(run_uid)
        folder.mkdir()
        anchor = {"place": "theirs", "uid": uuid4().hex, "run_uid": run_uid, "run_id": "r1", "project": project}
        write_record(folder / "anchor.json", {**anchor, "action": "job", "name": "run-r1", "sequence": 1})
        write_record(folder / "wish.json", {"generation": 1})

    async def make_foreign_project(self) -> str:
        (self.place / "projects" / "theirs").mkdir()
        return "theirs"

    async def has_project(self, project: str) -> bool:
        return (self.place / "projects" / project).is_dir()

    async def make_foreign_claim(self, project: str) -> str:
        claim = f"theirs-{uuid4().hex[:8]}"
        (self.place / "projects" / project / "volumes" / claim).mkdir()
        return claim

    def _get_folder(self, run_uid: str) -> Path:
        return self.place / "runs" / run_uid


def make_settings(folder: Path) -> LocalSettings:
    """The settings of the engines of a lab."""
    return LocalSettings(folder=folder / "place", endpoint="http://localhost:8080")


def folder_of_words(folder: Path) -> Path:
    """Where `Lab.send` leaves words, in a folder per run: runs have users of their own."""
    return folder / "words"


def iter_supervisors(folder: Path) -> Iterator[int]:
    """The pids of supervisors whose folder is below this one."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0")
            if any(b"procs/supervisor" in word for word in words) and any(
                word.startswith(os.fsencode(folder) + b"/") for word in words
            ):
                yield int(path.name)


def iter_environments(folder: Path) -> Iterator[bytes]:
    """The environments of all processes that work below a folder."""
    mark = os.fsencode(folder)
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            content = (path / "environ").read_bytes()
            if mark in content:
                yield content


def make_folder() -> Path:
    """A folder for a place, and for the words that are sent to runs."""
    folder = Path(tempfile.mkdtemp(prefix="runyard-lab-"))
    folder.chmod(0o711)
    words = folder_of_words(folder)
    words.mkdir()
    words.chmod(0o777)
    return folder


@asynccontextmanager
async def open_local_lab(kind: type[LocalLab] = LocalLab) -> AsyncIterator[LocalLab]:
    """An engine at a new place."""
    folder = make_folder()
    lab = kind(folder, await LocalEngine.open(make_settings(folder)))
    try:
        for project in (lab.project, lab.other_project):
            await lab.engine.ensure_project(project, AdminRules())
        yield lab
    finally:
        await lab.close()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
