"""What `MemoryEngine` would send to a cluster: the objects of a run, through its admission."""

from collections.abc import Mapping

from runyard.app.engine import Assignment, EngineRefusal
from runyard.domain.admission import AdmittedObjects
from runyard.domain.reasons import Reason
from runyard.manifests.identity import Owner, PlatformInputs, RunIdentity
from runyard.manifests.render import render_anchor, render_dependents, render_kept_claims, render_preview
from runyard.spec.problems import Refused

PLATFORM = PlatformInputs(endpoint="http://localhost:8080", has_token=True)
"""What every run gets."""


async def admit_anchor(assignment: Assignment) -> AdmittedObjects:
    """The anchor; raises `EngineRefusal`."""
    identity = _identify(assignment)
    try:
        anchor = render_anchor(assignment.effective, identity)
        preview = render_preview(assignment.effective, identity)
    except Refused as refused:
        raise EngineRefusal(Reason.ADMISSION_REFUSED, "the run cannot be rendered") from refused
    return await assignment.admission.admit([anchor], unsent=preview, is_anchor=True)


async def admit_dependents(
    assignment: Assignment, uid: str, *, secrets: Mapping[str, str], token: str
) -> AdmittedObjects:
    """What the anchor of that UID needs and owns; raises `EngineRefusal`."""
    identity = _identify(assignment)
    try:
        anchor = render_anchor(assignment.effective, identity)
        owner = Owner(anchor["kind"], anchor["metadata"]["name"], uid)
        objects = render_dependents(assignment.effective, identity, owner=owner, secret_values=secrets, token=token)
        kept = render_kept_claims(assignment.effective, identity)
    except Refused as refused:
        raise EngineRefusal(Reason.ADMISSION_REFUSED, "the run cannot be rendered") from refused
    return await assignment.admission.admit(objects, unsent=[anchor, *kept], is_anchor=True)


def _identify(assignment: Assignment) -> RunIdentity:
    return RunIdentity(
        run_id=assignment.run_id,
        run_uid=assignment.run_uid,
        project=assignment.project,
        generation=assignment.generation,
        platform=PLATFORM,
    )
