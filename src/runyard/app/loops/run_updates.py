"""What the reconcile loop writes of a run, decided from the run as it is stored at that moment. Pure."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from runyard.app.engine import STATUS_KEYS, EngineError, Observation
from runyard.app.loops.deadlines import Deadline
from runyard.app.model import Json, Run
from runyard.app.runs import NOTES, Change, Decide, Move
from runyard.domain.lifecycle import State, can_follow, is_final
from runyard.domain.outcomes import Outcome, Seen, judge
from runyard.domain.reasons import Reason


def make_ready(run: Run) -> Change | None:
    """A run that was stored before it was ready is ready now."""
    if not can_follow(State(run.state), State.READY):
        return None
    return Change(action="run.ready", moves=(Move(state=State.READY),))


def keep_anchor(uid: str) -> Decide:
    """The UID of its anchor, whatever is wanted of the run by now: it must be stopped or removed with it."""

    def decide(run: Run) -> Change | None:
        if run.anchor_uid is not None:
            return None
        return Change(
            action="run.anchor", values={"anchor_uid": uid, **forget_failure(run)}, details={"uid": uid}, is_due=False
        )

    return decide


def note_release(generation: int, engine: str) -> Decide:
    """It was released, and waits for its place until it is seen at work."""

    def decide(run: Run) -> Change | None:
        if run.desired_generation != generation or not can_follow(State(run.state), State.PENDING):
            return None
        move = Move(state=State.PENDING, reason=Reason.ENGINE_RELEASED, message=f"handed to the engine `{engine}`")
        return Change(action="run.release", moves=(move,), values=forget_failure(run))

    return decide


def refuse(error: EngineError) -> Decide:
    """The engine will not have it, and says why."""

    def decide(run: Run) -> Change | None:
        if not can_follow(State(run.state), State.ERROR):
            return None
        move = Move(state=State.ERROR, reason=error.code, message=str(error))
        return Change(action="run.refused", moves=(move,), values={**forget_failure(run), "due_at": None})

    return decide


def end_unmade(run: Run) -> Change | None:
    """It was stopped before anything was made for it."""
    if run.state != State.STOP or run.anchor_uid is not None:
        return None
    kept = {"reason": run.reason, "message": run.message, **forget_failure(run)}
    move = Move(state=State.STOPPED, reason=kept["reason"], message=kept["message"])
    return Change(action="run.stopped", moves=(move,), values={**forget_failure(run), "due_at": None})


def ask_to_stop(deadline: Deadline) -> Decide:
    """A timer has run out: the run is to be stopped. Its state stays what is seen."""

    def decide(run: Run) -> Change | None:
        if run.desired != "run" or is_final(State(run.state)):
            return None
        why = {"reason": deadline.reason, "message": deadline.message}
        return Change(
            action="run.timeout",
            values={
                **why,
                "desired": "stop",
                "desired_generation": run.desired_generation + 1,
                "status": _note(run, overdue=why),
            },
            details=why,
        )

    return decide


def note_failure(error: EngineError, *, now: datetime, engine: str | None) -> Decide:
    """An engine's call failed: the run stays as it is and says since when."""

    def decide(run: Run) -> Change | None:
        if "failing" in read_notes(run):
            return None
        failing = {"since": now.isoformat(), "reason": run.reason, "message": run.message}
        told = str(error) if engine is None else f"engine `{engine}`, since {now:%Y-%m-%d %H:%M:%S} UTC: {error}"
        return Change(
            action="run.waiting",
            values={"reason": error.code, "message": told, "status": _note(run, failing=failing)},
            is_audited=False,
        )

    return decide


def find_failing_since(run: Run) -> datetime | None:
    """Since when the engine's calls for that run fail."""
    failing = read_notes(run).get("failing")
    return datetime.fromisoformat(failing["since"]) if failing else None


def forget_failure(run: Run) -> Json:
    """The fields of a run for which the engine answers again, as they were before."""
    failing = read_notes(run).get("failing")
    if not failing:
        return {}
    return {"reason": failing["reason"], "message": failing["message"], "status": _note(run, failing=None)}


def record(seen: Observation) -> Decide:
    """What was seen, unless it is of another anchor, or older than what is known or wanted."""

    def decide(stored: Run) -> Change | None:
        if seen.uid != stored.anchor_uid or is_final(State(stored.state)) or _is_old(seen, stored):
            return None
        run = replace(stored, **forget_failure(stored))
        outcome = _judge(run, seen)
        values = {"status": _take_details(run, seen), **_take_words(run, seen)}
        if seen.seen is not Seen.ABSENT:
            values["observed_generation"] = seen.generation
        changed = {name: value for name, value in values.items() if value != getattr(stored, name)}
        if outcome is None:
            return _write_quietly(stored, changed)
        move = Move(state=outcome.state, reason=outcome.reason, message=outcome.message)
        ended: Json = {"due_at": None} if is_final(outcome.state) else {}
        return Change(action=f"run.{outcome.state.value.lower()}", moves=(move,), values={**changed, **ended})

    return decide


def read_notes(run: Run) -> Json:
    """What the loop remembers of a run."""
    notes: Json = run.status.get(NOTES, {})
    return notes


def _write_quietly(stored: Run, changed: Json) -> Change | None:
    """Not for a version alone, which nobody reads; not in the audit, where pods that come and go are no news."""
    is_only_version = changed.keys() == {"status"} and _strip(changed["status"]) == _strip(stored.status)
    return None if not changed or is_only_version else Change(action="run.seen", values=changed, is_audited=False)


def _strip(status: Json) -> Json:
    notes = {key: value for key, value in status.get(NOTES, {}).items() if key != "version"}
    return {**status, NOTES: notes}


def _is_old(seen: Observation, run: Run) -> bool:
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


def _take_words(run: Run, seen: Observation) -> Json:
    """Why it is as it is, in the engine's words; while it is being stopped, that stays the news."""
    if run.desired != "run" or seen.seen is Seen.ABSENT:
        return {"reason": run.reason, "message": run.message}
    return {"reason": seen.reason, "message": seen.message}


def _take_details(run: Run, seen: Observation) -> Json:
    if seen.seen is Seen.ABSENT:
        return {key: value for key, value in run.status.items() if key != "service"}
    details = {key: seen.details[key] for key in STATUS_KEYS if key in seen.details}
    kept = {key: value for key, value in _note(run, version=seen.version).items() if key not in STATUS_KEYS}
    return {**kept, **details}


def _note(run: Run, **notes: Any) -> Json:
    """The status with notes added; those that are None go."""
    merged = {key: value for key, value in {**read_notes(run), **notes}.items() if value is not None}
    kept = {key: value for key, value in run.status.items() if key != NOTES}
    return {**kept, NOTES: merged} if merged else kept
