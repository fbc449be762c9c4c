"""What the reconcile loop writes of a run. Each function decides from the run as it is stored at that moment. Pure."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from runyard.app.engine import (
    LARGEST_DETAILS_BYTES,
    LONGEST_MESSAGE_BYTES,
    LONGEST_REASON_BYTES,
    STATUS_KEYS,
    EngineError,
    EngineFull,
    Observation,
)
from runyard.app.loops.deadlines import Deadline, find_due, note_deadlines
from runyard.app.loops.stored_ends import ENDS, merge_stored_ends
from runyard.app.model import Json, Run
from runyard.app.ports import UNCHANGED, DueIn
from runyard.app.runs import NOTES, Change, Decide, Move
from runyard.app.texts import cut_text
from runyard.domain.lifecycle import State, can_follow, is_final
from runyard.domain.outcomes import Outcome, Seen, judge
from runyard.domain.reasons import Reason

NOW = timedelta(0)
NAME_NOTE = "takes_service_name"
"""The note of a service with a stable name that may not lead to it yet: it is taken once the run is ready."""


def make_ready(run: Run) -> Change | None:
    """Move a run that was stored as CREATED or BUILT to READY."""
    if not can_follow(State(run.state), State.READY):
        return None
    return Change(action="run.ready", moves=(Move(state=State.READY),))


def store_found_anchor(uid: str) -> Decide:
    """Store the UID of an anchor that was created just before a crash; it is stopped or removed with the run."""

    def decide(run: Run) -> Change | None:
        if run.anchor_uid is not None:
            return None
        values = {"anchor_uid": uid, **clear_engine_failure(run)}
        return Change(action="run.anchor", values=values, details={"uid": uid})

    return decide


def hand_over(uid: str, *, engine: str, now: datetime, check_in: timedelta) -> Decide:
    """Store the UID of the run's anchor and move the run to PENDING: the caller releases the anchor next.

    If the run is to stop by now, only the UID is stored: the anchor must be stopped with it. If it has ended by now,
    or has another anchor, nothing is: the caller removes this one. It is looked at again after `check_in`, unless an
    observation comes first.
    """

    def decide(run: Run) -> Change | None:
        if run.anchor_uid not in (None, uid) or State(run.state) in _SETTLED:
            return None
        values: Json = {"anchor_uid": uid, **clear_engine_failure(run)}
        why = {"reason": Reason.ENGINE_RELEASED.value, "message": f"handed to the engine `{engine}`"}
        name_note = {NAME_NOTE: _has_service_name(run) or None}
        if run.desired == "run" and run.state == State.PENDING and run.anchor_uid is None:
            values |= {"status": with_notes(replace(run, **values), **name_note), **why}
            due_in = bound_by_deadline(run, check_in, now=now)  # it waited for room, and its deadlines count since
            return Change(action="run.release", values=values, details={"uid": uid}, due_in=due_in)
        if run.desired != "run" or not can_follow(State(run.state), State.PENDING):
            return Change(action="run.anchor", values=values, details={"uid": uid}, due_in=NOW)
        cleared = replace(run, **values)
        deadlines = note_deadlines(run, released_at=now)
        values["status"] = with_notes(cleared, **deadlines, **name_note)
        released = replace(cleared, state=State.PENDING.value, status=values["status"])
        due_in = bound_by_deadline(released, check_in, now=now)
        move = Move(state=State.PENDING, **why)
        return Change(action="run.release", moves=(move,), values=values, details={"uid": uid}, due_in=due_in)

    return decide


def _has_service_name(run: Run) -> bool:
    effective = run.find_effective()
    return effective is not None and effective.action == "serve" and bool(effective.service_name)


def note_name_taken(run: Run, *, generation: int) -> Change | None:
    """Note that the stable name leads to the run, if it must; not after it was stopped or resumed since."""
    if run.desired_generation != generation or NAME_NOTE not in read_notes(run):
        return None
    return Change(action="run.named", values={"status": with_notes(run, **{NAME_NOTE: None})}, is_audited=False)


def wait_for_room(error: EngineFull, *, now: datetime, retry_in: timedelta) -> Decide:
    """Move the run to PENDING, or keep it so, because the engine has no room for it yet; it may have no anchor.

    Its deadlines count from the first time on. It is tried again after `retry_in`, or at its deadline.
    """
    record = record_engine_failure(error, now=now, where=None)

    def decide(run: Run) -> Change | None:
        recorded = record(run)
        values: Json = {} if recorded is None else dict(recorded.values)
        waiting = replace(run, **values)
        moves: tuple[Move, ...] = ()
        if run.desired == "run" and can_follow(State(run.state), State.PENDING):
            values["status"] = with_notes(waiting, **note_deadlines(run, released_at=now))
            waiting = replace(waiting, state=State.PENDING.value, status=values["status"])
            moves = (Move(state=State.PENDING, reason=waiting.reason, message=waiting.message),)
        due_in = bound_by_deadline(waiting, retry_in, now=now)
        return Change(action="run.waiting", moves=moves, values=values, is_audited=bool(moves), due_in=due_in)

    return decide


def bound_by_deadline(run: Run, due_in: timedelta, *, now: datetime) -> timedelta:
    """When the run is looked at next: after `due_in`, or at its next deadline."""
    due_at = find_due(read_notes(run), State(run.state)) if run.desired == "run" else None
    return due_in if due_at is None or due_at <= now else min(due_in, due_at - now)


def fail_refused(error: EngineError, *, generation: int) -> Decide:
    """Move the run to ERROR, for the reason for which the engine refused it; not if it was resumed since."""

    def decide(run: Run) -> Change | None:
        if run.desired_generation != generation or not can_follow(State(run.state), State.ERROR):
            return None
        reason, message = _bound(error.code, str(error))
        move = Move(state=State.ERROR, reason=reason, message=message)
        return Change(action="run.refused", moves=(move,), values=clear_engine_failure(run), due_in=NOW)

    return decide


def stop_without_anchor(run: Run) -> Change | None:
    """End a run that is to stop, and for which nothing was created: STOPPED, or ERROR if a deadline stopped it."""
    if run.desired != "stop" or run.anchor_uid is not None:
        return None
    state = State.STOPPED if run.state == State.STOP else State.ERROR
    if not can_follow(State(run.state), state):
        return None
    cleared = clear_engine_failure(run)
    why = {"reason": run.reason, "message": run.message, **cleared}
    move = Move(state=state, reason=why["reason"], message=why["message"])
    return Change(action=f"run.{state.value.lower()}", moves=(move,), values=cleared, due_in=NOW)


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
                "status": with_notes(run, overdue=why),
            },
            details=why,
            due_in=NOW,
        )

    return decide


def record_engine_failure(error: EngineError, *, now: datetime, where: str | None) -> Decide:
    """Note since when calls to the engine fail. The state stays; its reason is kept and comes back later.

    A run that has ended keeps the reason of its end: what fails is its clean-up, and is noted beside it.
    """

    def decide(run: Run) -> Change | None:
        failing = read_notes(run).get("failing")
        since = now if failing is None else datetime.fromisoformat(failing["since"])
        has_ended = is_final(State(run.state)) and run.state != State.DELETING
        words = str(error) if where is None else f"engine `{where}`, since {since:%Y-%m-%d %H:%M:%S} UTC: {error}"
        reason, message = _bound(error.code, words)
        if has_ended and (failing is None or "cleanup" in failing or _has_own_reason(run, failing)):
            known = {"since": since.isoformat(), "reason": run.reason, "message": run.message}
            known |= {"told": reason, "cleanup": message}
            if known == failing:
                return None
            return Change(action="run.waiting", values={"status": with_notes(run, failing=known)}, is_audited=False)
        if failing is not None and (run.reason, run.message) == (reason, message):
            return None
        if failing is not None and not _has_own_reason(run, failing):
            known = failing
        else:
            known = {"since": since.isoformat(), "reason": run.reason, "message": run.message}
        known = {**known, "told": reason}
        return Change(
            action="run.waiting",
            values={"reason": reason, "message": message, "status": with_notes(run, failing=known)},
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
    cleared = {"status": with_notes(run, failing=None)}
    if _has_own_reason(run, failing):
        return cleared
    return {"reason": failing["reason"], "message": failing["message"], **cleared}


def _has_own_reason(run: Run, failing: Json) -> bool:
    """Whether somebody gave the run another reason since its calls fail: a user who stopped it, for example."""
    return "told" in failing and run.reason != failing["told"]


def settle(run: Run, *, now: datetime, generation: int) -> Change | None:
    """Note that everything that follows the end is done; not of a later end, after a resume."""
    if run.settled_at is not None or State(run.state) not in _SETTLED or run.desired_generation != generation:
        return None
    values = {"settled_at": now, "is_log_complete": True, **clear_engine_failure(run)}
    return Change(action="run.settled", values=values, is_audited=False, due_in=None)


_SETTLED = frozenset({State.COMPLETED, State.ERROR, State.STOPPED})


def is_about(run: Run, seen: Observation) -> bool:
    """Whether the observation is of the run's anchor, and neither older than what is stored nor than what is wished."""
    if seen.uid != run.anchor_uid:
        return False
    if (seen.epoch, seen.version) < (run.observed_epoch, run.observed_version) and seen.seen is not Seen.ABSENT:
        return False
    return seen.seen is Seen.ABSENT or seen.generation >= run.desired_generation


