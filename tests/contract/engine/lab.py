"""What the tests of this folder need beside the port. A new engine brings a `Lab` and passes them all.

Nothing here depends on how fast an engine is: tests wait with `eventually` until something is so, and with
`Lab.pass_time` where something must stay as it is.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeVar
from uuid import uuid4

import pytest

from runyard.app.engine import Anchor, Assignment, Engine, EngineRefusal, LogChunk, LogGap, LogSource, Observation
from runyard.domain.admission import AdmittedObjects, admit
from runyard.domain.effective_spec import EffectiveSpec
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from runyard.manifests.environment import TOKEN_VARIABLES, get_platform_envs
from runyard.manifests.identity import PlatformInputs, RunIdentity
from runyard.spec.environment import SecretUse
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.policy import Policy
from runyard.spec.problems import Refused
from runyard.spec.registries import RegistryCredential
from runyard.spec.resources import Sides
from tests.contract.engine.scripts import WAIT_FOREVER, make_command

Value = TypeVar("Value")
Capability = Literal[
    "cut",
    "hide",
    "epochs",
    "rotation",
    "floods",
    "many restarts",
    "strangers",
    "mounts",
    "stored secrets",
    "hard limits",
    "judged memory",
    "sessions",
]
"""What not every lab can do to its place, or its engine; tests that need it are collected for the others only."""


class Lab(Protocol):
    """An engine at an empty place, and what happens there."""

    engine: Engine
    project: str
    """Prepared, and of this test alone."""
    other_project: str
    capabilities: frozenset[Capability]
    platform: PlatformInputs
    """What the engine gives every run, as admission must know it."""
    patience: int
    """How often `eventually` looks before it gives up."""

    def adapt(self, spec: EffectiveSpec) -> EffectiveSpec:
        """The spec with what every run needs here: an image with a shell, a user, `$LAB`."""

    async def rest(self) -> None:
        """Wait a moment."""

    async def pass_time(self) -> None:
        """Wait as long as whatever may happen by itself takes."""

    async def reopen(self) -> Engine:
        """Another engine at the same place, as another process has one. It is closed with the lab."""

    async def send(self, assignment: Assignment, word: str) -> None:
        """Let the script of a run that is running go on (`scripts.wait_for`)."""

    async def kill(self, assignment: Assignment, signal: int) -> None:
        """Send a signal to the first process of a run that is running, from outside."""

    async def lose(self, assignment: Assignment) -> None:
        """Somebody else deletes the run's anchor, at once."""

    async def list_sent(self, run_uid: str) -> Sequence[bytes]:
        """Every object of the run that the engine has sent, as it was sent."""

    async def count_secret_values(self, text: str) -> int:
        """How many stored objects of the place hold that text, and processes where they can be looked at.

        `stored secrets`: they are stored, so that they outlive the processes of the run.
        """

    async def count_objects(self, run_uid: str) -> int:
        """How many objects of the place belong to a run, its anchor among them."""

    async def cut(self) -> None:
        """The engine cannot reach its place anymore. Needs `cut`, as `mend` does."""

    async def mend(self) -> None:
        """It can again."""

    async def hide(self, project: str) -> None:
        """The engine cannot read the objects of one project anymore. Needs `hide`, as `show` does."""

    async def show(self, project: str) -> None:
        """It can again."""

    async def begin_epoch(self) -> None:
        """Versions begin anew. Needs `epochs`."""

    async def rotate_log(self, assignment: Assignment) -> None:
        """What its container has written so far cannot be read anymore. Needs `rotation`."""

    async def flood(self, assignment: Assignment) -> None:
        """So much happens to a run that no observation can hold it. Needs `floods`."""

    async def restart_often(self, assignment: Assignment, times: int) -> None:
        """Its container ends and is started again, that often. Needs `many restarts`."""

    async def make_foreign_anchor(self, project: str) -> str:
        """An anchor of another installation; returns its run's uid. Needs `strangers`, as the following do."""

    async def take_name(self, assignment: Assignment) -> None:
        """Somebody else creates an object that has the name of the run's anchor."""

    async def is_name_taken(self, assignment: Assignment) -> bool:
        """Whether that object is still there, unchanged."""

    async def make_foreign_project(self) -> str:
        """What `ensure_project` would make for a project, made by somebody else; returns the project."""

    async def has_project(self, project: str) -> bool:
        """Whether what a project needs is there, whoever made it."""

    async def make_foreign_claim(self, project: str) -> str:
        """A claim that somebody else made; returns its name."""


