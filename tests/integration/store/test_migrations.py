"""Databases that are new, old, from the future or somebody else's, on both engines."""

import asyncio
import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from runyard.app.list_query import Query
from runyard.store import migrate, open_store, read_status, tables, upgrade
from runyard.store.connections import make_postgresql_engine
from runyard.store.errors import ForeignSchema, FutureSchema, StoreError
from runyard.store.migrator import make_config
from runyard.store.schema import list_known_revisions
from runyard.store.urls import PostgresUrl, parse_url
from tests.contract.store.builders import make_audit, make_entity, make_run, make_transition
from tests.postgres import Postgres

HEAD = list_known_revisions()[-1]

LATER = """
    from alembic import op
    import sqlalchemy as sa

    revision = "9001"
    down_revision = "{head}"

    def upgrade() -> None:
        # Rebuilds the table on SQLite, as any change of a column does there.
        with op.batch_alter_table("runs", recreate="auto") as batch:
            batch.add_column(sa.Column("shout", sa.Text()))
            batch.alter_column("kind", new_column_name="sort")
            batch.create_index("ix_runs_shout", ["shout"])
        op.execute("UPDATE runs SET shout = upper(name)")
        {more}
"""


# What PostgreSQL knows of columns, indexes and constraints.
LISTINGS = (
    """
    SELECT table_name, ordinal_position, column_name, data_type, is_nullable, coalesce(collation_name, ''),
           coalesce(column_default, '') FROM information_schema.columns
    WHERE table_schema = 'public' AND table_name <> 'alembic_version'
    """,
    """
    SELECT tablename, indexname, indexdef FROM pg_indexes
    WHERE schemaname = 'public' AND tablename <> 'alembic_version'
    """,
    """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'alembic_version'
    """,
)


