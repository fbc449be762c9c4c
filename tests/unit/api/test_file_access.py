"""Who may store and read files; and uploads that meet a deletion, a crash or another upload."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.app.blob_store import BlobsUnavailable
from runyard.app.files import FileUpload, get_file, read_file, upload_file
from runyard.app.loops import RetentionLoop
from runyard.app.model import Principal, Upload
from runyard.app.ports import Unavailable
from runyard.app.retention import Retention
from tests.http_servers import Server, serve

INSIDE = "/api/v1/-/demo"
BYTES = b"hello world"


def address(entity_id: str, path: str = "f", *, project: str = "demo") -> str:
    return f"/api/v1/-/{project}/artifacts/{entity_id}/files/content/{path}"


def list_blobs(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "files").rglob("*") if path.is_file())


async def add_artifact(client: httpx2.AsyncClient, entity_id: str, *, project: str = "demo") -> None:
    document = {"kind": "artifact", "name": "net", "id": entity_id}
    answer = await client.post(f"/api/v1/-/{project}/artifacts", json=document)
    assert answer.is_success, answer.text


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """With ada, who owns the projects demo and other; bob, a viewer of demo; and runs r1 and r2 of demo."""
    async with serve(tmp_path, is_open=False) as server:
        for user in ("ada", "bob", "eve"):
            await server.add_user(user)
        async with server.client("ada") as ada:
            answers = [
                await ada.post("/api/v1/projects", json={"kind": "project", "name": name}) for name in ("demo", "other")
            ]
            answers.append(await ada.post("/api/v1/projects/demo/share", params={"user": "bob", "role": "viewer"}))
            function = {"kind": "container", "name": "box", "id": "f1", "spec": {"image": "busybox:1.36"}}
            answers.append(await ada.post(f"{INSIDE}/functions", json=function))
            task = {"kind": "container+job", "id": "t1", "spec": {"function": "container://demo/box:f1"}}
            answers.append(await ada.post(f"{INSIDE}/tasks", json=task))
            for run_id in ("r1", "r2"):
                run = {"kind": "container+job:run", "id": run_id, "spec": {"task": "container+job://demo/t1"}}
                answers.append(await ada.post(f"{INSIDE}/runs", json=run))
            assert all(answer.is_success for answer in answers), [answer.text for answer in answers]
            await add_artifact(ada, "adas")
            await add_artifact(ada, "others", project="other")
            assert (await ada.put(address("adas"), content=BYTES)).is_success
            assert (await ada.put(address("others", project="other"), content=BYTES)).is_success
        yield server


@pytest.fixture
async def ada(server: Server) -> AsyncIterator[httpx2.AsyncClient]:
    async with server.client("ada") as client:
        yield client


async def open_run(server: Server, run_id: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {await server.issue_run_token('demo', run_id)}"}


async def test_model_reaches_another_run_when_a_run_stores_it(server: Server) -> None:
    trained = b"weights" * 100_000
    async with server.client(headers=await open_run(server, "r1")) as run:
        model = {"kind": "model", "name": "net", "id": "m1", "status": {"state": "UPLOADING"}}
        made = (await run.post(f"{INSIDE}/models", json=model)).json()
        put = await run.put(f"{INSIDE}/models/m1/files/content/model.bin", content=trained)
        assert put.is_success, put.text
        ready = await run.put(f"{INSIDE}/models/m1", json={**made, "status": {"state": "READY"}})
        assert ready.json()["status"]["state"] == "READY"
    key = made["key"]
    assert key == "store://demo/model/model/net:m1"
    async with server.client(headers=await open_run(server, "r2")) as run:
        [file] = (await run.get(f"{INSIDE}/models/m1/files/info")).json()
        assert (file["path"], file["stored"]) == ("model.bin", True)
        assert (await run.get(f"{INSIDE}/models/m1/files/content/model.bin")).content == trained


async def test_run_stores_and_deletes_only_in_what_it_created(server: Server) -> None:
    async with server.client(headers=await open_run(server, "r1")) as run:
        await add_artifact(run, "r1s")
        assert (await run.put(address("r1s"), content=BYTES)).is_success
        refused = [
            await run.put(address("adas"), content=b"x"),
            await run.delete(address("adas")),
            await run.put(address("others", project="other"), content=b"x"),
            await run.get(address("others", project="other")),
        ]
        assert [answer.status_code for answer in refused] == [403] * 4
        assert (await run.get(address("adas"))).content == BYTES
    async with server.client(headers=await open_run(server, "r2")) as run:
        assert (await run.put(address("r1s"), content=b"x")).status_code == 403
        assert (await run.get(address("r1s"))).content == BYTES


async def test_viewer_reads_and_stranger_does_not_when_they_ask(server: Server) -> None:
    async with server.client("bob") as bob:
        assert (await bob.get(address("adas"))).content == BYTES
        assert (await bob.put(address("adas"), content=b"x")).status_code == 403
        assert (await bob.delete(address("adas"))).status_code == 403
    async with server.client("eve") as eve:
        assert (await eve.get(address("adas"))).status_code == 403
        assert (await eve.put(address("adas"), content=b"x")).status_code == 403
    async with server.client() as nobody:
        assert (await nobody.get(address("adas"))).status_code == 401


async def test_file_of_another_project_is_unreachable_when_its_entity_is_named_in_ones_own(
    ada: httpx2.AsyncClient,
) -> None:
    assert (await ada.get(address("others"))).status_code == 404
    assert (await ada.put(address("others"), content=b"x")).status_code == 404


async def test_upload_is_lost_when_its_entity_is_deleted_and_created_again_meanwhile(
    server: Server, ada: httpx2.AsyncClient, tmp_path: Path
) -> None:
    kept = list_blobs(tmp_path)
    await add_artifact(ada, "a1")

    async def interrupt() -> AsyncIterator[bytes]:
        yield b"ol"
        assert (await ada.delete(f"{INSIDE}/artifacts/a1")).is_success
        await add_artifact(ada, "a1")
        yield b"d!"

    async with server.client("ada") as other:
        answer = await other.put(address("a1"), content=interrupt(), headers={"Content-Length": "4"})
    assert answer.status_code == 404
    assert (await ada.get(f"{INSIDE}/artifacts/a1/files/info")).json() == []
    assert list_blobs(tmp_path) == kept


async def test_upload_is_lost_when_its_project_is_deleted_meanwhile(
    server: Server, ada: httpx2.AsyncClient, tmp_path: Path
) -> None:
    async def interrupt() -> AsyncIterator[bytes]:
        yield b"ol"
        assert (await ada.delete("/api/v1/projects/other", params={"cascade": True})).is_success
        yield b"d!"

    async with server.client("ada") as other:
        answer = await other.put(
            address("others", "g", project="other"), content=interrupt(), headers={"Content-Length": "4"}
        )
    assert answer.status_code == 404
    assert [path.read_bytes() for path in list_blobs(tmp_path)] == [BYTES]


async def test_upload_is_refused_when_access_is_lost_meanwhile(
    server: Server, ada: httpx2.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.api.streams.RECHECK_SECONDS", 0.0)
    assert (await ada.post("/api/v1/projects/demo/share", params={"user": "bob", "role": "editor"})).is_success
    kept = list_blobs(tmp_path)

    async def interrupt() -> AsyncIterator[bytes]:
        yield b"ol"
        assert (await ada.post("/api/v1/projects/demo/share", params={"user": "bob", "role": "viewer"})).is_success
        yield b"d!"

    async with server.client("bob") as bob:
        answer = await bob.put(address("adas", "g"), content=interrupt(), headers={"Content-Length": "4"})
    assert answer.status_code == 403
    assert list_blobs(tmp_path) == kept


async def test_last_upload_wins_whole_when_many_upload_the_same_file(ada: httpx2.AsyncClient, tmp_path: Path) -> None:
    contents = [bytes([65 + number]) * 300_000 for number in range(8)]
    answers = await asyncio.gather(*(ada.put(address("adas", "g"), content=content) for content in contents))
    assert {answer.status_code for answer in answers} == {200}
    got = (await ada.get(address("adas", "g"))).content
    assert got in contents
    assert sorted(path.stat().st_size for path in list_blobs(tmp_path)) == [11, 11, 300_000]


async def test_bytes_of_a_crashed_upload_are_deleted_when_its_time_is_over(server: Server, tmp_path: Path) -> None:
    kept = list_blobs(tmp_path)
    for blob, lasting in (("0" * 32, timedelta(hours=1)), ("1" * 32, timedelta(days=-2))):
        part = tmp_path / "files" / blob[:2] / f"{blob}.part"
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(b"half")
        async with server.core.store.begin() as unit:
            upload = Upload(type="artifact", project="demo", id="adas", blob=blob, size=9)
            await unit.files.reserve(upload, lasting=lasting)
            await unit.commit()
    await RetentionLoop(server.core, retention=Retention()).prune()
    left = [path for path in list_blobs(tmp_path) if path not in kept]
    assert [path.name for path in left] == ["0" * 32 + ".part"]


class StuckBlobs:
    """Blob storage that cannot delete one blob."""

    def __init__(self, blobs: Any) -> None:
        self._blobs = blobs
        self.stuck = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)

    async def delete(self, blob: str) -> None:
        if blob == self.stuck:
            raise BlobsUnavailable("stuck")
        await self._blobs.delete(blob)


async def test_other_blobs_are_deleted_when_one_cannot_be(tmp_path: Path) -> None:
    stuck: list[StuckBlobs] = []

    def wrap(blobs: Any) -> StuckBlobs:
        stuck.append(StuckBlobs(blobs))
        return stuck[0]

    async with serve(tmp_path, wrap_blobs=wrap) as server, server.client() as client:
        assert (await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})).is_success
        await add_artifact(client, "a1")
        for name in ("f", "g", "h"):
            assert (await client.put(address("a1", name), content=name.encode())).is_success
        first = list_blobs(tmp_path)[0]
        stuck[0].stuck = first.name
        assert (await client.delete(f"{INSIDE}/artifacts/a1")).is_success
        assert list_blobs(tmp_path) == [first]
        stuck[0].stuck = ""
        await RetentionLoop(server.core, retention=Retention()).prune()
        assert list_blobs(tmp_path) == []


class Forgetful:
    """A store whose writes are committed, and then reported as lost from the second one on: a broken connection."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._count = 0

    @asynccontextmanager
    async def begin(self, *, is_read_only: bool = False) -> AsyncIterator[Any]:
        async with self._store.begin(is_read_only=is_read_only) as unit:
            self._count += not is_read_only
            if self._count != 2 or is_read_only:
                yield unit
                return
            commit = unit.commit

            async def fail() -> None:
                await commit()
                raise Unavailable("the connection broke")

            unit.commit = fail
            yield unit


async def test_bytes_stay_when_a_commit_is_reported_as_failed_and_was_not(server: Server) -> None:
    store: Any = Forgetful(server.core.store)
    core = replace(server.core, store=store)

    async def iterate() -> AsyncIterator[bytes]:
        yield BYTES

    upload = FileUpload(path="g", size=len(BYTES), content_type="text/plain")
    with pytest.raises(Unavailable):
        await upload_file(core, Principal(name="ada"), "artifact", "demo", "adas", upload, iterate())
    file = await get_file(server.core, "artifact", "demo", "adas", "g")
    assert b"".join([chunk async for chunk in read_file(server.core, file)]) == BYTES
