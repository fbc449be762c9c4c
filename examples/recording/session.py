"""The session that is recorded: real commands against a server of its own, with the local engine."""

import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.recording.terminal import Recording, Step, record
from runyard.testing import start_server

ROOT = Path(__file__).parents[2]
RULES = ROOT / "examples" / "rules"
TITLE = "Runyard: what will I get, who decided it, and what happened"
RUN_FILE = """\
source: {source: hello.py, handler: hello}
parameters: {name: Ada}
profile: small
resources: {mem: 2Gi}
"""
STEPS = (
    Step(command="cat run.yaml"),
    Step(command="runyard run -f run.yaml", question=r"\[Y/n\]: "),
    Step(command="runyard ps --all"),
    Step(command="runyard profile show smal", code=1),
)


def record_session() -> Recording:
    """Start a server, execute the commands, and leave nothing behind."""
    with (
        TemporaryDirectory(prefix="runyard-recording-") as name,
        start_server(profiles=RULES / "profiles", policy=RULES / "policy.yaml") as client,
    ):
        folder = Path(name)
        (folder / "run.yaml").write_text(RUN_FILE)
        (folder / "hello.py").write_text((ROOT / "examples" / "hello" / "hello.py").read_text())
        client.get_or_create_project("demo")
        return record(STEPS, folder=folder, environment=make_environment(folder, client.endpoint))


def make_environment(home: Path, endpoint: str) -> dict[str, str]:
    """Nothing of the user who records."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": path,
        "RUNYARD_ENDPOINT": endpoint,
        "RUNYARD_PROJECT": "demo",
    }


def mask(shown: str) -> str:
    """What every recording of the session shows: without ids, ports, times, the version of Python.

    The state of a run that was slow to begin is left out.
    """
    text = re.sub(r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:PORT", shown)
    text = re.sub(r"\b(\w+)-[0-9a-f]{10}\b", r"\1-ID", text)
    text = re.sub(r"(PYTHON3_|ython:?[ ]?3\.)\d+(\.\d+)?", r"\1N", text)
    text = re.sub(r"\S*note:\S* run \w+-ID: [A-Z]+\r\n", "", text)
    return re.sub(r"\b(?:now|\d+ (?:s|min) ago)", "AGO", text)
