"""Runs, their transitions, and tombstones of deleted runs. A run is known by its uid, and in its project by its id."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Double, RowMapping, Select, bindparam, exists, func, null, select
from sqlalchemy.sql.dml import ReturningInsert

from runyard.app.list_query import LISTED_MESSAGE_CHARACTERS, LISTED_TRANSITIONS, Page, Query
from runyard.app.model import Lease, Run, RunKey, Transition
from runyard.app.ports import UNCHANGED, DueIn, Duplicate, KeyPage, MountingRun, PlaceUse, RunUpdate
from runyard.app.unparsed_entities import Unparsed, UnparsedEntities
from runyard.domain.lifecycle import State
from runyard.domain.outcomes import Lane
from runyard.store import tables
from runyard.store.changes import select_changed
from runyard.store.clock import DatabaseTimeIn
from runyard.store.columns import LARGEST, Name, is_storable_name
from runyard.store.dependent_rows import add_labels, delete_runs
from runyard.store.derived_columns import derive_columns, hash_to_shard_key
from runyard.store.entities import list_documents
from runyard.store.entity_keys import fetch_keys
from runyard.store.expressions import is_one_of, make_insert
from runyard.store.largest_documents import measure_documents, note_size
from runyard.store.lists import fetch_page
from runyard.store.mounting_runs import list_mounting_runs
from runyard.store.narrow_updates import add_transitions, find_last_sequence, update_run, update_runs
from runyard.store.notifications import notify_row
from runyard.store.places import list_placed, list_places
from runyard.store.queue import (
    claim_due,
    end_leases,
    find_next_due,
    release,
    renew_leases,
    wake,
    wake_misplaced,
    wake_waiting,
)
from runyard.store.retention import expire_runs, list_expired, list_unswept, mark_swept
from runyard.store.session import MANY_ROWS, Session
from runyard.store.totals import count_runs
from runyard.store.unparsed_rows import as_text, list_unparsed

_FIELDS = tuple(field.name for field in fields(Run) if field.name != "type")
RUN_COLUMNS = tuple(tables.runs.c[name] for name in _FIELDS)
_TRANSITION_FIELDS = ("sequence", "state", "at", "actor", "reason", "message")
_TRANSITION_COLUMNS = tuple(tables.transitions.c[name] for name in _TRANSITION_FIELDS)
_ABSENT: Mapping[str, Any] = {"request": {}, "effective": None, "provenance": ()}
_ABSENT_IN_SUMMARIES: Mapping[str, Any] = {**_ABSENT, "spec": {}, "status": {}, "extensions": (), "warnings": ()}
_ABSENT_DOCUMENTS: Mapping[str, Any] = {**_ABSENT_IN_SUMMARIES, "metadata": {}}
_BRIEF_FIELDS = tuple(name for name in _FIELDS if name not in _ABSENT)
_SUMMARY_FIELDS = tuple(name for name in _FIELDS if name not in _ABSENT_IN_SUMMARIES)
_SUMMARY_COLUMNS = tuple(tables.runs.c[name] for name in _SUMMARY_FIELDS)
_BYTES = measure_documents(tables.runs)
_ACTIVE_FIELDS = tuple(name for name in _FIELDS if name not in _ABSENT_DOCUMENTS)
_ACTIVE_COLUMNS = tuple(tables.runs.c[name] for name in _ACTIVE_FIELDS)
_OBSERVED_FIELDS = (*_ACTIVE_FIELDS, "status")
_OBSERVED_COLUMNS = tuple(tables.runs.c[name] for name in _OBSERVED_FIELDS)
_UNLEASED = ("lease_owner", "lease_token", "lease_until")
_DERIVED = frozenset({"function", "workflow", "task"})
_FIND = select(*RUN_COLUMNS).where(
    tables.runs.c.project == bindparam("in_project"), tables.runs.c.id == bindparam("run_id")
)
_FIND_BY_UID = select(*RUN_COLUMNS).where(tables.runs.c.uid == bindparam("run_uid"))
_LIST_TRANSITIONS = (
    select(*_TRANSITION_COLUMNS)
    .where(tables.transitions.c.run_uid == bindparam("run"), tables.transitions.c.sequence > bindparam("after"))
    .order_by(tables.transitions.c.sequence)
    .limit(bindparam("most", type_=BigInteger()))
)
_LIST_ACTIVE = (
    select(*_ACTIVE_COLUMNS)
    .where(
        tables.runs.c.place == bindparam("of_place", type_=Name()),
        tables.runs.c.settled_at.is_(None),
        tables.runs.c.uid > bindparam("after_uid", type_=Name()),
    )
    .order_by(tables.runs.c.uid)
    .limit(bindparam("most"))
)


class SqlRuns:
    """`app.ports.Runs`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, run: Run, transitions: Sequence[Transition], *, due_in: timedelta | None = None) -> Run:
        """Add a run with its first transitions. Raises `Duplicate`; the unit of work stays usable."""
        run = replace(run, last_sequence=find_last_sequence(run, transitions))
        row = {
            **{name: getattr(run, name) for name in _FIELDS if name not in _DERIVED},
            **derive_columns(run),
            "lane": int(run.lane),
            "shard_key": hash_to_shard_key(run.uid),
            "is_woken": False,
        }
        del row["due_at"]
        if not self._session.is_sqlite:
            row["notification"] = self._session.make_notification(run.uid)
        documents = [*list_documents(run), run.request]
        if due_in is not None:
            row["due_seconds"] = due_in.total_seconds()
        statement = _make_add(self._session.is_sqlite, due_in is not None)
        added = await self._session.write_returning(statement, row, documents=documents)
        if not added:
            raise Duplicate(f"run {run.id} exists already in project {run.project}")
        await note_size(self._session, "run", run.project, added[0]["document_bytes"])
        await count_runs(self._session, [run.project], step=1)
        await add_transitions(self._session, [(run.uid, transition) for transition in transitions])
        await add_labels(self._session, run)
        return replace(run, due_at=added[0]["due_at"])

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
        shown = _ACTIVE_FIELDS if query.is_without_documents else shown
        columns = tuple(tables.runs.c[name] for name in shown)
        if query.is_unparsed:
            rows = await fetch_page(self._session, tables.runs, query, columns=as_text(columns))
            return Page(UnparsedEntities(list_unparsed(rows.content, columns, _make_run)), rows.total, rows.size)
        rows = await fetch_page(self._session, tables.runs, query, columns=columns)
        return Page(tuple(row_to_run(row, shown=shown) for row in rows.content), rows.total, rows.size)

    async def find_keys(self, query: Query) -> KeyPage:
        """The keys of such a page."""
        return await fetch_keys(self._session, tables.runs, query)

    async def list_summaries(self, ids: Sequence[str], *, project: str) -> Sequence[Unparsed]:
        """Those runs of a project, with metadata but no other document."""
        if not ids:
            return []
        columns = tables.runs.c
        is_named = columns.project == project, self._session.is_one_of(columns.id, ids)
        rows = await self._session.fetch_all(select(*as_text(_SUMMARY_COLUMNS)).where(*is_named), is_long=True)
        return list_unparsed(rows, _SUMMARY_COLUMNS, _make_run)

    async def list_running(
        self, *, project: str | None = None, user: str | None = None, limit: int
    ) -> tuple[Sequence[Run], int]:
        """RUNNING runs that have an anchor, without documents, and how many there are in all."""
        columns = tables.runs.c
        conditions = [columns.state == State.RUNNING.value, columns.anchor_uid.is_not(None)]
        if project is not None:
            conditions.append(columns.project == project)
        if user is not None:
            conditions.append(columns.user == user)
        # Each order is that of an index by state.
        changed_at = columns.updated_at if project is None else columns.created_at
        newest = select(*_ACTIVE_COLUMNS).where(*conditions).order_by(changed_at.desc(), columns.id.desc()).limit(limit)
        rows = await self._session.fetch_all(newest, is_long=True)
        total = len(rows)
        if total == limit:
            total = await self._session.fetch_value(select(func.count()).select_from(tables.runs).where(*conditions))
        return [row_to_run(row, shown=_ACTIVE_FIELDS) for row in rows], total

    async def list_changed(
        self, *, project: str, since: datetime, after: tuple[datetime, str] | None = None, limit: int
    ) -> Sequence[Run]:
        """Runs updated since then, without their documents."""
        statement = select_changed(tables.runs, _ACTIVE_COLUMNS, project=project, since=since, after=after, limit=limit)
        return [row_to_run(row, shown=_ACTIVE_FIELDS) for row in await self._session.fetch_all(statement)]

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

    async def list_mounting(
        self, *, project: str, since: datetime | None = None, after: str = "", limit: int
    ) -> Sequence[MountingRun]:
        """Runs of a project with claims of any kind that have not ended or are STOPPED, by uid."""
        return await list_mounting_runs(self._session, project=project, since=since, after=after, limit=limit)

    async def list_transitions(self, run_uid: str, *, after: int = 0, limit: int | None = None) -> Sequence[Transition]:
        """The transitions of a run whose sequence is greater, in order; with `limit` the first ones."""
        given = {"run": run_uid, "after": min(after, LARGEST), "most": LARGEST if limit is None else limit}
        rows = await self._session.fetch_all(_LIST_TRANSITIONS, given)
        return [_make_transition(tuple(row.values())) for row in rows]

    async def count_states(self) -> Mapping[str, int]:
        """The number of runs in each state."""
        state = tables.runs.c.state
        rows = await self._session.fetch_all(select(state, func.count().label("number")).group_by(state))
        return {row["state"]: row["number"] for row in rows}

    async def find_newest_observation(self, place: str) -> tuple[int, int]:
        """The largest pair of epoch and version that was observed at a place; (0, 0) if nothing was."""
        epoch, version = tables.runs.c.observed_epoch, tables.runs.c.observed_version
        statement = select(epoch, version).where(tables.runs.c.place == place).order_by(epoch.desc(), version.desc())
        rows = await self._session.fetch_all(statement.limit(1))
        return (rows[0]["observed_epoch"], rows[0]["observed_version"]) if rows else (0, 0)

    async def list_histories(
        self, run_uids: Sequence[str], *, since: datetime | None = None
    ) -> Mapping[str, Sequence[Transition]]:
        """The transitions of several runs, or those made since then, in order, by uid."""
        statement = _make_list_histories(self._session.is_sqlite)
        if since is not None:
            statement = statement.where(tables.transitions.c.at >= since)
        return await self._fetch_histories(statement, run_uids)

    async def list_brief_histories(self, run_uids: Sequence[str]) -> Mapping[str, Sequence[Transition]]:
        """The newest transitions of several runs, with messages cut, in order, by uid."""
        return await self._fetch_histories(_make_list_brief_histories(self._session.is_sqlite), run_uids)

    async def _fetch_histories(
        self, statement: Select[Any], run_uids: Sequence[str]
    ) -> Mapping[str, Sequence[Transition]]:
        is_long = len(run_uids) > MANY_ROWS
        rows = await self._session.fetch_all(statement, {"run_uids": list(run_uids)}, is_long=is_long)
        found: dict[str, list[Transition]] = {}
        for row in rows:
            found.setdefault(row["run_uid"], []).append(_make_transition(tuple(row.values())[1:]))
        return found

    async def update(
        self,
        before: Run,
        after: Run,
        *,
        transitions: Sequence[Transition] = (),
        lease: Lease | None = None,
        is_lease_ended: bool = False,
        due_in: DueIn = UNCHANGED,
    ) -> Run:
        """Write the fields that differ and append the transitions. Raises `Stale`."""
        return await update_run(
            self._session,
            before,
            after,
            transitions=transitions,
            lease=lease,
            is_lease_ended=is_lease_ended,
            due_in=due_in,
        )

    async def update_many(self, updates: Sequence[RunUpdate]) -> Sequence[Run]:
        """The same for many runs that are locked in this unit of work."""
        return await update_runs(self._session, updates)

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
        """Runs without a place that `expire` has marked and nobody has deleted yet."""
        return await list_expired(self._session, limit=limit)

    async def list_unswept(self, *, deleted_before: datetime, limit: int) -> Sequence[str]:
        """The uids of deleted runs whose log was not deleted again after the row; oldest first."""
        return await list_unswept(self._session, deleted_before=deleted_before, limit=limit)

    async def mark_swept(self, run_uids: Sequence[str]) -> None:
        """Note that their logs were deleted again."""
        await mark_swept(self._session, run_uids)

    async def find_next_due(self) -> timedelta | None:
        """Look at the queue; leases do not matter."""
        return await find_next_due(self._session)

    async def claim_due(
        self,
        *,
        owner: str,
        limits: Mapping[Lane, int],
        lease_for: timedelta,
        place: str | None = None,
        shard: tuple[int, int] = (0, 1),
    ) -> Sequence[tuple[Run, Lease]]:
        """Lease due runs to the caller. Takes effect with the commit."""
        claimed = await claim_due(
            self._session,
            owner=owner,
            limits=limits,
            lease_for=lease_for,
            place=place,
            shard=shard,
            columns=RUN_COLUMNS,
        )
        return [(row_to_run(row), lease) for row, lease in claimed]

    async def release(self, lease: Lease, *, due_in: timedelta | None) -> None:
        """End the lease; does nothing if it is stale."""
        await release(self._session, lease, due_in=due_in)

    async def renew_leases(self, owner: str, *, lease_for: timedelta) -> int:
        """Extend all leases of the owner that have not expired."""
        return await renew_leases(self._session, owner, lease_for=lease_for)

    async def end_leases(self, owner: str | None) -> int:
        """End all leases of the owner, or of everybody if None."""
        return await end_leases(self._session, owner)

    async def wake(self, run_uids: Sequence[str]) -> Sequence[str]:
        """Make runs due now, even leased ones; returns their uids."""
        return await wake(self._session, run_uids)

    async def wake_waiting(self, place: str) -> int:
        """Make runs due now that an engine at that place can go on with."""
        return await wake_waiting(self._session, place)

    async def wake_misplaced(self, place: str | None, *, limit: int) -> int:
        """Make watched runs of other places due now that no live replica serves."""
        return await wake_misplaced(self._session, place, limit=limit)

    async def lock_observed(self, run_uids: Sequence[str]) -> Sequence[Run]:
        """Lock those runs and read them (SKIP LOCKED); all documents but `status` are left empty."""
        if not run_uids:
            return []
        statement = _make_lock_observed(self._session.is_sqlite)
        # One uid that no run can have must not hide the others.
        rows = await self._session.fetch_all(statement, {"observed": sorted(filter(is_storable_name, run_uids))})
        return [row_to_run(row, shown=_OBSERVED_FIELDS) for row in rows]

    async def list_existing(self, run_uids: Sequence[str]) -> Sequence[str]:
        """Those of the uids that are of a run, locked or not."""
        if not run_uids:
            return []
        statement = select(tables.runs.c.uid).where(self._session.is_one_of(tables.runs.c.uid, run_uids))
        return [row["uid"] for row in await self._session.fetch_all(statement)]

    async def list_active(self, place: str, *, after: str = "", limit: int) -> Sequence[Run]:
        """Runs of that place that are not settled yet, without documents, by uid."""
        rows = await self._session.fetch_all(_LIST_ACTIVE, {"of_place": place, "after_uid": after, "most": limit})
        return [row_to_run(row, shown=_ACTIVE_FIELDS) for row in rows]

    async def list_placed(self, place: str, *, after: str = "", limit: int) -> Sequence[str]:
        """The uids of all runs of that place, sorted."""
        return await list_placed(self._session, place, after=after, limit=limit)

    async def list_without_documents(self, run_uids: Sequence[str]) -> Sequence[Run]:
        """Those runs that exist, locked or not; all documents are left empty."""
        if not run_uids:
            return []
        statement = select(*_ACTIVE_COLUMNS)
        named = statement.where(self._session.is_one_of(tables.runs.c.uid, run_uids))
        return [row_to_run(row, shown=_ACTIVE_FIELDS) for row in await self._session.fetch_all(named)]

    async def list_buried(self, run_uids: Sequence[str]) -> Sequence[str]:
        """Those of the uids that have a tombstone."""
        if not run_uids:
            return []
        buried = tables.tombstones.c.run_uid
        rows = await self._session.fetch_all(select(buried).where(self._session.is_one_of(buried, run_uids)))
        return [row["run_uid"] for row in rows]

    async def list_places(self) -> Sequence[PlaceUse]:
        """The places that runs have or live replicas serve, by name."""
        return await list_places(self._session)


