"""A run as an engine gets it: its stored spec, and what it may know, read only when it is asked for."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from runyard.app.core import Core
from runyard.app.engine import Assignment, EngineRefusal
from runyard.app.model import Run
from runyard.domain.reasons import Reason

IssueToken = Callable[[Run], Awaitable[str]]
"""Makes a token for a run alone; the composition root gives it."""


@dataclass(frozen=True, slots=True)
class StoredAccess:
    """`app.engine.Access`, from the store, the vault and who issues tokens. Holds no values."""

    core: Core
    run: Run
    issue: IssueToken

    async def read_secrets(self) -> Mapping[str, str]:
        """The newest values of the secrets that the effective spec names."""
        values = {}
        async with self.core.store.begin(is_read_only=True) as unit:
            for name in list_secrets(self.run):
                sealed = await unit.secrets.find(self.run.project, name)
                if sealed is None:
                    raise EngineRefusal(
                        Reason.SECRET_MISSING, f"secret `{name}` has no value any more in project {self.run.project}"
                    )
                values[name] = self.core.vault.open(sealed)
        return values

    async def issue_token(self) -> str:
        """A token for that run alone, another with each call: it ends with the run, or after 30 days."""
        return await self.issue(self.run)


def make_assignment(core: Core, run: Run, *, issue_token: IssueToken) -> Assignment:
    """The run as it is stored now."""
    return Assignment(
        run_id=run.id,
        # A deleted id may be used again; no two runs of one id begin at the same microsecond with the same request.
        incarnation=f"{run.created_at.isoformat()}/{run.request_hash}",
        project=run.project,
        name=run.name,
        kind=run.kind,
        user=run.user,
        function=run.function,
        task=run.task,
        effective=run.effective or {},
        generation=run.desired_generation,
        access=StoredAccess(core, run, issue_token),
    )


def list_secrets(run: Run) -> list[str]:
    """The names of the secrets that a run's effective spec names."""
    uses = (run.effective or {}).get("secrets") or []
    return [str(use["name"]) for use in uses if isinstance(use, Mapping) and "name" in use]
