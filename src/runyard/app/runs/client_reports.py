"""What clients say about a run by PUT: results of remote runs, the whole life of local ones."""

from dataclasses import dataclass, replace
from typing import Any

from runyard.app.core import Core
from runyard.app.engine import STATUS_KEYS
from runyard.app.entities import EntityDraft, check_project, find_unused_name, is_runnable_kind, read_draft
from runyard.app.errors import NotPossible
from runyard.app.model import Json, Principal, Run
from runyard.app.runs.transitions import NOTES, Change, Move, change_run
from runyard.domain.lifecycle import State, can_follow
from runyard.domain.reasons import Reason
from runyard.spec.digitalhub.client_specs import list_changed_fields
from runyard.spec.digitalhub.reference_strings import find_run_kind
from runyard.spec.entities import read_entity
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused

_TAKEN = ("outputs", "results", "metrics")
"""What a client may say of a run that an engine executes."""
_OURS = frozenset({*STATUS_KEYS, NOTES, "state", "transitions", "reason"})
"""What no client says."""
_ECHOED = frozenset({"state", "transitions", "reason", "message", "warnings", "pods", "events", "k8s"})
"""What every client sends back as it last saw it, though it may have gone on since."""
_KEPT_SPEC = "is not changed by a report: what was submitted stays; submit a new run to change it"
_DRIVEN = (State.CREATED, State.BUILT, State.READY, State.PENDING, State.RUNNING, State.COMPLETED, State.ERROR)
"""The states that a client takes a local run through."""
_FIXED_SPEC = ("task", "function", "workflow", "local_execution")
_FIXED_METADATA = ("project", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    who: Principal
    draft: EntityDraft


async def report_run(
    core: Core, who: Principal, project: str, run_id: str, document: Any, *, expected_revision: int | None = None
) -> Run:
    """Take what the client may say and keep the rest; a stale state changes nothing, and is no error.

    Of a remote run: outputs, results, metrics, metadata, and from its own token the message. Of a local run: state,
    spec and status too. What else it wants stands in the answer's warnings, which are not stored. Raises `Missing`,
    `Forbidden`, `Conflict`, `Refused`, and `NotPossible` for a state that is not the client's to set.
    """
    draft = read_draft(document)
    if problems := check_project(draft, project):
        raise Refused(problems)
    report = _Report(who=who, draft=draft)

    unused: list[Problem] = []

    def decide(run: Run) -> Change | None:
        _check_identity(run, draft)
        unused[:] = _find_unused(run, draft)
        return _decide_local(report, run) if run.is_local else _decide_remote(report, run)

    run = await change_run(core, who, project, run_id, decide, expected_revision=expected_revision)
    return replace(run, warnings=(*run.warnings, *(problem.to_dict() for problem in unused)))


def _find_unused(run: Run, draft: EntityDraft) -> list[Problem]:
    """What the client wants otherwise and does not get; what it was shown, and how far it saw the run, is no wish."""
    problems = find_unused_name(draft, name=run.name)
    if not run.is_local:
        wanted = list_changed_fields(run.kind, stored=run.spec, written=draft.spec)
        problems += [Problem(Code.VALUE_UNUSED, ("spec", name), _KEPT_SPEC) for name in wanted]
    problems += [
        Problem(Code.VALUE_UNUSED, ("status", key), "set by the server; ignored")
        for key, value in draft.status.items()
        if key not in _ECHOED and not _is_taken(run, key) and value not in ({}, [], run.status.get(key))
    ]
    if draft.extensions and draft.extensions != run.extensions:
        problems.append(Problem(Code.VALUE_UNUSED, ("extensions",), "an update does not change extensions; ignored"))
    return problems


def _is_taken(run: Run, key: str) -> bool:
    return key not in _OURS if run.is_local else key in _TAKEN


def _decide_remote(report: _Report, run: Run) -> Change | None:
    said = {key: value for key, value in report.draft.status.items() if key in _TAKEN}
    message = report.draft.status.get("message")
    # Others send back the message that they last saw; only the run itself has something to tell.
    if report.who.run_id == run.id and isinstance(message, str):
        said["message"] = message
    values = _find_changed(run, {"metadata": _merge_metadata(report, run), "status": {**run.status, **said}})
    return Change(action="run.report", values=values, details=_note_stale(report, run)) if values else None


def _decide_local(report: _Report, run: Run) -> Change | None:
    draft = report.draft
    said = {key: value for key, value in draft.status.items() if key not in _OURS}
    spec = _read_local_spec(run, draft)
    moves = _find_moves(run, draft)
    values = _find_changed(
        run,
        {
            "metadata": _merge_metadata(report, run),
            "status": {**run.status, **said},
            "spec": spec,
        },
    )
    if not moves and not values:
        return None
    details = {} if moves else _note_stale(report, run)
    return Change(action="run.report", moves=moves, values=values, details=details)


def _read_local_spec(run: Run, draft: EntityDraft) -> Json:
    """What the client says that it runs, read as strictly as when it was submitted."""
    if not draft.spec:
        return run.spec
    spec = {**draft.spec, **{key: run.spec[key] for key in _FIXED_SPEC if key in run.spec}}
    kind = find_run_kind(run.kind)
    if kind is not None and is_runnable_kind("function", kind.function):
        read_entity("run", {"kind": run.kind, "spec": spec})
    return spec


def _find_moves(run: Run, draft: EntityDraft) -> tuple[Move, ...]:
    if draft.state is None or draft.state == run.state:
        return ()
    if draft.state not in _DRIVEN:
        allowed = ", ".join(state.value for state in _DRIVEN)
        raise NotPossible(Code.STATE_REPORTED, f"a client cannot set the state {draft.state}; allowed: {allowed}")
    state, message = State(draft.state), draft.status.get("message")
    if not can_follow(State(run.state), state):
        return ()
    reason = Reason.CLIENT_ERROR if state is State.ERROR else Reason.CLIENT_REPORT
    return (Move(state=state, reason=reason, message=message if isinstance(message, str) else None),)


def _merge_metadata(report: _Report, run: Run) -> Json:
    fixed = {key: run.metadata[key] for key in _FIXED_METADATA if key in run.metadata}
    return {**run.metadata, **report.draft.metadata, **fixed}


def _find_changed(run: Run, values: Json) -> Json:
    return {name: value for name, value in values.items() if value != getattr(run, name)}


def _note_stale(report: _Report, run: Run) -> Json:
    state = report.draft.state
    return {} if state is None or state == run.state else {"ignored_state": state}


def _check_identity(run: Run, draft: EntityDraft) -> None:
    given = {"id": draft.id, "name": draft.name, "kind": draft.kind}
    problems = [
        Problem(Code.FIELD_FIXED, (name,), f"cannot be changed; it is `{getattr(run, name)}`", value=value)
        for name, value in given.items()
        if value is not None and value != getattr(run, name)
    ]
    if problems:
        raise Refused(problems)