@cache
def _make_add(is_sqlite: bool, is_due: bool) -> ReturningInsert[Any]:  # noqa: FBT001 - the key of the cache
    columns = [column.name for column in tables.runs.c if column.name not in ("due_at", *_UNLEASED)]
    values = {name: bindparam(name, type_=tables.runs.c[name].type) for name in columns}
    due_at = DatabaseTimeIn(bindparam("due_seconds", type_=Double())) if is_due else null()
    added = make_insert(tables.runs, is_sqlite=is_sqlite).values(**values, due_at=due_at)
    shown = (tables.runs.c.due_at, _BYTES, *(() if is_sqlite else (notify_row(),)))
    return added.on_conflict_do_nothing().returning(*shown)


@cache
def _make_lock_observed(is_sqlite: bool) -> Select[Any]:  # noqa: FBT001 - the key of the cache
    columns = tables.runs.c
    return (
        select(*_OBSERVED_COLUMNS)
        .where(is_one_of(columns.uid, "observed", is_sqlite=is_sqlite))
        .order_by(columns.uid)
        .with_for_update(skip_locked=True, key_share=True)
    )


@cache
def _make_list_histories(is_sqlite: bool) -> Select[Any]:  # noqa: FBT001 - the key of the cache
    columns = tables.transitions.c
    return (
        select(columns.run_uid, *_TRANSITION_COLUMNS)
        .where(is_one_of(columns.run_uid, "run_uids", is_sqlite=is_sqlite))
        .order_by(columns.run_uid, columns.sequence)
    )


