"""`python -m tests.engines.launching server …`: a server whose engine starts the real launcher for each run.

The launcher is a process of this machine, on the interpreter of `LAUNCHING_PYTHON`. It reports to `LAUNCHING_ENDPOINT`
with the run's own token. The engine keeps everything else in memory.
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from runyard import bootstrap
from runyard.app.engine import Assignment
from runyard.cli.main import main
from runyard.launcher.zipapps import build_zipapp
from runyard.manifests.environment import TOKEN_VARIABLES, get_platform_envs
from runyard.manifests.identity import PlatformInputs, RunIdentity
from runyard.spec.launcher import Launcher
from tests.engines.automatic import AutomaticEngine
from tests.engines.memory_objects import Thing

PYTHON_VARIABLE = "LAUNCHING_PYTHON"
ENDPOINT_VARIABLE = "LAUNCHING_ENDPOINT"


class LaunchingEngine(AutomaticEngine):
    """Starts the launcher when a run is released, and ends it by SIGTERM when the run is stopped or removed."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._pyz = folder / "launcher.pyz"
        self._pyz.write_bytes(build_zipapp())
        launcher = Launcher(image="launcher", install=("true",), start=("python", "-u", str(self._pyz)))
        endpoint = os.environ[ENDPOINT_VARIABLE]
        self.platform = PlatformInputs(endpoint=endpoint, has_token=True, launcher=launcher)

    async def release(self, assignment: Assignment, uid: str) -> None:
        """Start it; from here on it lives by itself."""
        await super(AutomaticEngine, self).release(assignment, uid)
        thing = self.things.get(uid)
        if thing is not None and thing.phase == "pending" and uid not in self._lives:
            self._lives[uid] = asyncio.create_task(self._launch(thing, assignment))

    async def _launch(self, thing: Thing, assignment: Assignment) -> None:
        work = self._folder / thing.anchor.run_uid
        work.mkdir()
        termination = work / "termination"
        termination.touch()
        self._start(thing)
        process = await asyncio.create_subprocess_exec(
            os.environ.get(PYTHON_VARIABLE) or sys.executable,
            "-u",
            str(self._pyz),
            env=self._make_environment(assignment, thing.anchor.uid, work),
            cwd=work,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert process.stdout is not None
        try:
            while content := await process.stdout.read(65536):
                self.write_log(thing.anchor.run_uid, content)
            code = await process.wait()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            raise
        line = json.loads(termination.read_text() or "{}")
        self._lives.pop(thing.anchor.uid, None)
        end = replace(self._make_end(thing, exit_code=code), peak_bytes=line.get("peak_bytes"))
        self._end(thing, "failed" if code else "succeeded", end=end, message=line.get("message"))

    def _make_environment(self, assignment: Assignment, uid: str, work: Path) -> dict[str, str]:
        identity = RunIdentity(
            run_id=assignment.run_id,
            run_uid=assignment.run_uid,
            project=assignment.project,
            platform=self.platform,
        )
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(work),
            "RUNYARD_WORK": str(work / "work"),
            "RUNYARD_TERMINATION_LOG": str(work / "termination"),
            **get_platform_envs(identity),
            **dict.fromkeys(TOKEN_VARIABLES, self.tokens[uid]),
            **assignment.effective.envs,
        }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="launching-") as made:
        bootstrap.serve = partial(bootstrap.serve, engine=LaunchingEngine(Path(made)))
        sys.exit(main())
