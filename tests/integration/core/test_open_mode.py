"""The mode follows the database: where accounts exist, the server requires them."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from tests.core_process import Ended, call_runyard, run_core

FLAG = "--open-to-everyone-on-this-machine"
ADA = ("ada", "ada's password")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a server keeps a database with the account `ada`."""
    made = create_account(tmp_path)
    assert made.code == 0, made.err
    return tmp_path


def create_account(folder: Path) -> Ended:
    name, password = ADA
    flags = ("--admin", "--password-stdin", "--data", str(folder / "data"))
    return call_runyard("user", "create", name, *flags, given=f"{password}\n")


async def test_clients_must_sign_in_when_the_database_has_accounts_and_nothing_else_is_said(folder: Path) -> None:
    with run_core(folder=folder) as core:
        assert "No accounts" not in core.read_output()
        async with core.client() as stranger, core.client(ADA) as ada:
            assert (await stranger.get("/api/v1/projects")).status_code == 401
            assert (await ada.get("/api/v1/projects")).status_code == 200


def test_server_does_not_start_when_it_is_to_be_open_and_the_database_has_accounts(folder: Path) -> None:
    ended = call_runyard("server", "--auth", "open", "--port", "0", "--data", str(folder / "data"))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        "error: --auth open: the database has accounts, so clients must sign in: remove `--auth open`, or give every "
        f"program on this machine admin rights and the values of all secrets with {FLAG}\n"
    )


async def test_server_is_open_and_says_so_at_every_start_when_the_flag_opens_it(folder: Path) -> None:
    for _ in range(2):
        with run_core(FLAG, folder=folder) as core:
            assert f"!! {FLAG}: accounts are ignored. Every program on this machine has admin" in core.read_output()
            async with core.client() as stranger:
                assert (await stranger.get("/api/v1/projects")).status_code == 200
            core.process.terminate()
            assert await core.wait() == 0


async def test_open_server_requires_sign_in_when_the_first_account_is_created_while_it_runs(tmp_path: Path) -> None:
    with run_core(folder=tmp_path / "a") as core:
        # With PostgreSQL `runyard user create` does this; with SQLite another program must.
        copied = tmp_path / "b"
        assert create_account(copied).code == 0
        async with core.client() as stranger, core.client(ADA) as ada:
            assert (await stranger.get("/api/v1/projects")).status_code == 200
            with sqlite3.connect(tmp_path / "a" / "data" / "runyard.db") as database:
                database.execute("ATTACH ? AS other", (str(copied / "data" / "runyard.db"),))
                database.execute("INSERT INTO accounts SELECT * FROM other.accounts")
            database.close()
            async with asyncio.timeout(60):
                while (await stranger.get("/api/v1/projects")).status_code == 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)  # there is a limit of requests
            assert (await stranger.get("/api/v1/projects")).status_code == 401
            assert (await ada.get("/api/v1/projects")).status_code == 200
            assert "accounts.created" in core.read_errors()