def record_observation(seen: Observation, *, now: datetime) -> Decide:
    """Write what was observed, if it `is_about` the run and says something new; states only go forward."""

    def decide(stored: Run) -> Change | None:
        state = State(stored.state)
        if not is_about(stored, seen) or state in _SETTLED:
            return None
        if state is State.DELETING:
            return Change(action="run.seen", is_audited=False, due_in=NOW) if seen.seen is Seen.ABSENT else None
        if seen.seen is Seen.HELD and stored.desired == "run":
            return None  # not released yet: the step that stored the UID is about to, or the next look does it
        cleared = clear_engine_failure(stored)
        run = replace(stored, **cleared) if cleared else stored
        outcome = _judge(run, seen)
        values = {"status": _merge_details(run, seen), **_choose_reason(run, seen)}
        if seen.seen is not Seen.ABSENT:
            values["observed_generation"] = seen.generation
        changed = {name: value for name, value in values.items() if value != getattr(stored, name)}
        if outcome is None and changed.keys() <= {"observed_generation"}:
            return None  # nobody reads the generation before the state changes
        if seen.seen is not Seen.ABSENT:
            changed |= {"observed_epoch": seen.epoch, "observed_version": seen.version}
        after = State(stored.state) if outcome is None else outcome.state
        due_in = _find_due_in(run, after, now=now)
        if outcome is None:
            return Change(action="run.seen", values=changed, is_audited=False, due_in=due_in)
        reason, message = _bound(outcome.reason, outcome.message)
        move = Move(state=outcome.state, reason=reason, message=message)
        return Change(action=f"run.{after.value.lower()}", moves=(move,), values=changed, due_in=due_in)

    return decide


