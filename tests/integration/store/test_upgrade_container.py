"""The init container `upgrade` of `deploy/kubernetes/server.yaml`: its script, on databases of this machine."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from alembic import command

from runyard.store import upgrade
from runyard.store.connections import make_sqlite_engine
from runyard.store.migrator import make_config
from runyard.store.schema import list_known_revisions
from runyard.store.urls import SqliteUrl, parse_url

MANIFEST = Path(__file__).parents[3] / "deploy" / "kubernetes" / "server.yaml"
*_, OLDER, NEWEST = list_known_revisions()


def run_script(data: Path) -> str:
    """What it prints; fails if it does."""
    (deployment,) = [one for one in yaml.safe_load_all(MANIFEST.read_text()) if one["kind"] == "Deployment"]
    first, *_ = deployment["spec"]["template"]["spec"]["initContainers"]
    assert (first["name"], first["command"]) == ("upgrade", ["sh", "-c"])
    (script,) = first["args"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", script.replace("/data", str(data))],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_revision(file: Path) -> str:
    with closing(sqlite3.connect(file)) as database:
        ((revision,),) = database.execute("SELECT version_num FROM alembic_version")
    return str(revision)


def make_old_database(file: Path) -> None:
    url = parse_url(f"sqlite:///{file}")
    assert isinstance(url, SqliteUrl)
    engine = make_sqlite_engine(url, begin="BEGIN IMMEDIATE", has_foreign_keys=False, locked_milliseconds=1000)
    config = make_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, OLDER)
    engine.dispose()


def test_database_is_backed_up_and_upgraded_when_it_is_of_an_older_release(tmp_path: Path) -> None:
    make_old_database(tmp_path / "runyard.db")
    backup = tmp_path / f"before-upgrade-from-{OLDER}.db"
    backup.write_text("of an attempt that failed")
    printed = run_script(tmp_path)
    assert f"upgraded from revision {OLDER} to {NEWEST}\n" in printed
    assert (read_revision(tmp_path / "runyard.db"), read_revision(backup)) == (NEWEST, OLDER)


@pytest.mark.parametrize("is_new", [True, False])
def test_nothing_is_done_when_the_database_is_of_this_release_or_new(tmp_path: Path, *, is_new: bool) -> None:
    if not is_new:
        asyncio.run(upgrade(f"sqlite:///{tmp_path}/runyard.db"))
    assert f"state: {'empty' if is_new else 'current'}\n" in run_script(tmp_path)
    assert list(tmp_path.glob("before-upgrade-*")) == []
