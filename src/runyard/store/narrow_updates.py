"""Writes of runs that touch only the columns that differ. Statements are built once for each set of columns.

Building a statement costs more than executing it, and a run has documents that hardly any write changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal

from sqlalchemy import bindparam, func, insert, select, update

from runyard.app.model import Lease, Run, Transition
from runyard.app.ports import UNCHANGED, DueIn, RunUpdate, Stale
from runyard.store import tables
from runyard.store.columns import LARGEST, Count, Name
from runyard.store.dependent_rows import replace_labels
from runyard.store.derived_columns import derive_columns, list_labels
from runyard.store.largest_documents import LISTED_DOCUMENTS, measure_documents, note_size
from runyard.store.notifications import notify_row
from runyard.store.queue import hold_lease, make_due_values, name_lease
from runyard.store.session import Session

_runs = tables.runs.c
_FIXED = ("uid", "id", "project", "name", "created_at")
_KEPT_BY_STORE = ("revision", "due_at", "last_sequence")
"""Fields that the store counts or computes; what the caller has in them is not written."""
_FIELDS = tuple(field.name for field in fields(Run) if field.name not in ("type", *_FIXED, *_KEPT_BY_STORE))
_read_fields = attrgetter(*_FIELDS)
_read_fixed = attrgetter(*_FIXED)
_SOURCES_OF_LANE = frozenset({"state", "desired", "anchor_uid"})
_SOURCES_OF_DERIVED = frozenset({"kind", "function", "workflow", "task"})
_MEASURED = frozenset(LISTED_DOCUMENTS)
_BYTES = measure_documents(tables.runs)
_ADD_TRANSITIONS = insert(tables.transitions)
_MOST_STATEMENTS = 256

Due = Literal["unchanged", "never", "now", "later"]


@dataclass(frozen=True, slots=True)
class _Shape:
    """What distinguishes the statements of two writes."""

    columns: frozenset[str]
    due: Due
    is_counted: bool = False
    """Whether the revision grows."""
    is_measured: bool = False
    has_lease: bool = False
    is_lease_ended: bool = False
    is_notified: bool = False
    """Whether the statement notifies other processes (PostgreSQL)."""


async def update_run(
    session: Session,
    before: Run,
    after: Run,
    *,
    transitions: Sequence[Transition],
    lease: Lease | None,
    is_lease_ended: bool,
    due_in: DueIn,
) -> Run:
    """`app.ports.Runs.update`."""
    values = _list_changes(before, after, transitions)
    shape = _Shape(
        columns=frozenset(values),
        due=_classify(due_in),
        is_counted=bool(values),
        is_measured=not _MEASURED.isdisjoint(values),
        has_lease=lease is not None,
        is_lease_ended=is_lease_ended,
        is_notified=not session.is_sqlite and (bool(values) or (lease is None and due_in is not UNCHANGED)),
    )
    parameters = _name_values(before, values, due_in)
    parameters["at_revision"] = min(before.revision, LARGEST)
    if lease is not None:
        parameters |= name_lease(lease)
    if shape.is_notified:
        parameters["notification"] = session.make_notification(before.uid)
    documents = [value for name, value in values.items() if name in _MEASURED] if shape.is_measured else None
    rows = await session.write_returning(_make_update(shape), parameters, documents=documents)
    if not rows:
        raise Stale(f"run {before.id} is gone or was changed since it was read, or its lease is stale")
    if shape.is_measured:
        await note_size(session, "run", before.project, rows[0]["document_bytes"])
    await add_transitions(session, [(before.uid, transition) for transition in transitions])
    await _update_labels(session, before, after, values)
    return _make_stored(before, after, values, due_at=rows[0]["due_at"])


async def update_runs(session: Session, updates: Sequence[RunUpdate]) -> list[Run]:
    """`app.ports.Runs.update_many`."""
    batches: dict[_Shape, list[dict[str, Any]]] = {}
    changes = [_list_changes(one.before, one.after, one.transitions) for one in updates]
    for one, values in zip(updates, changes, strict=True):
        shape = _Shape(columns=frozenset(values), due=_classify(one.due_in), is_counted=bool(values))
        if values or shape.due != "unchanged":
            session.note_changed_runs([one.before.uid])
            batches.setdefault(shape, []).append(_name_values(one.before, values, one.due_in))
    for shape, rows in batches.items():
        await session.write_all(_make_locked_update(shape), rows)
    grown = [one.before.uid for one, values in zip(updates, changes, strict=True) if not _MEASURED.isdisjoint(values)]
    await _note_sizes(session, grown)
    await add_transitions(session, [(one.before.uid, step) for one in updates for step in one.transitions])
    for one, values in zip(updates, changes, strict=True):
        await _update_labels(session, one.before, one.after, values)
    return [
        _make_stored(one.before, one.after, values, due_at=one.before.due_at)
        for one, values in zip(updates, changes, strict=True)
    ]


async def add_transitions(session: Session, transitions: Sequence[tuple[str, Transition]]) -> None:
    """Append transitions of runs, which are given by their uids."""
    await session.write_all(
        _ADD_TRANSITIONS,
        [
            {
                "run_uid": run_uid,
                "sequence": transition.sequence,
                "state": transition.state.value,
                "at": transition.at,
                "actor": transition.actor,
                "reason": transition.reason,
                "message": transition.message,
            }
            for run_uid, transition in transitions
        ],
    )


def find_last_sequence(run: Run, transitions: Sequence[Transition]) -> int:
    """The sequence of the last transition, once these are appended."""
    return max((transition.sequence for transition in transitions), default=run.last_sequence)


def _list_changes(before: Run, after: Run, transitions: Sequence[Transition]) -> dict[str, Any]:
    """The columns to write. Raises `ValueError` for fields that never change, which is a bug in the caller."""
    if _read_fixed(before) != _read_fixed(after):
        changed = [name for name in _FIXED if getattr(before, name) != getattr(after, name)]
        raise ValueError(f"{', '.join(changed)} of run {before.id} never changes")
    values = {
        name: new
        for name, old, new in zip(_FIELDS, _read_fields(before), _read_fields(after), strict=True)
        if old is not new and old != new
    }
    if not _SOURCES_OF_LANE.isdisjoint(values):
        values["lane"] = int(after.lane)
    if not _SOURCES_OF_DERIVED.isdisjoint(values):
        values |= derive_columns(after)
    if transitions:
        values["last_sequence"] = max(before.last_sequence, find_last_sequence(before, transitions))
    return values


def _make_stored(before: Run, after: Run, values: Mapping[str, Any], *, due_at: Any) -> Run:
    return replace(
        after,
        revision=before.revision + bool(values),
        last_sequence=values.get("last_sequence", before.last_sequence),
        due_at=due_at,
    )


def _classify(due_in: DueIn) -> Due:
    if due_in is UNCHANGED:
        return "unchanged"
    if due_in is None:
        return "never"
    return "now" if due_in <= timedelta(0) else "later"


def _name_values(before: Run, values: Mapping[str, Any], due_in: DueIn) -> dict[str, Any]:
    parameters = {f"new_{name}": value for name, value in values.items()}
    parameters["of_uid"] = before.uid
    if isinstance(due_in, timedelta):
        parameters["due_seconds"] = due_in.total_seconds()
    return parameters


@lru_cache(maxsize=_MOST_STATEMENTS)
def _make_update(shape: _Shape) -> Any:
    """Guarded by the revision, and by the lease if there is one."""
    guards = [
        _runs.uid == bindparam("of_uid", type_=Name()),
        _runs.revision == bindparam("at_revision", type_=Count()),
        *(hold_lease() if shape.has_lease else ()),
    ]
    shown = [_runs.due_at, *([_BYTES] if shape.is_measured else []), *([notify_row()] if shape.is_notified else [])]
    return update(tables.runs).where(*guards).values(**_make_values(shape)).returning(*shown)


@lru_cache(maxsize=_MOST_STATEMENTS)
def _make_locked_update(shape: _Shape) -> Any:
    return update(tables.runs).where(_runs.uid == bindparam("of_uid", type_=Name())).values(**_make_values(shape))


def _make_values(shape: _Shape) -> dict[str, Any]:
    values: dict[str, Any] = {name: bindparam(f"new_{name}", type_=_runs[name].type) for name in sorted(shape.columns)}
    values["revision"] = _runs.revision + 1 if shape.is_counted else _runs.revision
    if shape.due != "unchanged":
        due_in = {"never": None, "now": timedelta(0), "later": timedelta(seconds=1)}[shape.due]
        values |= make_due_values(due_in, has_lease=shape.has_lease)
    if shape.is_lease_ended:
        values |= {"lease_owner": None, "lease_token": None, "lease_until": None}
    return values


async def _update_labels(session: Session, before: Run, after: Run, values: Mapping[str, Any]) -> None:
    if "metadata" not in values:
        return
    known = list_labels(before.metadata)
    if known != list_labels(after.metadata):
        await replace_labels(session, after, known=len(known))


async def _note_sizes(session: Session, run_uids: Sequence[str]) -> None:
    if not run_uids:
        return
    statement = (
        select(_runs.project, func.max(_BYTES.element).label("document_bytes"))
        .where(session.is_one_of(_runs.uid, run_uids))
        .group_by(_runs.project)
    )
    for row in await session.fetch_all(statement):
        await note_size(session, "run", row["project"], row["document_bytes"])
