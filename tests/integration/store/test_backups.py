"""Backups of a database in use, and what is made of them, on both engines."""

import asyncio
import shutil
import sqlite3
import stat
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from runyard.app.list_query import Query
from runyard.app.ports import Stale
from runyard.store import SqlStore, backup, open_store, postgresql_backups, read_status, restore, show_url
from runyard.store.errors import BackupFailed, ForeignSchema, FutureSchema, StoreLocked
from runyard.store.schema import list_known_revisions
from tests.contract.store.builders import claim, make_audit, make_entity, make_run, make_transition
from tests.contract.store.test_secrets import make_value
from tests.postgres import PASSWORD, Postgres


@pytest.fixture
def target(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where to restore to."""
    if engine == "sqlite":
        return f"sqlite:///{tmp_path}/restored.db"
    url: str = request.getfixturevalue("postgres").create_database()
    return url


async def fill(store: SqlStore) -> None:
    async with store.begin() as work:
        await work.entities.add(make_entity("f1", metadata={"labels": ["ü"]}))
        for number in range(20):
            await work.runs.add(make_run(f"r{number}"), [make_transition(1), make_transition(2)], due_in=timedelta(0))
        await work.secrets.put(make_value())
        await work.audit.add(make_audit())
        await work.commit()


async def test_everything_is_there_and_the_epoch_is_new_when_a_backup_is_restored(
    store: SqlStore, database: str, target: str, tmp_path: Path
) -> None:
    await fill(store)
    async with store.begin() as work:
        [(run, lease), *_] = await claim(work, owner="me", limit=1, lease_for=timedelta(hours=1))
        await work.commit()
    async with store.begin(is_read_only=True) as work:
        old = {name: await work.get_meta(name) for name in ("installation", "epoch", "sweeper")}

    await backup(database, tmp_path / "backup")
    await restore(tmp_path / "backup", target)

    restored = await open_store(target)
    async with restored.begin() as work:
        assert await work.get_meta("installation") == old["installation"]
        epoch = await work.get_meta("epoch")
        assert epoch is not None
        assert epoch != old["epoch"]
        assert old["sweeper"] is None
        assert await work.get_meta("sweeper") == "off"
        found = await work.runs.find("r7", project="p")
        assert found is not None
        assert replace(found, due_at=None) == make_run("r7", last_sequence=2)
        assert await work.runs.list_transitions("r7") == [make_transition(1), make_transition(2)]
        assert (await work.runs.find_page(Query(type="run"))).total == 20
        assert await work.entities.find("function", "f1", project="p") is not None
        assert await work.secrets.find("p", "key") == make_value()
        with pytest.raises(Stale):
            await work.runs.update(run, run, lease=lease)
        await work.audit.add(make_audit())
        assert [number for number, _ in await work.audit.list_entries()] == [2, 1]
        await work.commit()
    await restored.close()
    async with store.begin(is_read_only=True) as work:
        assert await work.get_meta("epoch") == old["epoch"]


async def test_every_restored_database_has_an_epoch_of_its_own_when_the_backup_is_the_same(
    store: SqlStore, database: str, tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    await backup(database, tmp_path / "backup")
    epochs = set()
    for number in range(2):
        url = f"sqlite:///{tmp_path}/restored-{number}.db"
        if engine == "postgresql":
            url = request.getfixturevalue("postgres").create_database()
        await restore(tmp_path / "backup", url)
        restored = await open_store(url)
        async with restored.begin(is_read_only=True) as work:
            epochs.add(await work.get_meta("epoch"))
        await restored.close()
    assert len(epochs) == 2


async def test_backup_is_of_one_moment_when_writers_go_on(
    store: SqlStore, database: str, target: str, tmp_path: Path
) -> None:
    has_begun, is_over = asyncio.Event(), asyncio.Event()

    async def write() -> int:
        number = 0
        while not is_over.is_set():
            async with store.begin() as work:
                await work.runs.add(make_run(f"r{number}"), [make_transition(1)])
                await work.audit.add(make_audit(id=f"r{number}"))
                await work.commit()
            number += 1
            has_begun.set()
        return number

    writer = asyncio.create_task(write())
    await has_begun.wait()
    await backup(database, tmp_path / "backup")
    is_over.set()
    written = await writer

    await restore(tmp_path / "backup", target)
    restored = await open_store(target)
    async with restored.begin(is_read_only=True) as work:
        runs = {run.id for run in (await work.runs.find_page(Query(type="run", size=10_000))).content}
        audited = {entry.id for _, entry in await work.audit.list_entries(limit=10_000)}
        assert 0 < len(runs) <= written
        assert runs == {f"r{number}" for number in range(len(runs))} == audited
        assert (await work.runs.find_page(Query(type="run", size=0))).total == len(runs)
        for run_id in runs:
            assert len(await work.runs.list_transitions(run_id)) == 1
    await restored.close()


async def test_backup_is_its_owners_alone_when_it_is_made(store: SqlStore, database: str, tmp_path: Path) -> None:
    await backup(database, tmp_path / "backup")
    assert stat.S_IMODE((tmp_path / "backup").stat().st_mode) == 0o600
    assert not (tmp_path / "backup.part").exists()


async def test_nothing_is_overwritten_when_the_file_exists(store: SqlStore, database: str, tmp_path: Path) -> None:
    (tmp_path / "backup").write_text("precious")
    with pytest.raises(BackupFailed, match="already exists; it was not changed"):
        await backup(database, tmp_path / "backup")
    assert (tmp_path / "backup").read_text() == "precious"


async def test_failure_is_told_when_the_folder_is_missing(store: SqlStore, database: str, tmp_path: Path) -> None:
    with pytest.raises(BackupFailed, match="was not made"):
        await backup(database, tmp_path / "no" / "such" / "folder")


async def test_nothing_is_backed_up_when_the_database_is_empty(target: str, tmp_path: Path) -> None:
    with pytest.raises(BackupFailed, match="nothing to back up"):
        await backup(target, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


async def test_database_in_use_is_left_as_it_is_when_something_is_restored_onto_it(
    store: SqlStore, database: str, engine: str, tmp_path: Path
) -> None:
    await fill(store)
    await backup(database, tmp_path / "backup")
    with pytest.raises((BackupFailed, StoreLocked)):
        await restore(tmp_path / "backup", database)
    await store.close()
    with pytest.raises(BackupFailed, match="it was not changed"):
        await restore(tmp_path / "backup", database)
    again = await open_store(database)
    async with again.begin(is_read_only=True) as work:
        assert await work.get_meta("sweeper") is None
        assert (await work.runs.find_page(Query(type="run"))).total == 20
    await again.close()


@pytest.mark.parametrize("content", [None, b"", b"not a backup" * 100])
async def test_nothing_is_restored_when_the_file_is_no_backup(
    target: str, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "backup").write_bytes(content)
    with pytest.raises((BackupFailed, ForeignSchema)):
        await restore(tmp_path / "backup", target)
    assert (await read_status(target)).state == "empty"


async def test_engine_is_named_when_the_backup_is_of_another_one(target: str, engine: str, tmp_path: Path) -> None:
    start, name, other = {
        "sqlite": (b"PGDMP\x01\x0e", "PostgreSQL", "SQLite"),
        "postgresql": (b"SQLite format 3\0", "SQLite", "PostgreSQL"),
    }[engine]
    (tmp_path / "backup").write_bytes(start + bytes(100))
    with pytest.raises(BackupFailed) as failure:
        await restore(tmp_path / "backup", target)
    shown = show_url(target)
    assert str(failure.value).startswith(
        f"{tmp_path}/backup is a backup of {name}, and {shown} is {other}: restore it into"
    )
    assert (await read_status(target)).state == "empty"


async def test_nothing_is_restored_when_the_backup_is_from_the_future(
    store: SqlStore, database: str, target: str, engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    change = "UPDATE alembic_version SET version_num = '{}'"
    await store.close()
    if engine == "sqlite":
        with sqlite3.connect(database.removeprefix("sqlite:///")) as file:
            file.execute(change.format("9999"))
        file.close()
        await backup(database, tmp_path / "backup")
    else:
        server: Postgres = request.getfixturevalue("postgres")
        name = database.rpartition("/")[2]
        server.run_sql(change.format("9999"), database=name)
        try:
            await backup(database, tmp_path / "backup")
        finally:
            server.run_sql(change.format(list_known_revisions()[-1]), database=name)

    with pytest.raises(FutureSchema, match="9999"):
        await restore(tmp_path / "backup", target)
    assert (await read_status(target)).state == "empty"


async def test_half_restored_database_is_refused_when_the_end_is_missing(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, target = postgres.create_database(), postgres.create_database()
    await (await open_store(url)).close()
    await backup(url, tmp_path / "backup")
    monkeypatch.setattr(postgresql_backups, "STATEMENTS", ("SELECT 1 / 0",))

    with pytest.raises(Exception, match="zero"):
        await restore(tmp_path / "backup", target)

    assert (await read_status(target)).state == "foreign"
    with pytest.raises(ForeignSchema):
        await open_store(target)


async def test_what_is_missing_is_told_when_the_programs_are_not_installed(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.create_database()
    await (await open_store(url)).close()
    monkeypatch.setattr(shutil, "which", lambda _program: None)
    with pytest.raises(BackupFailed, match=r"pg_dump.*not installed.*postgresql-client"):
        await backup(url, tmp_path / "backup")


async def test_password_is_nowhere_to_be_seen_when_a_backup_fails(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.create_database()
    await (await open_store(url)).close()
    with pytest.raises(BackupFailed) as failure:
        await backup(url, tmp_path / "no" / "folder")
    with pytest.raises(BackupFailed) as refusal:
        await restore(tmp_path, url)
    for text in (str(failure.value), str(refusal.value), repr(failure.value.__cause__)):
        assert PASSWORD not in text
        assert PASSWORD.replace("%40", "@") not in text
