"""Runs that an engine seems to execute, without the loops: their rows say so."""

import sqlite3
from pathlib import Path

import httpx2

ANCHOR = "anchor-1"


async def submit_run(client: httpx2.AsyncClient, run_id: str = "r1") -> None:
    """Make a project with a run."""
    for path, body in (
        ("projects", {"kind": "project", "name": "demo"}),
        ("-/demo/functions", {"kind": "container", "name": "box", "id": "f1", "spec": {"image": "busybox:1.36"}}),
        ("-/demo/tasks", {"kind": "container+job", "id": "t1", "spec": {"function": "container://demo/box:f1"}}),
        ("-/demo/runs", {"kind": "container+job:run", "id": run_id, "spec": {"task": "container+job://demo/t1"}}),
    ):
        answer = await client.post(f"/api/v1/{path}", json=body)
        assert answer.is_success, answer.text


def mark_running(
    folder: Path,
    run_id: str = "r1",
    *,
    state: str = "RUNNING",
    anchor: str | None = ANCHOR,
    place: str | None = "memory/a",
) -> None:
    """Let the row of the run say that it is in a state and has an anchor at a place."""
    values = (state, anchor, place, run_id)
    with sqlite3.connect(folder / "runyard.db") as connection:
        connection.execute("UPDATE runs SET state = ?, anchor_uid = ?, place = ? WHERE id = ?", values)
    connection.close()
