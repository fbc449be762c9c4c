"""A Core over a real store with a project `demo`: a container function `box` (f1), its tasks t1 (job), t2 (serve)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from runyard.app.core import Core
from runyard.app.engine import Engine
from runyard.app.entities.crud import create_entity
from runyard.app.model import AuditEntry, Principal
from runyard.app.projects.projects import create_project
from tests.http_servers import serve

ADA = Principal(name="ada", is_admin=True)
FUNCTION = "container://demo/box:f1"
TASK = "container+job://demo/t1"
RUN: dict[str, Any] = {"kind": "container+job:run", "id": "r1", "spec": {"task": TASK}}


@asynccontextmanager
async def open_demo(folder: Path, *, engine: Engine | None = None) -> AsyncIterator[Core]:
    """Filled as said above."""
    async with serve(folder, engine=engine) as server:
        core = server.core
        await create_project(core, ADA, {"kind": "project", "name": "demo"})
        await create_project(core, ADA, {"kind": "project", "name": "other"})
        box = {"kind": "container", "name": "box", "id": "f1", "spec": {"image": "busybox:1.36"}}
        await create_entity(core, ADA, "function", "demo", box)
        for task_id, action in (("t1", "job"), ("t2", "serve")):
            task = {"kind": f"container+{action}", "id": task_id, "spec": {"function": FUNCTION}}
            await create_entity(core, ADA, "task", "demo", task)
        yield core


async def list_audit(core: Core, action: str) -> list[AuditEntry]:
    """The entries of one action, newest first."""
    async with core.store.begin(is_read_only=True) as unit:
        return [entry for _, entry in await unit.audit.list_entries(limit=1000) if entry.action == action]
