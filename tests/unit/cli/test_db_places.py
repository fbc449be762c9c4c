"""`runyard db epoch` and `runyard db place`, with the server stopped."""

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import click
import pytest

from runyard.app.core import Core
from runyard.app.places import Orphan, SweepFindings, Verdict, write_findings
from runyard.app.times import SystemClock
from runyard.cli.commands.db_places import EPOCH_ENTRIES, PLACE_ENTRIES
from runyard.cli.lazy_commands import Entry, load
from runyard.store import open_store
from tests.contract.store.builders import make_run, make_transition
from tests.unit.cli.conftest import Call

GONE = "kubernetes/gone"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of every call, by its variable."""
    monkeypatch.setenv("RUNYARD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def run_on_store(data: Path, act: Any) -> Any:
    """Do something with the database of the data folder."""

    async def work() -> Any:
        store = await open_store(f"sqlite:///{data}/runyard.db")
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(work())


def restore(call: Call, tmp_path: Path, data: Path) -> None:
    """Make a database that was restored from a backup."""
    other = tmp_path / "first"
    assert call("db", "upgrade", "--data", other).code == 0
    assert call("db", "backup", tmp_path / "copy.db", "--data", other).code == 0
    assert call("db", "restore", tmp_path / "copy.db", "--data", data).code == 0


async def add_run(store: Any) -> None:
    async with store.begin() as unit:
        await unit.runs.add(make_run("r1", place=GONE, anchor_uid="a", state="READY"), [make_transition(1)])
        await unit.commit()


async def add_findings(store: Any) -> None:
    orphan = Orphan(
        uid="a", run_uid="u", run_id="old", project="p", verdict=Verdict.REMOVE, message="its run was deleted"
    )
    nothing = cast("Any", None)
    core = Core(store=store, vault=nothing, logs=nothing, clock=SystemClock())
    await write_findings(core, SweepFindings(place=GONE, at="noon", is_on=False, count=1, orphans=(orphan,)))


async def read_state(store: Any) -> tuple[str | None, list[str]]:
    async with store.begin(is_read_only=True) as unit:
        entries = [entry.action for _, entry in await unit.audit.list_entries()]
        return await unit.get_meta("sweeper"), entries


def test_removal_is_allowed_again_when_a_restored_database_is_confirmed(call: Call, data: Path, tmp_path: Path) -> None:
    restore(call, tmp_path, data)
    run_on_store(data, add_run)
    run_on_store(data, add_findings)

    refused = call("db", "epoch", "confirm")
    assert (refused.code, refused.err.splitlines()[-1]) == (2, "error: no terminal to ask: add --yes")
    assert run_on_store(data, read_state)[0] == "off"

    called = call("db", "epoch", "confirm", "--yes")
    assert called.code == 0
    assert called.out.splitlines() == [
        f"{GONE}: 1 object without a run at noon",
        "  would remove run old of p: its run was deleted",
        "  never removed by the server: 0; see GET /api/v1/engine/orphans",
        "confirmed: the server removes objects of ended and deleted runs again, in its next sweep",
    ]
    assert run_on_store(data, read_state) == ("on", ["epoch.confirm"])
    again = call("db", "epoch", "confirm", "--yes")
    assert again.out == "nothing to confirm: the server removes objects of ended and deleted runs already\n"
    assert run_on_store(data, read_state) == ("on", ["epoch.confirm"])


def test_nothing_is_known_to_be_removed_when_no_server_has_swept_yet(call: Call, data: Path, tmp_path: Path) -> None:
    restore(call, tmp_path, data)
    called = call("db", "epoch", "confirm", "--yes")
    assert called.err == "note: no server has swept this database yet, so what it would remove is not known\n"
    assert run_on_store(data, read_state)[0] == "on"


def test_runs_end_when_their_place_is_forgotten(call: Call, data: Path) -> None:
    assert call("db", "upgrade").code == 0
    run_on_store(data, add_run)
    listed = json.loads(call("db", "place", "list", "-o", "json").out)
    assert listed == [{"place": GONE, "runs": 1, "unsettled": 1, "volumes": 0, "projects": 0, "replicas": 0}]
    assert "kubernetes/gone" in call("db", "place", "list").out

    assert call("db", "place", "forget", GONE).code == 2
    unknown = call("db", "place", "forget", "kubernetes/gome")
    assert (unknown.code, unknown.err) == (
        1,
        "error: no run, volume or project belongs to place kubernetes/gome; did you mean kubernetes/gone?\n",
    )
    called = call("db", "place", "forget", GONE, "--yes")
    assert (called.code, called.out) == (
        0,
        "forgotten: kubernetes/gone\nruns ended: 1; ended before: 0; deleted: 0; volumes lost: 0; projects: 0\n",
    )
    assert json.loads(call("db", "place", "list", "-o", "json").out) == []
    assert "place.forget" in run_on_store(data, read_state)[1]


@pytest.mark.parametrize("entries", [EPOCH_ENTRIES, PLACE_ENTRIES])
def test_command_is_found_when_it_stands_in_a_table(entries: dict[str, Entry]) -> None:
    for name, entry in entries.items():
        command = load(entry.target)
        assert isinstance(command, click.Command)
        assert command.name == name
        assert entry.line.endswith(".")
