"""Runs: submit, explain, read, follow, stop, resume, report, delete; and policies rehearsed against stored runs.

Start in `submission.py`. `transitions.py` is the only module that changes a run's state. May import `entities` and
`rules`.
"""

from runyard.app.runs.anchors import make_anchor
from runyard.app.runs.client_reports import report_run
from runyard.app.runs.place_defaults import list_place_defaults
from runyard.app.runs.policy_rehearsal import rehearse_candidate
from runyard.app.runs.request_export import RequestExport, RequestFilter
from runyard.app.runs.resume import resume_run
from runyard.app.runs.run_deletion import (
    begin_run_deletions,
    delete_run,
    delete_runs,
    finish_deletions,
    finish_run_deletion,
)
from runyard.app.runs.run_follower import RunFollower, follow_run
from runyard.app.runs.run_plans import explain_run, render_planned_run
from runyard.app.runs.run_queries import get_run, list_newest_transitions, list_runs
from runyard.app.runs.run_volumes import RunEnd, RunVolume, list_run_volumes, lock_run_volumes, make_expiry, read_end
from runyard.app.runs.stop import stop_run
from runyard.app.runs.submission import submit_run
from runyard.app.runs.transitions import (
    NOTES,
    RESUMABLE,
    SYSTEM,
    Change,
    Decide,
    Move,
    can_be_resumed,
    check_own_run,
    check_same_run,
    find_action,
    require_run,
    write_change,
    write_changes,
)

__all__ = [
    "NOTES",
    "RESUMABLE",
    "SYSTEM",
    "Change",
    "Decide",
    "Move",
    "RequestExport",
    "RequestFilter",
    "RunEnd",
    "RunFollower",
    "RunVolume",
    "begin_run_deletions",
    "can_be_resumed",
    "check_own_run",
    "check_same_run",
    "delete_run",
    "delete_runs",
    "explain_run",
    "find_action",
    "finish_deletions",
    "finish_run_deletion",
    "follow_run",
    "get_run",
    "list_newest_transitions",
    "list_place_defaults",
    "list_run_volumes",
    "list_runs",
    "lock_run_volumes",
    "make_anchor",
    "make_expiry",
    "read_end",
    "rehearse_candidate",
    "render_planned_run",
    "report_run",
    "require_run",
    "resume_run",
    "stop_run",
    "submit_run",
    "write_change",
    "write_changes",
]
