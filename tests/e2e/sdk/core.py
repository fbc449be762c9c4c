"""A Core to drive: the stub, or a server started from this checkout."""

import contextlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.sdk import stub as stubs
from tests.e2e.sdk.stub_routes import CLIENT_ID, LOG_TEXT
from tests.e2e.sdk.stub_state import PROFILES

RUNYARD = Path(sys.executable).parent / "runyard"
START_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Core:
    """Where a Core listens and what is known of it. What is None this Core does not have."""

    endpoint: str
    # The environment by which the SDK signs in as a user who may create projects; empty where none is needed.
    credentials: Mapping[str, str] = field(default_factory=dict)
    # The same for another user, who has a role in nothing.
    stranger: Mapping[str, str] | None = None
    # A token of the first user, for the exchange that the SDK does.
    personal_access_token: str | None = None
    client_id: str = "runyard"
    # The name of a profile that runs may ask for.
    profile: str | None = None
    # What the log of every run says.
    log_text: str | None = None


@contextlib.contextmanager
def serve_stub() -> Iterator[Core]:
    """The recording stub, in a thread of this process."""
    stub = stubs.Stub()
    thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    ada, bob = ({"DHCORE_USER": name, "DHCORE_PASSWORD": stubs.USERS[name]} for name in ("ada", "bob"))
    try:
        yield Core(
            endpoint=stub.endpoint,
            credentials=ada,
            stranger=bob,
            personal_access_token=stubs.PERSONAL_ACCESS_TOKEN,
            client_id=CLIENT_ID,
            profile=PROFILES[0],
            log_text=LOG_TEXT,
        )
    finally:
        stub.shutdown()
        stub.server_close()


def has_server_command() -> bool:
    """Whether this checkout's `runyard` can serve."""
    done = subprocess.run([RUNYARD, "server", "--help"], capture_output=True, check=False, timeout=START_SECONDS)
    return done.returncode == 0


@contextlib.contextmanager
def serve_runyard(folder: Path) -> Iterator[Core]:
    """A server of this checkout on a free port: accounts, a profile, no engine; its data in `folder`."""
    data = ["--data", str(folder / "data")]
    ada, bob = ({"DHCORE_USER": name, "DHCORE_PASSWORD": f"the password of {name}"} for name in ("ada", "bob"))
    for user in (ada, bob):
        _call(["user", "create", user["DHCORE_USER"], "--password-stdin", *data], stdin=user["DHCORE_PASSWORD"])
    token = _call(["user", "token", "ada", *data]).strip().splitlines()[-1]
    profiles = folder / "profiles"
    profiles.mkdir()
    (profiles / "cpu-small.yaml").write_text("id: cpu-small\nresources: {cpu: 500m, mem: 1Gi}\n")
    log = folder / "server.log"
    command = [str(RUNYARD), "server", "--host", "127.0.0.1", "--port", "0", "--auth", "accounts", *data]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--profiles", str(profiles)], stdout=output, stderr=subprocess.STDOUT, cwd=folder
        )
    try:
        yield Core(
            endpoint=_read_endpoint(log, process),
            credentials=ada,
            stranger=bob,
            personal_access_token=token,
            profile="cpu-small",
        )
    finally:
        process.terminate()
        try:
            process.wait(timeout=START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _call(arguments: list[str], *, stdin: str = "") -> str:
    done = subprocess.run(
        [RUNYARD, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=START_SECONDS
    )
    if done.returncode:
        raise RuntimeError(f"runyard {' '.join(arguments[:2])}: {done.stderr}")
    return done.stdout


def _read_endpoint(log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        found = re.search(r"http://(127\.0\.0\.1|localhost):\d+", log.read_text())
        if found:
            return found.group()
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"`runyard server` did not say where it listens: {log.read_text()[-2000:]}")
