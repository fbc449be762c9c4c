"""Stop a run, from every state that is not final."""

from datetime import timedelta

from runyard.app.core import Core
from runyard.app.model import Principal, Run
from runyard.app.runs.transitions import Change, Move, change_run, is_without_engine
from runyard.domain.lifecycle import State, is_final
from runyard.domain.reasons import Reason


async def stop_run(core: Core, who: Principal, project: str, run_id: str, *, words: str | None = None) -> Run:
    """Request a stop; the reconcile loop performs it. Idempotent: a run that is stopping or has ended stays as it is.

    If nothing can exist for the run, it is STOPPED at once. `words` say why, for people. Raises `Missing`.
    """

    def decide(run: Run) -> Change | None:
        state = State(run.state)
        if is_final(state) or state is State.STOP:
            return None
        why = {"reason": Reason.USER_STOP, "message": f"stopped by {who.name}{f': {words}' if words else ''}"}
        is_over = is_without_engine(run)
        last = (Move(state=State.STOPPED, **why),) if is_over else ()
        return Change(
            action="run.stop",
            moves=(Move(state=State.STOP, **why), *last),
            values={"desired": "stop", "desired_generation": run.desired_generation + 1},
            due_in=None if is_over else timedelta(0),
        )

    return await change_run(core, who, project, run_id, decide)
