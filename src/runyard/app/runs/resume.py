"""Resume a stopped service."""

from datetime import timedelta

from runyard.app.core import Core
from runyard.app.errors import NotPossible
from runyard.app.model import Principal, Run
from runyard.app.runs.transitions import NOTES, Change, Move, can_be_resumed, change_run, find_action
from runyard.domain.lifecycle import State
from runyard.domain.reasons import Reason
from runyard.spec.problem_codes import Code


async def resume_run(core: Core, who: Principal, project: str, run_id: str, *, words: str | None = None) -> Run:
    """Request that a stopped service continues; the reconcile loop performs it. Idempotent.

    `words` say why, for people. Raises `Missing`, and `NotPossible` with the reason.
    """

    def decide(run: Run) -> Change | None:
        if run.state == State.RESUME:
            return None
        _check(core, run)
        message = f"resumed by {who.name}{f': {words}' if words else ''}"
        return Change(
            action="run.resume",
            moves=(Move(state=State.RESUME, reason=Reason.USER_RESUME, message=message),),
            values={
                "desired": "run",
                "desired_generation": run.desired_generation + 1,
                "status": {key: value for key, value in run.status.items() if key not in (NOTES, "message")},
            },
            due_in=timedelta(0),
        )

    return await change_run(core, who, project, run_id, decide)


def _check(core: Core, run: Run) -> None:
    if run.is_local:
        raise NotPossible(Code.RESUME_LOCAL, "the client executes this run: start it again there")
    if not can_be_resumed(run):
        action = find_action(run) or "run"
        raise NotPossible(
            Code.RESUME_KIND, f"a {action} cannot be resumed, only `serve` and `deploy` can: run it again instead"
        )
    if run.state != State.STOPPED:
        raise NotPossible(Code.RESUME_STATE, f"only a STOPPED run can be resumed, and this one is {run.state}")
    if core.engine is None:
        raise NotPossible(Code.ENGINE_NONE, "no engine is configured: nothing can be resumed")
