"""Admission of a run's objects by the policy and profile that it was resolved with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.engine import EngineRefusal
from runyard.app.entities import list_volume_claims
from runyard.app.errors import Missing
from runyard.app.model import Run
from runyard.app.ports import UnitOfWork
from runyard.app.rules import RecordedRules
from runyard.domain.admission import AdmittedObjects, admit
from runyard.domain.effective_spec import EffectiveSpec
from runyard.domain.reasons import Reason
from runyard.manifests.environment import TOKEN_VARIABLES, get_platform_envs
from runyard.manifests.identity import PlatformInputs, RunIdentity
from runyard.spec.policy import Policy
from runyard.spec.problems import Problem, Refused
from runyard.spec.profile import Profile

MOST_SHOWN = 5
"""Problems in the message of a refused run; the others are counted."""


@dataclass(frozen=True, slots=True)
class RunAdmission:
    """`app.engine.Admission` of one run. Later changes of the policy or profile do not concern the run."""

    core: Core
    run: Run
    rules: RecordedRules
    """Shared by all runs of a loop."""

    async def admit(
        self,
        objects: Sequence[Mapping[str, Any]],
        *,
        unsent: Sequence[Mapping[str, Any]] = (),
        is_anchor: bool = False,
        kubernetes_version: str = "latest",
    ) -> AdmittedObjects:
        """As `app.engine.Admission.admit`; large objects are checked on the thread for documents."""
        spec = self.run.find_effective()
        if spec is None:
            raise EngineRefusal(Reason.ADMISSION_REFUSED, "the run's client executes it; nothing may be sent for it")
        async with self.core.store.begin(is_read_only=True) as unit:
            try:
                policy, profile = await self._load_rules(unit, spec)
            except Missing as missing:
                message = f"{missing}, with which the run was resolved, is not stored"
                raise EngineRefusal(Reason.ADMISSION_REFUSED, message) from missing
            shared = await _load_shared_claims(unit, spec, self.run.project)
        engine = self.core.engine
        platform = PlatformInputs() if engine is None else engine.platform
        identity = RunIdentity(
            run_id=self.run.id,
            run_uid=self.run.uid,
            project=self.run.project,
            namespace=_find_namespace([*objects, *unsent]),
            platform=platform,
        )
        try:
            return await compute(
                lambda: admit(
                    objects,
                    unsent=unsent,
                    policy=policy,
                    project=self.run.project,
                    profile=profile,
                    kubernetes_version=kubernetes_version,
                    shared_claims=shared,
                    platform_envs=get_platform_envs(identity),
                    is_anchor=is_anchor,
                    platform_secrets=frozenset(TOKEN_VARIABLES if platform.has_token else ()),
                    launcher=platform.launcher,
                    has_registry_secret=platform.has_registry_secret,
                    run_uid=self.run.uid,
                ),
                over=[*objects, *unsent],
            )
        except Refused as refused:
            raise EngineRefusal(Reason.ADMISSION_REFUSED, _describe(refused.problems)) from refused

    async def _load_rules(self, unit: UnitOfWork, spec: EffectiveSpec) -> tuple[Policy, Profile | None]:
        policy = await self.rules.get_policy(unit, self.run.policy_revision)
        if spec.profile is None:
            return policy, None
        if self.run.profile_revision is None:
            raise Missing("revision of profile", spec.profile)
        return policy, await self.rules.get_profile(unit, spec.profile, self.run.profile_revision)


def _find_namespace(objects: Sequence[Mapping[str, Any]]) -> str | None:
    """The namespace that the engine chose: one for all objects, as admission checks."""
    found = next((item.get("metadata", {}).get("namespace") for item in objects), None)
    return found if isinstance(found, str) else None


async def _load_shared_claims(unit: UnitOfWork, spec: EffectiveSpec, project: str) -> frozenset[str]:
    """The claims of the project's kept volumes, as submit knows them; read only if the run mounts one."""
    if not any(volume.type == "shared_volume" for volume in spec.volumes):
        return frozenset()
    return frozenset((await list_volume_claims(unit, project)).values())


def _describe(problems: Sequence[Problem]) -> str:
    """The first problems, without values: one may be a secret's."""
    shown = [f"{problem.where}: {problem.message}" for problem in problems[:MOST_SHOWN]]
    more = len(problems) - len(shown)
    return "; ".join(["the run's objects break a rule", *shown, *([f"and {more} more"] if more else [])])
