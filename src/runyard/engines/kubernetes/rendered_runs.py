"""Renders a run's objects and lets its admission admit them. Nothing else is sent to the cluster."""

from collections.abc import Mapping
from dataclasses import replace

from runyard.app.engine import Anchor, Assignment, EngineRefusal
from runyard.domain.admission import AdmittedObject, AdmittedObjects
from runyard.domain.reasons import Reason
from runyard.manifests.identity import Owner, PlatformInputs, RunIdentity
from runyard.manifests.names import run_name
from runyard.manifests.render import (
    render_alias,
    render_anchor,
    render_dependents,
    render_kept_claims,
    render_preview,
)
from runyard.spec.problems import Refused

MOST_PROBLEMS = 10
"""How many reasons why a run cannot be rendered its message names."""


class RenderedRuns:
    """Renders runs for one installation; `namespace` of a run is where its project has its objects."""

    def __init__(self, platform: PlatformInputs, *, installation: str) -> None:
        self._platform = platform
        self._installation = installation

    def identify(
        self, assignment: Assignment, *, namespace: str, has_registry_secret: bool | None = None
    ) -> RunIdentity:
        """The run as `manifests` knows it. Not every project has the registry credentials that the platform allows."""
        platform = self._platform
        if has_registry_secret is not None:
            platform = replace(platform, has_registry_secret=platform.has_registry_secret and has_registry_secret)
        return RunIdentity(
            run_id=assignment.run_id,
            run_uid=assignment.run_uid,
            project=assignment.project,
            namespace=namespace,
            installation=self._installation,
            user=assignment.user,
            function=assignment.function,
            run_name=assignment.name,
            generation=assignment.generation,
            platform=platform,
        )

    async def admit_anchor(self, assignment: Assignment, *, namespace: str) -> AdmittedObject:
        """The object that the run begins with, held back; raises `EngineRefusal`."""
        has_registries = bool(await assignment.access.read_registries())
        identity = self.identify(assignment, namespace=namespace, has_registry_secret=has_registries)
        try:
            anchor = render_anchor(assignment.effective, identity)
            preview = render_preview(assignment.effective, identity)
        except Refused as refused:
            raise _refuse(refused) from refused
        (admitted,) = await assignment.admission.admit([anchor], unsent=preview, is_anchor=True)
        return admitted

    async def admit_dependents(self, assignment: Assignment, uid: str, *, namespace: str) -> AdmittedObjects:
        """What the anchor of that UID needs and owns, values of secrets among it.

        Raises `EngineRefusal`, and what `Access` raises.
        """
        secrets: Mapping[str, str] = await assignment.access.read_secrets()
        token = await assignment.access.issue_token() if self._platform.has_token else None
        identity = self.identify(assignment, namespace=namespace)
        try:
            anchor = render_anchor(assignment.effective, identity)
            owner = Owner(anchor["kind"], anchor["metadata"]["name"], uid)
            objects = render_dependents(assignment.effective, identity, owner=owner, secret_values=secrets, token=token)
            kept = render_kept_claims(assignment.effective, identity)
        except Refused as refused:
            raise _refuse(refused) from refused
        return await assignment.admission.admit(objects, unsent=[anchor, *kept], is_anchor=True)

    async def admit_alias(self, assignment: Assignment, uid: str, *, namespace: str) -> AdmittedObject | None:
        """The Service with the stable name, owned by the anchor of that UID; None if the run has none.

        Raises `EngineRefusal`.
        """
        identity = self.identify(assignment, namespace=namespace)
        try:
            anchor = render_anchor(assignment.effective, identity)
            owner = Owner(anchor["kind"], anchor["metadata"]["name"], uid)
            alias = render_alias(assignment.effective, identity, owner=owner)
            preview = render_preview(assignment.effective, identity)
        except Refused as refused:
            raise _refuse(refused) from refused
        if alias is None:
            return None
        name = alias["metadata"]["name"]
        others = [one for one in preview if (one["kind"], one["metadata"]["name"]) != (alias["kind"], name)]
        (admitted,) = await assignment.admission.admit([alias], unsent=[anchor, *others], is_anchor=True)
        return admitted


def name_anchor(run: Assignment | Anchor) -> str:
    """The name of the object that the run begins with."""
    return run_name(RunIdentity(run_id=run.run_id, run_uid=run.run_uid, project=run.project))


def _refuse(refused: Refused) -> EngineRefusal:
    # Without values: one of them may be a secret's.
    told = "; ".join(f"{problem.where}: {problem.message}" for problem in refused.problems[:MOST_PROBLEMS])
    return EngineRefusal(Reason.ADMISSION_REFUSED, f"the run cannot be rendered: {told}")
