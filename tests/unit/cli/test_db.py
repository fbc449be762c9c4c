import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from runyard.app.log_store import Stream
from runyard.cli.commands.db import ENTRIES as DB
from runyard.cli.commands.user import ENTRIES as USER
from runyard.cli.lazy_commands import Entry, load
from runyard.logs import open_logs
from runyard.store import open_store
from tests.contract.logs.builders import START
from tests.contract.store.builders import make_run, make_transition
from tests.unit.cli.conftest import Call


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of every call, by its variable."""
    monkeypatch.setenv("RUNYARD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_status_follows_the_database_when_it_is_made(call: Call, data: Path) -> None:
    called = call("db", "status", "-o", "json")
    assert called.code == 0
    assert json.loads(called.out)["state"] == "empty"
    assert not data.exists()
    upgraded = call("db", "upgrade")
    assert (upgraded.code, upgraded.err) == (0, "")
    assert upgraded.out.startswith(f"sqlite:///{data}/runyard.db upgraded from revision none to ")
    assert "is already at revision" in call("db", "upgrade").out
    assert "state: current" in call("db", "status").out


def test_status_ends_with_one_when_the_database_is_not_ours(call: Call, data: Path) -> None:
    data.mkdir()
    with closing(sqlite3.connect(data / "runyard.db")) as other:
        other.execute("CREATE TABLE theirs (id INTEGER)")
    called = call("db", "status")
    assert called.code == 1
    assert "state: foreign" in called.out
    assert called.err.startswith("error: ")
    assert called.err.count("\n") == 1
    assert call("db", "upgrade").code == 1


def test_backup_becomes_a_database_when_restored(call: Call, tmp_path: Path) -> None:
    call("db", "upgrade")
    backed_up = call("db", "backup", tmp_path / "copy.db")
    assert backed_up.code == 0
    assert (
        backed_up.err
        == "note: not in the backup: the logs of runs, and the key that encrypts secrets; back them up separately\n"
    )
    again = call("db", "backup", tmp_path / "copy.db")
    assert again.code == 1
    assert "already exists; it was not changed" in again.err
    restored = call("db", "restore", tmp_path / "copy.db", "--data", tmp_path / "other")
    assert restored.code == 0
    assert restored.err == (
        "note: new epoch: the server removes no objects from its engine until you run `runyard db epoch confirm`\n"
    )
    assert "state: current" in call("db", "status", "--data", tmp_path / "other").out
    assert call("db", "restore", tmp_path / "copy.db").code == 1


def test_status_shows_that_nothing_is_removed_when_a_restore_is_not_confirmed(call: Call, tmp_path: Path) -> None:
    def read_epoch() -> tuple[str, bool]:
        shown = call("db", "status", "--data", tmp_path / "other").out.splitlines()[-1]
        return shown, json.loads(call("db", "status", "-o", "json", "--data", tmp_path / "other").out)["is_confirmed"]

    call("db", "upgrade")
    call("db", "backup", tmp_path / "copy.db")
    call("db", "restore", tmp_path / "copy.db", "--data", tmp_path / "other")
    assert read_epoch() == (
        "restored: the server removes no objects from its engine until you run `runyard db epoch confirm`",
        False,
    )
    call("db", "epoch", "confirm", "--yes", "--data", tmp_path / "other")
    shown, is_confirmed = read_epoch()
    assert shown.startswith("revision: ")
    assert is_confirmed


def test_backup_is_refused_when_there_is_no_database(call: Call, tmp_path: Path) -> None:
    called = call("db", "backup", tmp_path / "copy.db")
    assert called.code == 1
    assert "nothing to back up" in called.err


def test_prune_needs_to_know_what_is_old_when_everything_is_kept(call: Call) -> None:
    called = call("db", "prune")
    assert called.code == 2
    assert "--keep-runs" in called.err


def test_prune_counts_when_there_is_nothing_old(call: Call) -> None:
    call("db", "upgrade")
    called = call("db", "prune", "--keep-runs", "30d", "--keep-logs", "1w", "--keep-audit", "365d")
    assert (called.code, called.out) == (0, "deleted: 0 runs with their logs, 0 other logs, 0 audit entries\n")


def test_old_runs_go_with_their_logs_when_pruned(call: Call, data: Path) -> None:
    old, now = START - timedelta(days=400), datetime.now(UTC)

    async def fill() -> None:
        store, logs = await open_store(f"sqlite:///{data}/runyard.db"), open_logs(f"database:{data}/logs.db")
        async with store.begin() as unit:
            await unit.runs.add(make_run("old", state="COMPLETED", updated_at=old), [make_transition(1)])
            await unit.runs.add(make_run("new", state="COMPLETED", updated_at=now), [make_transition(1)])
            placed = make_run("placed", state="COMPLETED", updated_at=old, place="memory/a")
            await unit.runs.add(placed, [make_transition(1)])
            await unit.commit()
        for run_id, at in (("old", now), ("new", now), ("stray", now - timedelta(days=40))):
            await logs.append(Stream(run_id, "pod", "main"), b"x", offset=0, at=at)
        await store.close()
        await logs.close()

    async def list_left() -> list[str]:
        logs = open_logs(f"database:{data}/logs.db")
        left = [run_id for run_id in ("old", "new", "stray") if await logs.list_streams(run_id)]
        await logs.close()
        return left

    data.mkdir()
    asyncio.run(fill())
    called = call("db", "prune", "--keep-runs", "30d", "--keep-logs", "30d")
    assert (called.code, called.out) == (0, "deleted: 1 runs with their logs, 1 other logs, 0 audit entries\n")
    assert called.err == (
        "note: 1 run left to the server, which removes their objects from the engine first: DELETING until then\n"
    )
    assert asyncio.run(list_left()) == ["new"]


def test_problem_is_one_line_when_the_url_is_wrong(call: Call) -> None:
    called = call("db", "status", "--database", "mysql://ada:hunter2@db/x")
    assert called.code == 2
    assert called.err.startswith("error: --database: ")
    assert "hunter2" not in called.err
    called = call("db", "status", "--database", "sqlite://nowhere")
    assert called.code == 1
    assert "Traceback" not in called.err


def test_other_settings_do_not_matter_when_the_database_is_asked(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNYARD_PORT", "nonsense")
    assert call("db", "status").code == 0


@pytest.mark.parametrize("entries", [DB, USER])
def test_command_is_found_when_it_stands_in_a_table(entries: dict[str, Entry]) -> None:
    for name, entry in entries.items():
        command = load(entry.target)
        assert isinstance(command, click.Command)
        assert command.name == name
        assert entry.line.endswith(".")


def test_nearest_command_is_named_when_it_is_unknown(call: Call) -> None:
    assert "did you mean `backup`?" in call("db", "bakcup").err
    assert "did you mean `password`?" in call("user", "pasword").err
    assert "Examples:" in call("db", "-h").out


def test_extra_is_named_when_it_is_not_installed(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.cli.setting_options.find_spec", lambda name: None if name == "sqlalchemy" else name)
    for words in (["db", "status"], ["server"], ["user", "list"]):
        called = call(*words)
        assert called.code == 1
        assert called.err.count("\n") == 1
        assert "pip install 'runyard[server]'" in called.err


def test_requests_are_exported_when_no_server_runs(call: Call, data: Path) -> None:
    assert call("db", "upgrade").code == 0
    called = call("db", "export-requests")
    assert (called.code, called.out, called.err) == (0, "", "note: 0 requests exported\n")


def test_nothing_is_exported_or_made_when_there_is_no_database(call: Call, data: Path) -> None:
    called = call("db", "export-requests")
    shown = f"sqlite:///{data}/runyard.db"
    assert (called.code, called.err) == (1, f"error: {shown} is empty or does not exist: nothing to read\n")
    assert not (data / "runyard.db").exists()


def test_time_is_a_usage_error_when_it_is_not_one(call: Call, data: Path) -> None:
    called = call("db", "export-requests", "--since", "yesterday")
    allowed = "ISO 8601, such as 2026-11-15T12:00:00Z"
    assert called.code == 2
    assert called.err.endswith(f"error: --since: `yesterday` is not a time; allowed: {allowed}\n")
