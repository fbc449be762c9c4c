"""What the reconcile loop writes of a run. Each function decides from the run as it is stored at that moment. Pure."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from runyard.app.engine import STATUS_KEYS, EngineError, Observation
from runyard.app.loops.deadlines import Deadline
from runyard.app.model import Json, Run
from runyard.app.ports import UNCHANGED
from runyard.app.runs import NOTES, Change, Decide, Move
from runyard.domain.lifecycle import State, can_follow, is_final
from runyard.domain.outcomes import Outcome, Seen, judge
from runyard.domain.reasons import Reason


def make_ready(run: Run) -> Change | None:
    """Move a run that was stored as CREATED or BUILT to READY."""
    if not can_follow(State(run.state), State.READY):
        return None
    return Change(action="run.ready", moves=(Move(state=State.READY),))


def store_anchor(uid: str) -> Decide:
    """Store the UID of the run's anchor, even if the run is to stop by now: the anchor must be stopped with it."""

    def decide(run: Run) -> Change | None:
        if run.anchor_uid is not None:
            return None
        values = {"anchor_uid": uid, **clear_engine_failure(run)}
        return Change(action="run.anchor", values=values, details={"uid": uid})

    return decide


def mark_released(generation: int, engine: str) -> Decide:
    """Move the run to PENDING: the engine has it, and has not been seen running it yet."""

    def decide(run: Run) -> Change | None:
        if run.desired_generation != generation or not can_follow(State(run.state), State.PENDING):
            return None
        move = Move(state=State.PENDING, reason=Reason.ENGINE_RELEASED, message=f"handed to the engine `{engine}`")
        return Change(action="run.release", moves=(move,), values=clear_engine_failure(run))

    return decide


def fail_refused(error: EngineError) -> Decide:
    """Move the run to ERROR, for the reason for which the engine refused it."""

    def decide(run: Run) -> Change | None:
        if not can_follow(State(run.state), State.ERROR):
            return None
        move = Move(state=State.ERROR, reason=error.code, message=str(error))
        return Change(action="run.refused", moves=(move,), values=clear_engine_failure(run), due_in=None)

    return decide


def stop_without_anchor(run: Run) -> Change | None:
    """Move a run that is to stop to STOPPED: nothing was created for it."""
    if run.state != State.STOP or run.anchor_uid is not None:
        return None
    cleared = clear_engine_failure(run)
    why = {"reason": run.reason, "message": run.message, **cleared}
    move = Move(state=State.STOPPED, reason=why["reason"], message=why["message"])
    return Change(action="run.stopped", moves=(move,), values=cleared, due_in=None)


def request_stop(deadline: Deadline) -> Decide:
    """Request a stop because a deadline has passed. The state stays as observed."""

    def decide(run: Run) -> Change | None:
        if run.desired != "run" or is_final(State(run.state)):
            return None
        why = {"reason": deadline.reason.value, "message": deadline.message}
        return Change(
            action="run.timeout",
            values={
                **why,
                "desired": "stop",
                "desired_generation": run.desired_generation + 1,
                "status": _with_notes(run, overdue=why),
            },
            details=why,
        )

    return decide


def record_engine_failure(error: EngineError, *, now: datetime, engine: str | None) -> Decide:
    """Note since when calls to the engine fail. The state stays; its reason is kept and comes back later."""

    def decide(run: Run) -> Change | None:
        if "failing" in read_notes(run):
            return None
        failing = {"since": now.isoformat(), "reason": run.reason, "message": run.message}
        message = str(error) if engine is None else f"engine `{engine}`, since {now:%Y-%m-%d %H:%M:%S} UTC: {error}"
        return Change(
            action="run.waiting",
            values={"reason": error.code, "message": message, "status": _with_notes(run, failing=failing)},
            is_audited=False,
        )

    return decide


def find_failing_since(run: Run) -> datetime | None:
    """Since when calls to the engine fail for this run."""
    failing = read_notes(run).get("failing")
    return datetime.fromisoformat(failing["since"]) if failing else None