@cache
def _make_list_brief_histories(is_sqlite: bool) -> Select[Any]:  # noqa: FBT001 - the key of the cache
    columns, runs = tables.transitions.c, tables.runs.c
    message = func.substr(columns.message, 1, LISTED_MESSAGE_CHARACTERS).label("message")
    shown = [message if column.name == "message" else column for column in _TRANSITION_COLUMNS]
    return (
        select(columns.run_uid, *shown)
        .join(tables.runs, runs.uid == columns.run_uid)
        .where(
            is_one_of(runs.uid, "run_uids", is_sqlite=is_sqlite),
            columns.sequence > runs.last_sequence - LISTED_TRANSITIONS,
        )
        .order_by(runs.uid, columns.sequence)
    )


def row_to_run(row: RowMapping, *, shown: Sequence[str] = _FIELDS) -> Run:
    """The run of a row, by the order of its columns: by name takes three times as long."""
    values = dict[str, Any](zip(shown, row.values(), strict=True))
    return Run(type="run", **(values if shown is _FIELDS else {**_ABSENT_DOCUMENTS, **values}))


def _make_run(values: Mapping[str, Any]) -> Run:
    """The run with these fields, and without the documents that are not among them."""
    return Run(type="run", **{**_ABSENT_DOCUMENTS, **values})


def _make_transition(values: Sequence[Any]) -> Transition:
    named = dict(zip(_TRANSITION_FIELDS, values, strict=True))
    return Transition(**{**named, "state": State(named["state"])})
