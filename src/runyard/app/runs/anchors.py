"""The anchor of a run, as engines know it."""

from runyard.app.engine import Anchor
from runyard.app.model import Run
from runyard.app.runs.transitions import find_action


def make_anchor(run: Run, uid: str) -> Anchor:
    """The run's anchor of that UID."""
    return Anchor(run_uid=run.uid, run_id=run.id, project=run.project, action=find_action(run) or "", uid=uid)
