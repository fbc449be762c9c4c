"""What clients say about a run by PUT: results of remote runs, the whole life of local ones."""

from dataclasses import dataclass
from typing import Any

from runyard.app.core import Core
from runyard.app.documents import Written, check_project, read_written
from runyard.app.engine import STATUS_KEYS
from runyard.app.errors import NotPossible
from runyard.app.model import Json, Principal, Run
from runyard.app.usecases.transitions import NOTES, Change, Move, change_run
from runyard.domain.lifecycle import State, can_follow
from runyard.spec.problems import Problem, Refused

_TAKEN = ("outputs", "results", "metrics")
"""What a client may say of a run that an engine executes."""
_OURS = frozenset({*STATUS_KEYS, NOTES, "state", "transitions", "reason"})
"""What no client says."""
_DRIVEN = (State.CREATED, State.BUILT, State.READY, State.PENDING, State.RUNNING, State.COMPLETED, State.ERROR)
"""The states that a client takes a local run through."""
_FIXED_SPEC = ("task", "function", "workflow", "local_execution")
_FIXED_METADATA = ("project", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    who: Principal
    written: Written


async def report_run(
    core: Core, who: Principal, project: str, run_id: str, document: Any, *, expected_revision: int | None = None
) -> Run:
    """Take what the client may say and keep the rest; a stale state changes nothing, and is no error.

    Of a remote run: outputs, results, metrics, metadata, and from its own token the message. Of a local run: state,
    spec and status too. Raises `Missing`, `Forbidden`, `Conflict`, `Refused`, and `NotPossible` for a state that is
    not the client's to set.
    """
    written = read_written(document)
    if problems := check_project(written, project):
        raise Refused(problems)
    report = _Report(who=who, written=written)

    def decide(run: Run) -> Change | None:
        _check_identity(run, written)
        return _decide_local(report, run) if run.is_local else _decide_remote(report, run)

    return await change_run(core, who, project, run_id, decide, expected_revision=expected_revision)


def _decide_remote(report: _Report, run: Run) -> Change | None:
    said = {key: value for key, value in report.written.status.items() if key in _TAKEN}
    message = report.written.status.get("message")
    # Others send back the message that they last saw; only the run itself has something to tell.
    if report.who.run_id == run.id and isinstance(message, str):
        said["message"] = message
    values = _find_changed(run, {"metadata": _merge_metadata(report, run), "status": {**run.status, **said}})
    return Change(action="run.report", values=values, details=_note_stale(report, run)) if values else None


def _decide_local(report: _Report, run: Run) -> Change | None:
    written = report.written
    said = {key: value for key, value in written.status.items() if key not in _OURS}
    fixed = {key: run.spec[key] for key in _FIXED_SPEC if key in run.spec}
    moves = _find_moves(run, written)
    values = _find_changed(
        run,
        {
            "metadata": _merge_metadata(report, run),
            "status": {**run.status, **said},
            "spec": {**written.spec, **fixed} if written.spec else run.spec,
        },
    )
    if not moves and not values:
        return None
    details = {} if moves else _note_stale(report, run)
    return Change(action="run.report", moves=moves, values=values, details=details)


def _find_moves(run: Run, written: Written) -> tuple[Move, ...]:
    if written.state is None or written.state == run.state:
        return ()
    if written.state not in _DRIVEN:
        allowed = ", ".join(state.value for state in _DRIVEN)
        raise NotPossible("state.reported", f"a client cannot set the state {written.state}; allowed: {allowed}")
    state, message = State(written.state), written.status.get("message")
    if not can_follow(State(run.state), state):
        return ()
    reason = "client.error" if state is State.ERROR else "client.report"
    return (Move(state=state, reason=reason, message=message if isinstance(message, str) else None),)


def _merge_metadata(report: _Report, run: Run) -> Json:
    fixed = {key: run.metadata[key] for key in _FIXED_METADATA if key in run.metadata}
    return {**run.metadata, **report.written.metadata, **fixed}


def _find_changed(run: Run, values: Json) -> Json:
    return {name: value for name, value in values.items() if value != getattr(run, name)}


def _note_stale(report: _Report, run: Run) -> Json:
    state = report.written.state
    return {} if state is None or state == run.state else {"ignored_state": state}


def _check_identity(run: Run, written: Written) -> None:
    given = {"id": written.id, "name": written.name, "kind": written.kind}
    problems = [
        Problem("field.fixed", (name,), f"cannot be changed; it is `{getattr(run, name)}`", value=value)
        for name, value in given.items()
        if value is not None and value != getattr(run, name)
    ]
    if problems:
        raise Refused(problems)