def read_notes(run: Run) -> Json:
    """What the loop remembers of a run, in its status."""
    notes: Json = run.status.get(NOTES, {})
    return notes


def with_notes(run: Run, **notes: Any) -> Json:
    """The status with these notes added; a note that is None is removed."""
    merged = {key: value for key, value in {**read_notes(run), **notes}.items() if value is not None}
    kept = {key: value for key, value in run.status.items() if key != NOTES}
    return {**kept, NOTES: merged} if merged else kept


def _find_due_in(run: Run, state: State, *, now: datetime) -> DueIn:
    """When the run is to be looked at after an observation. A run that is to stop keeps its time."""
    if state in _SETTLED:
        return NOW
    if run.desired != "run":
        return UNCHANGED
    if state is State.RUNNING and NAME_NOTE in read_notes(run):
        return NOW
    due_at = find_due(read_notes(run), state)
    return None if due_at is None else max(due_at - now, NOW)


def _judge(run: Run, seen: Observation) -> Outcome | None:
    overdue = read_notes(run).get("overdue")
    reason, message = seen.reason, seen.message or _describe_failure(seen)
    if run.state == State.STOP:
        reason, message = run.reason, run.message
    elif run.desired == "stop" and overdue and seen.seen is not Seen.SUCCEEDED:
        reason, message = overdue["reason"], overdue["message"]
    elif seen.seen is Seen.FAILED and isinstance(reported := run.status.get("message"), str):
        message = f"{reported} ({message})" if message else reported
    return judge(State(run.state), seen.seen, desired=run.desired, reason=reason, message=message)


def _describe_failure(seen: Observation) -> str | None:
    """How the last container failed, in words."""
    failed = [end for end in seen.ends if end.exit_code or end.signal or end.is_out_of_memory]
    if seen.seen is not Seen.FAILED or not failed:
        return None
    end = failed[-1]
    if end.is_out_of_memory:
        peak = f" at {end.peak_bytes} bytes" if end.peak_bytes else ""
        return f"container {end.container} ran out of memory{peak}"
    return f"container {end.container} ended " + (
        f"by signal {end.signal}" if end.signal else f"with exit code {end.exit_code}"
    )


def _choose_reason(run: Run, seen: Observation) -> Json:
    """The engine's reason and message; while the run is being stopped, the reason for the stop stays."""
    is_told = seen.reason is not None or seen.message is not None
    is_waiting = seen.seen is Seen.PENDING and run.reason == Reason.ENGINE_RELEASED
    if run.desired != "run" or seen.seen is Seen.ABSENT or (is_waiting and not is_told):
        return {"reason": run.reason, "message": run.message}
    reason, message = _bound(seen.reason, seen.message)
    return {"reason": reason, "message": message}


def _merge_details(run: Run, seen: Observation) -> Json:
    kept = {key: value for key, value in run.status.items() if key != ENDS}
    ends = merge_stored_ends(run.status.get(ENDS, ()), seen.ends)
    told = {ENDS: ends} if ends else {}
    if seen.seen is Seen.ABSENT:
        return {**{key: value for key, value in kept.items() if key != "service"}, **told}
    details = {key: seen.details[key] for key in STATUS_KEYS if key in seen.details}
    if len(json.dumps(details)) > LARGEST_DETAILS_BYTES:
        details = {}
    return {**{key: value for key, value in kept.items() if key not in STATUS_KEYS}, **details, **told}


def _bound(reason: str | None, message: str | None) -> tuple[str | None, str | None]:
    """A reason and a message that can be stored, whatever a cluster sent."""
    return (
        None if reason is None else cut_text(reason, LONGEST_REASON_BYTES),
        None if message is None else cut_text(message, LONGEST_MESSAGE_BYTES),
    )
