"""The same tests for each engine: a `lab` has an engine, and can make time pass and things happen there."""

from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from runyard.app.engine import Anchor, Assignment, Engine
from runyard.domain.effective_spec import EffectiveSpec
from tests.engines.memory import MemoryEngine


@dataclass(frozen=True)
class FixedAccess:
    """`app.engine.Access` with what a test says."""

    secrets: dict[str, str] = field(default_factory=dict)

    async def read_secrets(self) -> dict[str, str]:
        return self.secrets

    async def issue_token(self) -> str:
        return "token"


class Lab(Protocol):
    """What tests need beside the port."""

    engine: Engine

    async def settle(self) -> None:
        """Until what was begun is done."""

    async def finish(self, run_id: str, *, is_success: bool) -> None:
        """The work of a run ends by itself."""

    async def lose(self, run_id: str) -> None:
        """Somebody else deletes its anchor."""


class MemoryLab:
    """The engine in memory."""

    def __init__(self) -> None:
        self.memory = MemoryEngine()
        self.memory.projects = {"p", "q"}
        self.engine: Engine = self.memory

    async def settle(self) -> None:
        self.memory.tick()

    async def finish(self, run_id: str, *, is_success: bool) -> None:
        self.memory.finish(run_id, phase="succeeded" if is_success else "failed")

    async def lose(self, run_id: str) -> None:
        self.memory.lose(run_id)


@pytest.fixture(params=["memory"])
def lab(request: pytest.FixtureRequest) -> Lab:
    """An engine without runs."""
    return {"memory": MemoryLab}[request.param]()


def assign(run_id: str = "r1", **fields: Any) -> Assignment:
    """A container job, generation 1."""
    chosen: dict[str, Any] = {
        "run_uid": f"uid-of-{run_id}",
        "project": "p",
        "name": run_id,
        "kind": "container+job:run",
        "user": "ada",
        "effective": EffectiveSpec(kind="container", action="job", image="busybox", args=("true",)),
        "generation": 1,
        "access": FixedAccess(),
    }
    return Assignment(run_id=run_id, **{**chosen, **fields})


def anchor(uid: str, assignment: Assignment | None = None) -> Anchor:
    """The anchor of an assignment, which is `r1` unless told otherwise."""
    run = assignment or assign()
    return Anchor(run_uid=run.run_uid, run_id=run.run_id, project=run.project, action=run.effective.action, uid=uid)