@pytest.fixture
def empty(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without anything in it."""
    if engine == "sqlite":
        return f"sqlite:///{tmp_path}/new.db"
    url: str = request.getfixturevalue("postgres").create_database()
    return url


def write_script(folder: Path, *, more: str = "") -> Path:
    folder.mkdir()
    (folder / "r9001_later.py").write_text(textwrap.dedent(LATER.format(head=HEAD, more=more)))
    return folder


async def fill(url: str) -> None:
    store = await open_store(url)
    async with store.begin() as work:
        await work.entities.add(make_entity("f1"))
        for number in range(50):
            await work.runs.add(make_run(f"r{number}"), [make_transition(1), make_transition(2)])
            await work.audit.add(make_audit(id=f"r{number}"))
        await work.commit()
    await store.close()


async def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    place = parse_url(url)
    if isinstance(place, PostgresUrl):
        connection = await asyncpg.connect(url)
        rows = [tuple(row) for row in await connection.fetch(statement)]
        await connection.close()
        return rows
    with sqlite3.connect(place.path) as file:
        found: list[tuple[Any, ...]] = file.execute(statement).fetchall()
    file.close()
    return found


async def read_everything(url: str) -> object:
    """All that is in the database, to see whether it was touched."""
    place = parse_url(url)
    if not isinstance(place, PostgresUrl):
        return hashlib.sha256(place.path.read_bytes()).hexdigest()
    dump = await asyncio.create_subprocess_exec("pg_dump", url, stdout=asyncio.subprocess.PIPE)
    output, _ = await dump.communicate()
    # Newer releases write a random word, to keep apart what psql may run.
    return [line for line in output.splitlines() if b"restrict" not in line]


async def test_tables_are_made_when_the_database_is_empty(empty: str) -> None:
    before = await read_status(empty)
    store = await open_store(empty)
    await store.close()
    after = await read_status(empty)

    assert (before.state, before.revision, before.pending) == ("empty", None, tuple(list_known_revisions()))
    assert (after.state, after.revision, after.pending) == ("current", HEAD, ())


async def test_ids_stay_when_the_database_is_opened_again(empty: str) -> None:
    ids = []
    for _ in range(2):
        store = await open_store(empty)
        async with store.begin(is_read_only=True) as work:
            ids.append((await work.get_meta("installation"), await work.get_meta("epoch")))
        await store.close()
    assert ids[0] == ids[1]
    assert None not in ids[0]


async def test_data_is_kept_when_a_database_is_brought_forward(empty: str, tmp_path: Path) -> None:
    await fill(empty)
    await migrate(parse_url(empty), more_scripts=[write_script(tmp_path / "scripts")])

    assert await query(empty, "SELECT count(*), count(shout), min(sort) FROM runs") == [(50, 50, "python+job:run")]
    assert await query(empty, "SELECT shout FROM runs WHERE id = 'r7'") == [("R7",)]
    assert await query(empty, "SELECT count(*) FROM transitions") == [(100,)]
    assert await query(empty, "SELECT count(*) FROM audit") == [(50,)]
    assert await query(empty, "SELECT version_num FROM alembic_version") == [("9001",)]


async def test_nothing_is_changed_when_a_script_fails(empty: str, tmp_path: Path) -> None:
    await fill(empty)
    scripts = write_script(tmp_path / "scripts", more="raise RuntimeError('half way')")

    with pytest.raises(RuntimeError, match="half way"):
        await migrate(parse_url(empty), more_scripts=[scripts])

    await check_unchanged(empty)


async def test_nothing_is_changed_when_rows_would_refer_to_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    await fill(url)
    scripts = write_script(tmp_path / "scripts", more="op.execute(\"DELETE FROM runs WHERE id = 'r7'\")")

    with pytest.raises(StoreError, match="refer to nothing"):
        await migrate(parse_url(url), more_scripts=[scripts])

    await check_unchanged(url)


async def test_nothing_is_changed_when_the_upgrade_is_killed(empty: str, tmp_path: Path) -> None:
    await fill(empty)
    marker = tmp_path / "half-way"
    more = f"import pathlib, time; pathlib.Path({str(marker)!r}).touch(); time.sleep(60)"
    scripts = write_script(tmp_path / "scripts", more=more)
    code = (
        "import asyncio, pathlib, sys; from runyard.store import migrate; from runyard.store.urls import parse_url;"
        "asyncio.run(migrate(parse_url(sys.argv[1]), more_scripts=[pathlib.Path(sys.argv[2])]))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, empty, str(scripts))
    while not marker.exists():
        assert process.returncode is None
        await asyncio.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()

    await check_unchanged(empty)


async def check_unchanged(url: str) -> None:
    assert (await read_status(url)).state == "current"
    store = await open_store(url)
    async with store.begin() as work:
        await work.runs.add(make_run("one-more"), [])
        assert (await work.runs.find_page(Query(type="run"))).total == 51
        assert len(await work.runs.list_transitions("r7")) == 2
        await work.commit()
    await store.close()


async def test_database_is_left_untouched_when_it_is_from_the_future(empty: str, tmp_path: Path) -> None:
    await fill(empty)
    await migrate(parse_url(empty), more_scripts=[write_script(tmp_path / "scripts")])
    before = await read_everything(empty)

    assert (await read_status(empty)).state == "future"
    for attempt in (open_store(empty), open_store(empty, is_upgrading=True), upgrade(empty)):
        with pytest.raises(FutureSchema, match=r"9001.*newer release.*untouched"):
            await attempt

    assert await read_everything(empty) == before


async def test_database_is_left_untouched_when_it_is_somebody_elses(empty: str) -> None:
    place = parse_url(empty)
    if isinstance(place, PostgresUrl):
        connection = await asyncpg.connect(empty)
        await connection.execute("CREATE TABLE theirs (x int)")
        await connection.close()
    else:
        with sqlite3.connect(place.path) as file:
            file.execute("CREATE TABLE theirs (x int)")
        file.close()
    before = await read_everything(empty)

    for attempt in (open_store(empty), upgrade(empty)):
        with pytest.raises(ForeignSchema, match="not Runyard's"):
            await attempt

    assert await read_everything(empty) == before


@pytest.mark.parametrize("content", [b"hello, I am a text file\n" * 100, b"SQLite format 3\0" + b"\1" * 5000])
async def test_file_is_left_untouched_when_it_is_no_database(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    for attempt in (open_store(f"sqlite:///{file}"), upgrade(f"sqlite:///{file}")):
        with pytest.raises(ForeignSchema, match="cannot be read as a database"):
            await attempt
    assert file.read_bytes() == content


async def test_all_start_when_several_servers_find_the_same_empty_database(postgres: Postgres) -> None:
    url = postgres.create_database()
    stores = await asyncio.gather(*(open_store(url) for _ in range(4)))
    ids = set()
    for store in stores:
        async with store.begin(is_read_only=True) as work:
            ids.add(await work.get_meta("installation"))
        await store.close()
    assert len(ids) == 1


async def test_upgrade_does_nothing_when_there_is_nothing_to_do(empty: str) -> None:
    assert (await upgrade(empty)).state == "empty"
    before = await read_everything(empty)
    assert (await upgrade(empty)).state == "current"
    assert await read_everything(empty) == before


async def test_scripts_make_the_tables_of_the_statements_when_they_have_all_run(empty: str, engine: str) -> None:
    await upgrade(empty)
    if engine == "sqlite":
        migrated = await query(empty, "SELECT type, name, tbl_name, sql FROM sqlite_master")
        assert _normalise(migrated) == _normalise(_list_sqlite_objects())
        return
    by_scripts = [sorted(await query(empty, listing)) for listing in LISTINGS]
    place = parse_url(empty)
    assert isinstance(place, PostgresUrl)
    own = make_postgresql_engine(place)
    async with own.begin() as connection:
        await connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        await connection.exec_driver_sql("CREATE SCHEMA public")
        await connection.run_sync(tables.metadata.create_all)
    await own.dispose()
    for listing, expected in zip(LISTINGS, by_scripts, strict=True):
        assert sorted(await query(empty, listing)) == expected


def _list_sqlite_objects() -> list[tuple[Any, ...]]:
    made = create_engine("sqlite://")
    with made.begin() as connection:
        tables.metadata.create_all(connection)
        rows = [tuple(row) for row in connection.exec_driver_sql("SELECT type, name, tbl_name, sql FROM sqlite_master")]
    made.dispose()
    return rows


def _normalise(rows: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    kept = [row for row in rows if row[2] != "alembic_version"]
    return sorted(tuple(" ".join(str(cell).split()) for cell in row) for row in kept)


def test_revisions_are_those_of_alembic_when_they_are_read_from_names() -> None:
    scripts = ScriptDirectory.from_config(make_config())
    by_alembic = [script.revision for script in scripts.walk_revisions()]
    assert list_known_revisions() == by_alembic[::-1]


def test_alembic_is_not_loaded_when_the_tables_are_in_order(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from runyard.store import open_store\n"
        "async def main():\n"
        "    store = await open_store(sys.argv[1]); await store.close()\n"
        "    print('alembic' in sys.modules)\n"
        "asyncio.run(main())"
    )
    argv = [sys.executable, "-c", code, f"sqlite:///{tmp_path}/x.db"]
    answers = [subprocess.run(argv, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert answers == ["True\n", "False\n"]