def needs(*capabilities: Capability) -> pytest.MarkDecorator:
    """The test is collected only for the labs that can do that; see `conftest.py`."""
    return pytest.mark.needs(*capabilities)


async def eventually(
    lab: Lab, probe: Callable[[], Awaitable[Value]], is_right: Callable[[Value], bool], *, what: str = ""
) -> Value:
    """Look until it is right; fails if it never is."""
    value = await probe()
    for _ in range(lab.patience):
        if is_right(value):
            return value
        await lab.rest()
        value = await probe()
    raise AssertionError(f"still not so{what and f' ({what})'}: {value!r}")


@dataclass(frozen=True)
class FixedAccess:
    """`app.engine.Access` with what a test says."""

    secrets: dict[str, str] = field(default_factory=dict)
    registries: dict[str, RegistryCredential] = field(default_factory=dict)
    token: str = "token"

    async def read_secrets(self) -> dict[str, str]:
        return self.secrets

    async def read_registries(self) -> dict[str, RegistryCredential]:
        return self.registries

    async def issue_token(self) -> str:
        return self.token


@dataclass
class RecordingAdmission:
    """`app.engine.Admission` by the built-in policy; knows what it has admitted, and can refuse everything."""

    identity: RunIdentity
    claims: frozenset[str] = frozenset()
    """Kept volumes that the run may mount."""
    is_refusing: bool = False
    admitted: list[bytes] = field(default_factory=list)

    async def admit(
        self,
        objects: Sequence[Mapping[str, Any]],
        *,
        unsent: Sequence[Mapping[str, Any]] = (),
        is_anchor: bool = False,
        kubernetes_version: str = "latest",
    ) -> AdmittedObjects:
        if self.is_refusing:
            raise EngineRefusal(Reason.ADMISSION_REFUSED, "a rule forbids it")
        namespace = next((item["metadata"].get("namespace") for item in (*objects, *unsent)), None)
        identity = replace(self.identity, namespace=namespace)
        try:
            found = admit(
                objects,
                unsent=unsent,
                policy=Policy(),
                project=identity.project,
                is_anchor=is_anchor,
                kubernetes_version=kubernetes_version,
                shared_claims=self.claims,
                platform_envs=get_platform_envs(identity),
                platform_secrets=frozenset(TOKEN_VARIABLES if identity.platform.has_token else ()),
                launcher=identity.platform.launcher,
                has_registry_secret=identity.platform.has_registry_secret,
                run_uid=identity.run_uid,
            )
        except Refused as refused:
            raise EngineRefusal(Reason.ADMISSION_REFUSED, str(refused)) from refused
        self.admitted += [item.body for item in found]
        return found


def assign(lab: Lab, *lines: str, run_id: str = "r1", spec: dict[str, Any] | None = None, **fields: Any) -> Assignment:
    """A container job that executes a script, or waits forever; generation 1."""
    effective = EffectiveSpec(
        **{
            "kind": "container",
            "action": "job",
            "command": make_command(lines or [WAIT_FOREVER]),
            "backoff_limit": 0,
            "grace_period_seconds": 1,
            "resources": {"mem": Sides(requests=Quantity.parse("32Mi"), limits=Quantity.parse("32Mi"))},
            **(spec or {}),
        }
    )
    chosen: dict[str, Any] = {
        "run_uid": uuid4().hex,
        "project": lab.project,
        "name": run_id,
        "kind": f"container+{effective.action}:run",
        "user": "ada",
        "effective": lab.adapt(effective),
        "created_at": datetime.now(UTC),
        "generation": 1,
        "access": FixedAccess(),
        **fields,
    }
    identity = RunIdentity(run_id=run_id, run_uid=chosen["run_uid"], project=chosen["project"], platform=lab.platform)
    claims = frozenset(volume.claim_name for volume in effective.volumes if volume.claim_name is not None)
    return Assignment(run_id=run_id, **{"admission": RecordingAdmission(identity, claims), **chosen})


