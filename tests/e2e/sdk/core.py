"""A Core to drive: the stub, or a server started from this checkout."""

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.core_process import call_runyard, run_core
from tests.e2e.sdk import stub as stubs
from tests.e2e.sdk.stub_routes import CLIENT_ID, LOG_TEXT
from tests.e2e.sdk.stub_state import PROFILES


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
    # Whether it gives what DigitalHub does not: warnings, and `original` in a spec.
    has_extensions: bool = True


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
            has_extensions=False,
        )
    finally:
        stub.shutdown()
        stub.server_close()


@contextlib.contextmanager
def serve_runyard(folder: Path) -> Iterator[Core]:
    """A server of this checkout on a free port: accounts, a profile, a log for each run; its data in `folder`."""
    data = ["--data", str(folder / "data")]
    ada, bob = ({"DHCORE_USER": name, "DHCORE_PASSWORD": f"the password of {name}"} for name in ("ada", "bob"))
    for user in (ada, bob):
        _call("user", "create", user["DHCORE_USER"], "--password-stdin", *data, given=user["DHCORE_PASSWORD"])
    token = _call("user", "token", "ada", *data).strip().splitlines()[-1]
    profiles = folder / "profiles"
    profiles.mkdir()
    (profiles / "cpu-small.yaml").write_text("id: cpu-small\nresources: {cpu: 500m, mem: 1Gi}\n")
    program = (sys.executable, "-m", "tests.e2e.sdk.talkative")
    with run_core("--auth", "accounts", "--profiles", str(profiles), folder=folder, program=program) as core:
        yield Core(
            endpoint=core.url,
            credentials=ada,
            stranger=bob,
            personal_access_token=token,
            profile="cpu-small",
            log_text=LOG_TEXT,
        )


def _call(*arguments: str, given: str = "") -> str:
    done = call_runyard(*arguments, given=given)
    if done.code:
        raise RuntimeError(f"runyard {' '.join(arguments[:2])}: {done.err}")
    return done.out
