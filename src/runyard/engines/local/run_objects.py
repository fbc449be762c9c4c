"""Renders a run's objects and lets its admission admit them. Nothing else is ever executed or stored."""

import json

from runyard.app.engine import Assignment, EngineRefusal
from runyard.domain.admission import AdmittedObjects
from runyard.domain.reasons import Reason
from runyard.engines.local.pod_plans import AdmittedRun, read_admitted
from runyard.manifests.identity import Owner, PlatformInputs, RunIdentity
from runyard.manifests.names import run_name
from runyard.manifests.render import render_anchor, render_dependents, render_kept_claims, render_preview
from runyard.spec.problems import Refused

NAMESPACE = None
"""There is no cluster: nothing is in a namespace."""


def identify(assignment: Assignment, platform: PlatformInputs) -> RunIdentity:
    """The run as `manifests` knows it."""
    return RunIdentity(
        run_id=assignment.run_id,
        run_uid=assignment.run_uid,
        project=assignment.project,
        namespace=NAMESPACE,
        generation=assignment.generation,
        platform=platform,
    )


def name_run(assignment: Assignment, platform: PlatformInputs) -> str:
    """The name of the run's objects."""
    return run_name(identify(assignment, platform))


async def admit_anchor(assignment: Assignment, platform: PlatformInputs) -> AdmittedObjects:
    """The object that the run begins with; raises `EngineRefusal`."""
    identity = identify(assignment, platform)
    try:
        anchor = render_anchor(assignment.effective, identity)
        preview = render_preview(assignment.effective, identity)
    except Refused as refused:
        raise _refuse(refused) from refused
    return await assignment.admission.admit([anchor], unsent=preview, is_anchor=True)


async def admit_run(assignment: Assignment, uid: str, platform: PlatformInputs) -> AdmittedObjects:
    """Everything that is executed, secrets among it; raises `EngineRefusal`, and what `Access` raises."""
    secrets, token = await assignment.access.read_secrets(), await assignment.access.issue_token()
    identity = identify(assignment, platform)
    try:
        anchor = render_anchor(assignment.effective, identity)
        owner = Owner(anchor["kind"], anchor["metadata"]["name"], uid)
        objects = render_dependents(
            assignment.effective,
            identity,
            owner=owner,
            secret_values=secrets,
            token=token if platform.has_token else None,
        )
        kept = render_kept_claims(assignment.effective, identity)
    except Refused as refused:
        raise _refuse(refused) from refused
    return await assignment.admission.admit([anchor, *objects], unsent=kept, is_anchor=True)


def parse_admitted(objects: AdmittedObjects) -> AdmittedRun:
    """The objects as they are executed: read from the bytes that were admitted."""
    return read_admitted([json.loads(item.body) for item in objects])


def _refuse(refused: Refused) -> EngineRefusal:
    # Without values: one of them may be a secret's.
    told = "; ".join(f"{problem.where}: {problem.message}" for problem in refused.problems[:10])
    return EngineRefusal(Reason.ADMISSION_REFUSED, f"the run cannot be rendered: {told}")
