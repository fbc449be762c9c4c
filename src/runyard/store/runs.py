"""Runs, their transitions, and tombstones of deleted runs. A run is known by its uid, and in its project by its id."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, Select, bindparam, exists, func, insert, select, update
from sqlalchemy.sql.dml import ReturningInsert

from runyard.app.model import Lease, Run, RunKey, Transition
from runyard.app.ports import ChangedRun, Duplicate, Page, Query, Stale
from runyard.domain.lifecycle import State
from runyard.store import tables
from runyard.store.changes import list_changed_runs
from runyard.store.columns import LARGEST
from runyard.store.dependent_rows import add_labels, count_labels, delete_runs, replace_labels
from runyard.store.derived_columns import derive_columns, hash_to_shard_key
from runyard.store.entities import check_fixed, list_documents
from runyard.store.expressions import is_one_of, make_insert
from runyard.store.largest_documents import measure_documents, note_size
from runyard.store.lists import fetch_page
from runyard.store.queue import claim_due, hold_lease, nudge, release, renew
from runyard.store.retention import expire_runs, list_expired, list_unswept, mark_swept
from runyard.store.session import Session
from runyard.store.totals import count_runs

_FIELDS = tuple(field.name for field in fields(Run) if field.name != "type")
RUN_COLUMNS = tuple(tables.runs.c[name] for name in _FIELDS)
_TRANSITION_FIELDS = ("sequence", "state", "at", "actor", "reason", "message")
_TRANSITION_COLUMNS = tuple(tables.transitions.c[name] for name in _TRANSITION_FIELDS)
_ABSENT: Mapping[str, Any] = {"request": {}, "effective": None, "provenance": ()}
_ABSENT_IN_SUMMARIES: Mapping[str, Any] = {**_ABSENT, "spec": {}, "status": {}, "extensions": (), "warnings": ()}
_BRIEF_FIELDS = tuple(name for name in _FIELDS if name not in _ABSENT)
_SUMMARY_FIELDS = tuple(name for name in _FIELDS if name not in _ABSENT_IN_SUMMARIES)
_BYTES = measure_documents(tables.runs)
_FIXED = frozenset({"uid", "id", "project", "name", "created_at"})
_DERIVED = frozenset({"function", "workflow", "task"})
_FIND = select(*RUN_COLUMNS).where(
    tables.runs.c.project == bindparam("in_project"), tables.runs.c.id == bindparam("run_id")
)
_FIND_BY_UID = select(*RUN_COLUMNS).where(tables.runs.c.uid == bindparam("run_uid"))
_LIST_TRANSITIONS = (
    select(*_TRANSITION_COLUMNS)
    .where(tables.transitions.c.run_uid == bindparam("run"), tables.transitions.c.sequence > bindparam("after"))
    .order_by(tables.transitions.c.sequence)
)
_ADD_TRANSITIONS = insert(tables.transitions)


class SqlRuns:
    """`app.ports.Runs`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, run: Run, transitions: Sequence[Transition]) -> None:
        """Add a run with its first transitions. Raises `Duplicate`; the unit of work stays usable."""
        row = {
            **{name: getattr(run, name) for name in _FIELDS if name not in _DERIVED},
            **derive_columns(run),
            "shard_key": hash_to_shard_key(run.uid),
            "is_nudged": False,
        }
        documents = [*list_documents(run), run.request]
        added = await self._session.write_returning(_make_add(self._session.is_sqlite), row, documents=documents)
        if not added:
            raise Duplicate(f"run {run.id} exists already in project {run.project}")
        await note_size(self._session, "run", run.project, added[0]["document_bytes"])
        await count_runs(self._session, [run.project], step=1)
        await self._add_transitions(run.uid, transitions)
        await add_labels(self._session, run)

    async def find(self, run_id: str, *, project: str) -> Run | None:
        """By id, which is unique in its project."""
        row = await self._session.fetch_one(_FIND, {"run_id": run_id, "in_project": project})
        return None if row is None else row_to_run(row)

    async def find_by_uid(self, run_uid: str) -> Run | None:
        """By uid, in whichever project."""
        row = await self._session.fetch_one(_FIND_BY_UID, {"run_uid": run_uid})
        return None if row is None else row_to_run(row)

    async def find_page(self, query: Query) -> Page:
        """A page of runs; the `type` of the query is `run`."""
        shown = _SUMMARY_FIELDS if query.is_summary else _BRIEF_FIELDS if query.is_brief else _FIELDS
        columns = tuple(tables.runs.c[name] for name in shown)
        rows = await fetch_page(self._session, tables.runs, query, columns=columns)
        return Page(tuple(row_to_run(row, shown=shown) for row in rows.content), rows.total, rows.size)

    async def list_changed(
        self, *, project: str, since: datetime, after: tuple[datetime, str] | None = None, limit: int
    ) -> Sequence[ChangedRun]:
        """Runs updated since then, with the states entered since then."""
        return await list_changed_runs(self._session, project=project, since=since, after=after, limit=limit)

    async def list_ids(
        self, *, project: str, task: str | None = None, is_without_deleting: bool = False
    ) -> Sequence[str]:
        """The ids of the runs of a project, or of one of its tasks (by reference), sorted."""
        conditions = [tables.runs.c.project == project]
        if task is not None:
            conditions.append(tables.runs.c.task == task)
        if is_without_deleting:
            conditions.append(tables.runs.c.state != State.DELETING.value)
        statement = select(tables.runs.c.id).where(*conditions).order_by(tables.runs.c.id)
        return [row["id"] for row in await self._session.fetch_all(statement)]

    async def list_transitions(self, run_uid: str, *, after: int = 0) -> Sequence[Transition]:
        """The transitions of a run whose sequence is greater, in order."""
        rows = await self._session.fetch_all(_LIST_TRANSITIONS, {"run": run_uid, "after": min(after, LARGEST)})
        return [_make_transition(tuple(row.values())) for row in rows]

    async def count_states(self) -> Mapping[str, int]:
        """The number of runs in each state."""
        state = tables.runs.c.state
        rows = await self._session.fetch_all(select(state, func.count().label("number")).group_by(state))
        return {row["state"]: row["number"] for row in rows}

    async def list_histories(self, run_uids: Sequence[str]) -> Mapping[str, Sequence[Transition]]:
        """The transitions of several runs, in order, by uid."""
        statement = _make_list_histories(self._session.is_sqlite)
        rows = await self._session.fetch_all(statement, {"run_uids": list(run_uids)})
        found: dict[str, list[Transition]] = {}
        for row in rows:
            found.setdefault(row["run_uid"], []).append(_make_transition(tuple(row.values())[1:]))
        return found

    async def replace(
        self,
        run: Run,
        *,
        transitions: Sequence[Transition] = (),
        lease: Lease | None = None,
        expected_revision: int | None = None,
    ) -> Run:
        """Write it with the next revision and append the transitions. Raises `Stale`.

        A write without a lease nudges the run: the holder of its lease cannot postpone it on release.
        """
        values = {name: getattr(run, name) for name in _FIELDS if name not in _FIXED | _DERIVED}
        values["revision"] = tables.runs.c.revision + 1
        if lease is None:
            values["is_nudged"] = True
        rows = await self._session.write_returning(
            update(tables.runs)
            .where(*_guard(run, lease=lease, expected_revision=expected_revision))
            .values(**values, **derive_columns(run))
            .returning(
                tables.runs.c.revision,
                tables.runs.c.created_at,
                tables.runs.c.name,
                count_labels(run, tables.runs).label("labels"),
                _BYTES,
            ),
            documents=list_documents(run),
        )
        if not rows:
            raise Stale(f"run {run.id} is gone or was changed since it was read, or its lease is stale")
        check_fixed(run, rows[0])
        await note_size(self._session, "run", run.project, rows[0]["document_bytes"])
        await self._add_transitions(run.uid, transitions)
        await replace_labels(self._session, run, known=rows[0]["labels"])
        return replace(run, revision=rows[0]["revision"])

    async def delete(self, run_uids: Sequence[str]) -> Sequence[str]:
        """Delete rows with their transitions, and leave a tombstone for each; returns the uids that existed."""
        return await delete_runs(self._session, run_uids)

    async def has_tombstone(self, run_id: str, *, project: str) -> bool:
        """Whether the project once had a run of that id, and has none now."""
        buried, living = tables.tombstones.c, tables.runs.c
        is_ended = exists().where(buried.project == project, buried.run_id == run_id)
        is_alive = exists().where(living.project == project, living.id == run_id)
        return bool(await self._session.fetch_value(select(is_ended & ~is_alive)))

    async def expire(self, *, ended_before: datetime, at: datetime, limit: int) -> Sequence[RunKey]:
        """Mark runs that ended before that time as DELETING; returns them."""
        return await expire_runs(self._session, ended_before=ended_before, at=at, limit=limit)

    async def list_expired(self, *, limit: int) -> Sequence[RunKey]:
        """Runs that `expire` has marked and nobody has deleted yet."""
        return await list_expired(self._session, limit=limit)

    async def list_unswept(self, *, deleted_before: datetime, limit: int) -> Sequence[str]:
        """The uids of deleted runs whose log was not deleted again after the row; oldest first."""
        return await list_unswept(self._session, deleted_before=deleted_before, limit=limit)

    async def mark_swept(self, run_uids: Sequence[str]) -> None:
        """Note that their logs were deleted again."""
        await mark_swept(self._session, run_uids)

    async def claim_due(
        self, *, owner: str, limit: int, lease_for: timedelta, shard: tuple[int, int] = (0, 1)
    ) -> Sequence[tuple[Run, Lease]]:
        """Lease due runs to the caller, oldest first. Takes effect with the commit."""
        claimed = await claim_due(
            self._session, owner=owner, limit=limit, lease_for=lease_for, shard=shard, columns=RUN_COLUMNS
        )
        return [(row_to_run(row), lease) for row, lease in claimed]

    async def renew(self, lease: Lease, *, lease_for: timedelta) -> Lease:
        """Extend the lease. Raises `Stale` if it has expired or changed hands."""
        return await renew(self._session, lease, lease_for=lease_for)

    async def release(self, lease: Lease, *, due_at: datetime | None) -> None:
        """Release the lease; does nothing if it is stale."""
        await release(self._session, lease, due_at=due_at)

    async def nudge(self, run_uids: Sequence[str]) -> None:
        """Make runs due now, even leased ones."""
        await nudge(self._session, run_uids)

    async def _add_transitions(self, run_uid: str, transitions: Sequence[Transition]) -> None:
        await self._session.write_all(
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
                for transition in transitions
            ],
        )


