"""Reports of clients about a run (PUT): results of remote runs, state and spec of local ones."""

from dataclasses import dataclass, replace
from typing import Any

from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.engine import STATUS_KEYS
from runyard.app.entities import (
    EntityDraft,
    check_merged,
    check_project,
    find_unused_name,
    is_runnable_kind,
    read_restored_draft,
)
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

_CLIENT_FIELDS = ("outputs", "results", "metrics")
"""The status fields that a client may set on a run that an engine executes."""
_SERVER_FIELDS = frozenset({*STATUS_KEYS, "k8s", "k8s_error", NOTES, "state", "transitions", "reason", "logs"})
"""The status fields that no client may set."""
_ECHOED = frozenset(
    {"state", "transitions", "reason", "message", "warnings", "pods", "events", "logs", "k8s", "k8s_error"}
)
"""The status fields that every client sends back as it last read them, although they may have changed since."""
_SPEC_IGNORED = "cannot be changed by a report; ignored: submit a new run to change it"
_CLIENT_STATES = (State.CREATED, State.BUILT, State.READY, State.PENDING, State.RUNNING, State.COMPLETED, State.ERROR)
"""The states that a client may set on a local run."""
_FIXED_SPEC = ("task", "function", "workflow", "local_execution")
_FIXED_METADATA = ("project", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    who: Principal
    draft: EntityDraft


async def report_run(
    core: Core, who: Principal, project: str, run_id: str, document: Any, *, expected_revision: int | None = None
) -> Run:
    """Store what the client may set and ignore the rest; a stale state changes nothing and is not an error.

    Of a remote run: outputs, results, metrics, metadata, and the message if the token is the run's own. Of a local run
    also state, spec and status. Ignored values are named in the answer's warnings, which are not stored. Raises
    `Missing`, `Forbidden`, `Conflict`, `Refused`, and `NotPossible` for a state that a client may not set.
    """
    draft = await compute(lambda: read_restored_draft(document, "run"), over=document)
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
    """Warnings for values that differ from the stored ones and are ignored; values that clients echo are left out."""
    problems = find_unused_name(draft, name=run.name)
    if not run.is_local:
        wanted = list_changed_fields(run.kind, stored=run.spec, written=draft.spec)
        problems += [Problem(Code.VALUE_UNUSED, ("spec", name), _SPEC_IGNORED) for name in wanted]
    problems += [
        Problem(Code.VALUE_UNUSED, ("status", key), "set by the server; ignored")
        for key, value in draft.status.items()
        if key not in _ECHOED and not _is_accepted(run, key) and value not in ({}, [], run.status.get(key))
    ]
    if draft.extensions and draft.extensions != run.extensions:
        problems.append(Problem(Code.VALUE_UNUSED, ("extensions",), "an update does not change extensions; ignored"))
    return problems


def _is_accepted(run: Run, key: str) -> bool:
    return key not in _SERVER_FIELDS if run.is_local else key in _CLIENT_FIELDS


def _decide_remote(report: _Report, run: Run) -> Change | None:
    reported = {key: value for key, value in report.draft.status.items() if key in _CLIENT_FIELDS}
    message = report.draft.status.get("message")
    # Other clients send back the message that they last read; only the run itself sets one.
    if report.who.run_id == run.id and isinstance(message, str):
        reported["message"] = message
    values = _find_changed(run, {"metadata": _merge_metadata(report, run), "status": {**run.status, **reported}})
    _check_merged(values)
    return Change(action="run.report", values=values, details=_note_stale(report, run)) if values else None


def _decide_local(report: _Report, run: Run) -> Change | None:
    draft = report.draft
    reported = {key: value for key, value in draft.status.items() if key not in _SERVER_FIELDS}
    spec = _read_local_spec(run, draft)
    moves = _find_moves(run, draft)
    values = _find_changed(
        run,
        {
            "metadata": _merge_metadata(report, run),
            "status": {**run.status, **reported},
            "spec": spec,
        },
    )
    if not moves and not values:
        return None
    _check_merged(values)
    details = {} if moves else _note_stale(report, run)
    return Change(action="run.report", moves=moves, values=values, details=details)


def _read_local_spec(run: Run, draft: EntityDraft) -> Json:
    """The spec that the client reports, validated as strictly as at submission."""
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
    if draft.state not in _CLIENT_STATES:
        allowed = ", ".join(state.value for state in _CLIENT_STATES)
        raise NotPossible(Code.STATE_REPORTED, f"a client cannot set the state {draft.state}; allowed: {allowed}")
    state, message = State(draft.state), draft.status.get("message")
    if not can_follow(State(run.state), state):
        return ()
    reason = Reason.CLIENT_ERROR if state is State.ERROR else Reason.CLIENT_REPORT
    return (Move(state=state, reason=reason, message=message if isinstance(message, str) else None),)


def _merge_metadata(report: _Report, run: Run) -> Json:
    fixed = {key: run.metadata[key] for key in _FIXED_METADATA if key in run.metadata}
    return {**run.metadata, **report.draft.metadata, **fixed}


def _check_merged(values: Json) -> None:
    check_merged(metadata=values.get("metadata", {}), status=values.get("status", {}))


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