def clear_engine_failure(run: Run) -> Json:
    """The fields that undo `record_engine_failure`; none if it was not called."""
    failing = read_notes(run).get("failing")
    if not failing:
        return {}
    return {"reason": failing["reason"], "message": failing["message"], "status": _with_notes(run, failing=None)}


def record_observation(seen: Observation) -> Decide:
    """Write what was observed, unless it is of another anchor, or older than what is stored or desired."""

    def decide(stored: Run) -> Change | None:
        if seen.uid != stored.anchor_uid or is_final(State(stored.state)) or _is_outdated(seen, stored):
            return None
        run = replace(stored, **clear_engine_failure(stored))
        outcome = _judge(run, seen)
        values = {"status": _merge_details(run, seen), **_choose_reason(run, seen)}
        if seen.seen is not Seen.ABSENT:
            values["observed_generation"] = seen.generation
        changed = {name: value for name, value in values.items() if value != getattr(stored, name)}
        if outcome is None:
            return _update_unaudited(stored, changed)
        move = Move(state=outcome.state, reason=outcome.reason, message=outcome.message)
        due_in = None if is_final(outcome.state) else UNCHANGED
        return Change(action=f"run.{outcome.state.value.lower()}", moves=(move,), values=changed, due_in=due_in)

    return decide


def read_notes(run: Run) -> Json:
    """What the loop remembers of a run, in its status."""
    notes: Json = run.status.get(NOTES, {})
    return notes


def _update_unaudited(stored: Run, changed: Json) -> Change | None:
    """Write nothing for a new version alone, which nobody reads. Pods that come and go are not audited."""
    is_only_version = changed.keys() == {"status"} and _drop_version(changed["status"]) == _drop_version(stored.status)
    return None if not changed or is_only_version else Change(action="run.seen", values=changed, is_audited=False)


def _drop_version(status: Json) -> Json:
    notes = {key: value for key, value in status.get(NOTES, {}).items() if key != "version"}
    return {**status, NOTES: notes}


def _is_outdated(seen: Observation, run: Run) -> bool:
    if seen.seen is Seen.ABSENT:
        return False
    return seen.generation < run.desired_generation or seen.version < read_notes(run).get("version", 0)


def _judge(run: Run, seen: Observation) -> Outcome | None:
    overdue = read_notes(run).get("overdue")
    reason, message = seen.reason, seen.message
    if run.state == State.STOP:
        reason, message = run.reason, run.message
    elif run.desired == "stop" and overdue and seen.seen is not Seen.SUCCEEDED:
        reason, message = overdue["reason"], overdue["message"]
    elif seen.seen is Seen.FAILED and isinstance(reported := run.status.get("message"), str):
        message = f"{reported} ({message})" if message else reported
    return judge(State(run.state), seen.seen, desired=run.desired, reason=reason, message=message)


def _choose_reason(run: Run, seen: Observation) -> Json:
    """The engine's reason and message; while the run is being stopped, the reason for the stop stays."""
    if run.desired != "run" or seen.seen is Seen.ABSENT:
        return {"reason": run.reason, "message": run.message}
    return {"reason": seen.reason, "message": seen.message}


def _merge_details(run: Run, seen: Observation) -> Json:
    if seen.seen is Seen.ABSENT:
        return {key: value for key, value in run.status.items() if key != "service"}
    details = {key: seen.details[key] for key in STATUS_KEYS if key in seen.details}
    kept = {key: value for key, value in _with_notes(run, version=seen.version).items() if key not in STATUS_KEYS}
    return {**kept, **details}


def _with_notes(run: Run, **notes: Any) -> Json:
    """The status with these notes added; a note that is None is removed."""
    merged = {key: value for key, value in {**read_notes(run), **notes}.items() if value is not None}
    kept = {key: value for key, value in run.status.items() if key != NOTES}
    return {**kept, NOTES: merged} if merged else kept
