"""A run as an engine gets it: its effective spec, and access to its secrets and token, read only on demand."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from runyard.app.core import Core
from runyard.app.engine import Assignment, EngineRefusal
from runyard.app.entities import read_project_registries
from runyard.app.loops.run_admission import RunAdmission
from runyard.app.model import Run
from runyard.app.rules import RecordedRules
from runyard.app.runs import can_be_resumed
from runyard.domain.effective_spec import EffectiveSpec
from runyard.domain.lifecycle import State
from runyard.domain.reasons import Reason
from runyard.spec.registries import RegistryCredential

IssueToken = Callable[[Run], Awaitable[str]]
"""Issues a token for one run; the composition root provides it."""


@dataclass(frozen=True, slots=True)
class StoredAccess:
    """`app.engine.Access` from the store, the vault and the token issuer. Holds no secret values."""

    core: Core
    run: Run
    issue: IssueToken
    has_registries: bool = True
    """False: it was just read that the project has no registry credentials."""

    async def read_secrets(self) -> Mapping[str, str]:
        """The current values of the secrets that the effective spec names; `EngineRefusal` if one has none."""
        values = {}
        async with self.core.store.begin(is_read_only=True) as unit:
            for use in get_effective(self.run).secrets:
                sealed = await unit.secrets.find(self.run.project, use.name)
                if sealed is None:
                    raise EngineRefusal(
                        Reason.SECRET_MISSING, f"secret `{use.name}` of project {self.run.project} has no value anymore"
                    )
                values[use.name] = self.core.vault.open(sealed)
        return values

    async def read_registries(self) -> Mapping[str, RegistryCredential]:
        """Those of the project's secret `DOCKER_AUTH_CONFIG` as it is now; none if it has no value."""
        return await read_project_registries(self.core, self.run.project) if self.has_registries else {}

    async def issue_token(self) -> str:
        """A new token for this run alone; it expires with the run, or after 30 days."""
        return await self.issue(self.run)


def make_assignment(
    core: Core, run: Run, *, issue_token: IssueToken, rules: RecordedRules, has_registries: bool = True
) -> Assignment:
    """The run as it is stored now. `has_registries` is False if its project is known to have no credentials now."""
    return Assignment(
        run_id=run.id,
        run_uid=run.uid,
        project=run.project,
        name=run.name,
        kind=run.kind,
        user=run.user,
        function=run.function,
        task=run.task,
        effective=get_effective(run),
        created_at=run.created_at,
        generation=run.desired_generation,
        can_be_resumed=run.state not in (State.COMPLETED, State.ERROR) and can_be_resumed(run),
        access=StoredAccess(core, run, issue_token, has_registries),
        admission=RunAdmission(core, run, rules),
    )


def get_effective(run: Run) -> EffectiveSpec:
    """The effective spec of a run that an engine executes: it always has one."""
    effective = run.find_effective()
    if effective is None:
        raise RuntimeError(f"run {run.id} has no effective spec")
    return effective
