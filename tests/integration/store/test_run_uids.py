"""Databases that the release before run uids wrote, brought forward. `tests/data/databases` holds their dumps."""

import sqlite3
from datetime import timedelta
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest
from sqlalchemy import text

from runyard.app.list_query import Query
from runyard.app.log_store import Stream
from runyard.domain.lifecycle import State
from runyard.domain.outcomes import Lane
from runyard.logs import open_logs
from runyard.store import SqlStore, backup, open_store, read_status, restore, upgrade
from runyard.store.errors import OldSchema
from runyard.store.migrations.versions.r0003_engines import _LANE
from runyard.store.schema import list_known_revisions
from tests.contract.store.builders import NOON, claim, make_entity, make_run, make_transition

DUMPS = Path(__file__).parents[2] / "data" / "databases"
HEAD = list_known_revisions()[-1]


@pytest.fixture
async def old(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database as the release before wrote it."""
    dump = (DUMPS / f"r0001-{engine}.sql").read_text()
    if engine == "sqlite":
        load_sqlite(tmp_path / "old.db", dump)
        return f"sqlite:///{tmp_path}/old.db"
    url: str = request.getfixturevalue("postgres").create_database()
    connection = await asyncpg.connect(url)
    await connection.execute(dump)
    await connection.close()
    return url


def load_sqlite(path: Path, dump: str) -> None:
    with sqlite3.connect(path) as file:
        file.executescript(dump)
    file.close()


async def check_content(store: SqlStore) -> None:
    """Everything that was in the dump, with the ids of runs as their uids."""
    async with store.begin() as work:
        run = await work.runs.find("r1", project="p")
        labels = {"labels": ["both", "run"]}
        known = {"metadata": labels, "message": "it's \u20ac", "effective": {"a": 1}, "due_at": NOON}
        assert run == make_run("r1", uid="r1", **known, last_sequence=2)
        assert await work.runs.find_by_uid("r1") == run
        ended = await work.runs.find_by_uid("r2")
        assert ended is not None
        assert (ended.state, ended.settled_at, ended.is_log_complete) == ("COMPLETED", ended.updated_at, True)
        assert (ended.last_sequence, ended.place, ended.lane) == (1, None, Lane.SETTLE)
        assert await work.runs.list_transitions("r1") == [make_transition(1), make_transition(2, reason="user.submit")]
        for project, total in (("p", 2), ("q", 1)):
            page = await work.runs.find_page(Query(type="run", project=project, size=0))
            assert (project, page.total) == (project, total)
        assert await work.metrics.list_values("run", "r1", project="p") == {"loss": [1.0, 0.5]}
        assert await work.metrics.list_values("function", "f1", project="p") == {"acc": 0.5}
        assert await work.entities.find("function", "f1", project="p") is not None
        assert await work.entities.find("function", "f1", project="q") is None
        latest = await work.entities.find_page(Query(type="function", project="p"))
        assert [one.id for one in latest.content] == ["f2"]
        assert await work.entities.list_labels("p") == ["both", "old", "run"]
        assert await work.entities.list_labels("q") == ["both"]
        found = await work.runs.find_page(Query(type="run", labels=("both",)))
        assert [one.id for one in found.content] == ["r1"]
        assert await work.firings.find_last("tr1", project="p") == "2026-11-15T00:00Z"
        assert await work.firings.use("tr1", "2026-11-15T00:00Z", project="p") is False
        assert await work.firings.use("tr1", "2026-11-16T00:00Z", project="p") is True
        assert await work.firings.find_last("tr1", project="p") == "2026-11-16T00:00Z"
        assert await work.secrets.find("p", "key") is not None
        # Of `gone`; `r3` was deleted too, and added again.
        assert await work.runs.has_tombstone("gone", project="q") is True
        assert await work.runs.has_tombstone("r3", project="p") is False
        later = await work.read_clock()
        assert list(await work.runs.list_unswept(deleted_before=later, limit=9)) == ["gone"]


async def test_everything_is_kept_when_an_old_database_is_brought_forward(old: str) -> None:
    with pytest.raises(OldSchema, match="runyard db upgrade"):
        await open_store(old)
    before = await upgrade(old)
    assert (before.state, before.revision) == ("old", "0001")
    assert (await read_status(old)).revision == HEAD
    store = await open_store(old)
    try:
        await check_content(store)
    finally:
        await store.close()


async def test_ids_are_per_project_when_an_old_database_was_brought_forward(old: str) -> None:
    store = await open_store(old, is_upgrading=True)
    try:
        async with store.begin() as work:
            await work.runs.add(make_run("r1", uid="new", project="q"), [make_transition(1)], due_in=timedelta(0))
            await work.entities.add(make_entity("f1", project="q"))
            claimed = await claim(work, owner="me", limit=9, lease_for=timedelta(minutes=1))
            assert {lease.run_uid for _, lease in claimed} == {"r1", "r3", "new"}
            assert list(await work.runs.delete(["r1"])) == ["r1"]
            assert await work.runs.find("r1", project="q") is not None
            assert await work.runs.has_tombstone("r1", project="p") is True
            await work.commit()
    finally:
        await store.close()


async def test_backup_of_an_old_database_is_usable_when_it_was_restored_and_brought_forward(
    old: str, engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    await backup(old, tmp_path / "backup")
    fresh = f"sqlite:///{tmp_path}/fresh.db"
    if engine != "sqlite":
        fresh = request.getfixturevalue("postgres").create_database()
    await restore(tmp_path / "backup", fresh)
    store = await open_store(fresh, is_upgrading=True)
    try:
        await check_content(store)
    finally:
        await store.close()


async def test_pages_fit_their_budget_when_an_old_database_has_large_entities(old: str, engine: str) -> None:
    enlarge = f"""UPDATE entities SET spec = '{{"a": "{"x" * 10_000}"}}' WHERE type = 'function' AND id = 'f1'"""
    if engine == "sqlite":
        with sqlite3.connect(old.removeprefix("sqlite:///")) as file:
            file.execute(enlarge)
        file.close()
    else:
        connection = await asyncpg.connect(old)
        await connection.execute(enlarge)
        await connection.close()
    store = await open_store(old, is_upgrading=True)
    try:
        async with store.begin(is_read_only=True) as work:
            page = await work.entities.find_page(
                Query(type="function", project="p", versions="all", size=9, most_bytes=25_000)
            )
        assert (page.size, page.total, len(page.content)) == (2, 2, 2)
    finally:
        await store.close()


async def test_log_is_found_by_uid_when_an_older_release_wrote_it(tmp_path: Path) -> None:
    load_sqlite(tmp_path / "logs.db", (DUMPS / "logs-1.sql").read_text())
    for _ in range(2):
        logs = open_logs(f"database:{tmp_path}/logs.db")
        [info] = await logs.list_streams("r1")
        assert info.stream == Stream("r1", "pod-1", "main")
        [piece] = await logs.read(info.stream)
        assert (piece.content, piece.at) == (b"hello from the old release\n", NOON)
        await logs.append(Stream("u1", "pod-1", "main"), b"new\n", offset=0, at=NOON)
        await logs.close()


async def test_lane_is_the_one_that_the_store_writes_when_the_script_chooses_it(store: SqlStore) -> None:
    async with store.begin() as work:
        for state in State:
            for desired in ("run", "stop", "delete"):
                # Older releases had no PENDING run without an anchor.
                anchor_uid = "u" if state is State.PENDING else None
                run = make_run(f"{state}-{desired}", state=state, desired=desired, anchor_uid=anchor_uid)
                await work.runs.add(run, [])
        rows = await work.session.fetch_all(text(f"SELECT old.uid, old.lane, {_LANE} AS chosen FROM runs AS old"))
    assert len(rows) == 3 * len(State)
    assert [row["uid"] for row in rows if row["lane"] != row["chosen"]] == []