def assign_service(lab: Lab, *lines: str, **fields: Any) -> Assignment:
    """A service: its container is started again when it ends."""
    return assign(lab, *lines, spec={"action": "serve", **fields.pop("spec", {})}, **fields)


def assign_with_secret(lab: Lab, value: str, *lines: str, action: str = "job") -> Assignment:
    """A run that gets a secret in the variable `KEY`, and a token."""
    spec = {"action": action, "secrets": (SecretUse(name="KEY"),)}
    return assign(lab, *lines, spec=spec, access=FixedAccess({"KEY": value}, token=f"token-{value}"))


def make_anchor(run: Assignment, uid: str) -> Anchor:
    """The anchor of an assignment."""
    return Anchor(run_uid=run.run_uid, run_id=run.run_id, project=run.project, action=run.effective.action, uid=uid)


async def begin(lab: Lab, run: Assignment) -> Anchor:
    """Anchor it and release it."""
    uid = await lab.engine.ensure_anchor(run)
    await lab.engine.release(run, uid)
    return make_anchor(run, uid)


async def begin_and_see(lab: Lab, run: Assignment, *wanted: Seen) -> Anchor:
    """Begin it, and wait until it is seen like that."""
    anchor = await begin(lab, run)
    await see(lab, anchor, *wanted)
    return anchor


async def see(lab: Lab, anchor: Anchor, *wanted: Seen) -> Observation:
    """Wait until it is seen like that."""
    return await eventually(lab, lambda: lab.engine.observe(anchor), lambda seen: seen.seen in wanted)


async def settle(lab: Lab, run: Assignment, uid: str) -> None:
    """Settle it until it is settled."""
    await eventually(lab, lambda: lab.engine.settle(run, uid), lambda done: done, what="settled")


def to_json(observation: Observation) -> str:
    """All of it, for what must not be in it."""
    return json.dumps(asdict(observation), default=str)


class Recording:
    """What an iterator has yielded so far; it is read all the time, in a task."""

    def __init__(self, items: AsyncIterator[Any]) -> None:
        self.items: list[Any] = []
        self.error: BaseException | None = None
        self.is_ended = False
        self._iterator = items
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for item in self._iterator:
                self.items.append(item)
            self.is_ended = True
        except Exception as error:  # noqa: BLE001 - a test looks at it
            self.error = error

    async def has_ended(self) -> bool:
        return self.is_ended or self.error is not None

    @property
    def observations(self) -> list[Observation]:
        """Of `changes`: all of them, in order."""
        return [seen for batch in self.items for seen in batch]

    async def list_seen(self, run: Assignment) -> list[Seen]:
        """Of `changes`: what was seen of one run, in order."""
        return [seen.seen for seen in self.observations if seen.run_uid == run.run_uid]

    async def read_content(self) -> bytes:
        """Of `follow_log`: the bytes, without gaps."""
        return b"".join(item.content for item in self.items if isinstance(item, LogChunk))


@asynccontextmanager
async def recording(items: AsyncIterator[Any]) -> AsyncIterator[Recording]:
    """Read an iterator meanwhile."""
    made = Recording(items)
    try:
        yield made
    finally:
        made.task.cancel()
        await asyncio.gather(made.task, return_exceptions=True)


async def read_log(lab: Lab, source: LogSource, *, after: str | None = None) -> list[LogChunk | LogGap]:
    """Everything after a position, to the end."""
    async with recording(lab.engine.follow_log(source, after=after)) as log:
        await eventually(lab, log.has_ended, lambda ended: ended, what="the end of the log")
    assert log.error is None, log.error
    return log.items


def join(items: Sequence[LogChunk | LogGap]) -> bytes:
    """The bytes, without gaps."""
    return b"".join(item.content for item in items if isinstance(item, LogChunk))


def assign_again(run: Assignment, *, generation: int) -> Assignment:
    """The same run, after its desired state changed."""
    return replace(run, generation=generation)