@cache
def _make_add(is_sqlite: bool) -> ReturningInsert[Any]:  # noqa: FBT001 - the key of the cache
    return make_insert(tables.runs, is_sqlite=is_sqlite).on_conflict_do_nothing().returning(tables.runs.c.uid, _BYTES)


@cache
def _make_list_histories(is_sqlite: bool) -> Select[Any]:  # noqa: FBT001 - the key of the cache
    columns = tables.transitions.c
    return (
        select(columns.run_uid, *_TRANSITION_COLUMNS)
        .where(is_one_of(columns.run_uid, "run_uids", is_sqlite=is_sqlite))
        .order_by(columns.run_uid, columns.sequence)
    )


def row_to_run(row: RowMapping, *, shown: Sequence[str] = _FIELDS) -> Run:
    """The run of a row, by the order of its columns: by name takes three times as long."""
    values = dict[str, Any](zip(shown, row.values(), strict=True))
    return Run(type="run", **(values if shown is _FIELDS else {**_ABSENT_IN_SUMMARIES, **values}))


def _make_transition(values: Sequence[Any]) -> Transition:
    named = dict(zip(_TRANSITION_FIELDS, values, strict=True))
    return Transition(**{**named, "state": State(named["state"])})


def _guard(run: Run, *, lease: Lease | None, expected_revision: int | None) -> list[ColumnElement[bool]]:
    """Conditions of the write, evaluated by the database in the same statement (optimistic concurrency)."""
    conditions = [tables.runs.c.uid == run.uid, tables.runs.c.project == run.project]
    if lease is not None:
        conditions += [tables.runs.c.uid == lease.run_uid, *hold_lease(lease)]
    if expected_revision is not None:
        conditions.append(tables.runs.c.revision == min(expected_revision, LARGEST))
    return conditions
