"""The ledger behind the volumes of a project: whose they are, who uses them, until when they live."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.app.engine import EngineUnavailable, VolumeState
from runyard.app.loops.volume_loop import VolumeLoop
from runyard.app.volumes.run_claims import ensure_run_volumes
from runyard.store.session import Session
from tests.engines.memory import MemoryEngine
from tests.http_servers import Server, serve
from tests.unit.api.engine_runs import submit_run

VOLUMES = "/api/v1/-/demo/volumes"
ORPHANS = "/api/v1/engine/orphaned-volumes"


@dataclass
class Ledger:
    server: Server
    engine: MemoryEngine
    client: httpx2.AsyncClient

    async def keep_up(self) -> None:
        loop = VolumeLoop(self.server.core, self.engine)
        await loop.reconcile()
        await loop.refresh()

    def mount(self, *run_uids: str) -> None:
        for key, state in self.engine.volumes.items():
            self.engine.volumes[key] = replace(state, mounted_by=run_uids)

    async def get(self, path: str) -> Any:
        answer = await self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def submit(self, run_id: str, **volume: Any) -> str:
        """A run with a volume; its uid."""
        mounted = {"mount_path": "/data", **volume}
        spec = {"task": "container+job://demo/t1", "volumes": [mounted]}
        body = {"kind": "container+job:run", "id": run_id, "spec": spec}
        answer = await self.client.post("/api/v1/-/demo/runs", json=body)
        assert answer.status_code == 200, answer.text
        return (await self.server.find_run("demo", run_id)).uid


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    engine = MemoryEngine()
    async with serve(tmp_path, engine=engine) as server, server.client() as client:
        await submit_run(client, "r0")
        yield Ledger(server, engine, client)


async def test_entry_has_what_was_asked_and_what_is_when_the_engine_has_the_volume(ledger: Ledger) -> None:
    created = (await ledger.client.post(VOLUMES, json={"name": "data", "spec": {"size": "1Gi"}})).json()
    claim = f"vol-{created['id']}"
    assert created["status"] == {
        "state": "CREATED",
        "claim_name": claim,
        "owner": {"user": created["user"]},
        "lifetime": "keep",
        "in_use_by": [],
        "in_use_count": 0,
    }
    await ledger.keep_up()
    ledger.engine.volumes["demo", claim] = replace(ledger.engine.volumes["demo", claim], size="2Gi")
    await ledger.keep_up()
    volume = await ledger.get(f"{VOLUMES}/data")
    assert volume["spec"]["size"] == "1Gi"
    assert volume["status"] == {
        **created["status"],
        "state": "READY",
        "place": "memory/a",
        "phase": "bound",
        "size": "2Gi",
        "storage_class": "standard",
    }
    assert (await ledger.get(VOLUMES))["content"] == [volume]


async def test_users_are_those_who_name_it_and_those_who_mount_it_when_they_are_listed(ledger: Ledger) -> None:
    await ledger.client.post(VOLUMES, json={"name": "data"})
    await ledger.keep_up()
    mounting = await ledger.submit("r1", volume_type="shared_volume", name="data")
    naming = await ledger.submit("r2", volume_type="shared_volume", name="data")
    await ledger.submit("r3", volume_type="empty_dir", name="data")
    ledger.mount(mounting, "gone")
    await ledger.keep_up()
    status = (await ledger.get(f"{VOLUMES}/data"))["status"]
    assert sorted(status["in_use_by"], key=lambda one: one.get("id", "")) == [
        {"uid": "gone", "is_mounted": True},
        {"id": "r1", "uid": mounting, "is_mounted": True},
        {"id": "r2", "uid": naming, "is_mounted": False},
    ]
    assert status["in_use_count"] == 3
    assert "last_mounted_at" in status
    for run_id in ("r1", "r2"):
        await ledger.client.post(f"/api/v1/-/demo/runs/{run_id}/stop")
    ledger.mount()
    await ledger.keep_up()
    assert (await ledger.get(f"{VOLUMES}/data"))["status"]["in_use_by"] == []


async def test_claim_of_a_run_has_its_owner_and_its_lifetime_when_it_is_listed(ledger: Ledger) -> None:
    uid = await ledger.submit(
        "r1", volume_type="persistent_volume_claim", name="out", spec={"size": "1Gi", "lifetime": "7d"}
    )
    run = await ledger.server.find_run("demo", "r1")
    await ensure_run_volumes(ledger.server.core, ledger.engine, run)
    [volume] = (await ledger.get(VOLUMES))["content"]
    assert (volume["kind"], volume["name"]) == ("claim", volume["status"]["claim_name"])
    assert volume["status"]["owner"] == {"user": volume["user"], "run": "r1", "run_uid": uid}
    assert volume["status"]["lifetime"] == 7 * 24 * 3600
    assert [one["id"] for one in volume["status"]["in_use_by"]] == ["r1"]
    assert (await ledger.get(f"{VOLUMES}/{volume['name']}"))["status"] == volume["status"]
    later = await ledger.submit("r2", volume_type="shared_volume", name="out", spec={"claim_name": volume["name"]})
    assert later
    effective = (await ledger.get("/api/v1/-/demo/runs/r2/effective"))["effective"]
    assert effective["volumes"][0]["claim_name"] == volume["name"]


@contextmanager
def count_statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    made: list[Any] = []
    real = Session.fetch_all

    async def fetch_all(self: Session, statement: Any, *args: Any, **options: Any) -> Any:
        made.append(statement)
        return await real(self, statement, *args, **options)

    monkeypatch.setattr(Session, "fetch_all", fetch_all)
    yield made
    monkeypatch.setattr(Session, "fetch_all", real)


async def test_page_costs_the_same_queries_when_there_are_more_volumes(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for number in range(2):
        for index in range(5):
            name = f"v{number}-{index}"
            await ledger.client.post(VOLUMES, json={"name": name})
            await ledger.submit(f"r-{name}", volume_type="shared_volume", name=name)
        with count_statements(monkeypatch) as made:
            page = await ledger.get(f"{VOLUMES}?size=100")
        assert all(volume["status"]["in_use_count"] == 1 for volume in page["content"])
        counts.append(len(made))
    assert counts[0] == counts[1]


async def test_orphans_are_claims_without_a_volume_when_an_admin_lists_them(ledger: Ledger) -> None:
    await ledger.client.post(VOLUMES, json={"name": "data"})
    await ledger.keep_up()
    for claim, volume_id in (("old", "gone"), ("strange", None)):
        ledger.engine.volumes["demo", claim] = VolumeState(
            project="demo", claim=claim, volume_id=volume_id, phase="bound", size="1Gi"
        )
    answer = await ledger.get(ORPHANS)
    assert (answer["place"], answer["count"]) == ("memory/a", 2)
    assert [(one["claim"], one["volume_id"]) for one in answer["claims"]] == [("old", "gone"), ("strange", None)]
    await ledger.keep_up()
    assert len(ledger.engine.volumes) == 3
    ledger.engine.failures = [EngineUnavailable("engine.failed", "down")]
    assert (await ledger.client.get(ORPHANS)).status_code == 503


async def test_orphans_cannot_be_listed_when_there_is_no_engine(client: httpx2.AsyncClient) -> None:
    answer = await client.get(ORPHANS)
    assert (answer.status_code, answer.json()["errorCode"]) == (501, "engine.none")
