"""Resumable uploads over HTTP: begin, append, ask, go on, complete; and all that can happen in between."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import text

from runyard.api.context import Limits
from runyard.app.files import resumable_uploads
from runyard.app.unused_blobs import remove_unused
from tests.http_servers import Server, serve
from tests.unit.api.test_files import BYTES, CONTENT, INSIDE, SHA256, add_artifact, list_blobs

UPLOADS = f"{INSIDE}/artifacts/a1/files/uploads"


@pytest.fixture
async def artifact(demo: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """The client, with an artifact a1 in project demo."""
    await add_artifact(demo)
    return demo


async def begin(client: httpx2.AsyncClient, size: int = len(BYTES), **more: Any) -> str:
    """The address of a new upload of `net/f`."""
    headers = more.pop("headers", {})
    answer = await client.post(UPLOADS, json={"path": "net/f", "size": size, **more}, headers=headers)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"{UPLOADS}/{answer.json()['id']}"
    return answer.headers["location"]


async def append(client: httpx2.AsyncClient, address: str, content: bytes, *, offset: int = 0) -> httpx2.Response:
    return await client.patch(address, content=content, headers={"Upload-Offset": str(offset)})


async def complete(client: httpx2.AsyncClient, address: str, content: bytes = BYTES) -> httpx2.Response:
    return await client.post(f"{address}/complete", json={"sha256": hashlib.sha256(content).hexdigest()})


async def measure(server: Server) -> int:
    async with server.core.store.begin(is_read_only=True) as unit:
        return (await unit.files.measure("demo")).bytes


async def test_file_is_whole_when_it_was_uploaded_in_several_requests(artifact: httpx2.AsyncClient) -> None:
    address = await begin(artifact, content_type="text/x-net")
    first = await append(artifact, address, BYTES[:4])
    assert (first.status_code, first.headers["upload-offset"], first.json()["offset"]) == (200, "4", 4)
    head = await artifact.head(address)
    assert (head.headers["upload-offset"], head.headers["upload-length"], head.content) == ("4", "11", b"")
    assert (await artifact.get(f"{CONTENT}/net/f")).status_code == 404
    assert (await artifact.get(f"{INSIDE}/artifacts/a1/files/info")).json() == []
    assert (await append(artifact, address, BYTES[4:], offset=4)).headers["upload-offset"] == "11"
    done = await complete(artifact, address)
    assert (done.status_code, done.headers["etag"], done.json()["hash"]) == (200, f'"{SHA256}"', f"sha256:{SHA256}")
    got = await artifact.get(f"{CONTENT}/net/f")
    assert (got.content, got.headers["content-type"]) == (BYTES, "text/x-net; charset=utf-8")
    for gone in (await artifact.head(address), await complete(artifact, address)):
        assert gone.status_code == 404


async def test_empty_file_is_stored_when_nothing_was_appended(artifact: httpx2.AsyncClient) -> None:
    address = await begin(artifact, size=0)
    assert (await complete(artifact, address, b"")).status_code == 200
    assert (await artifact.get(f"{CONTENT}/net/f")).content == b""


async def test_right_offset_is_answered_when_the_client_is_wrong(artifact: httpx2.AsyncClient) -> None:
    address = await begin(artifact)
    await append(artifact, address, BYTES[:4])
    for offset in (0, 3, 5):
        wrong = await append(artifact, address, b"x", offset=offset)
        assert (wrong.status_code, wrong.json()["errorCode"]) == (409, "upload.offset")
        assert wrong.headers["upload-offset"] == "4"
    early = await complete(artifact, address)
    assert (early.status_code, early.headers["upload-offset"]) == (409, "4")
    for given in ("", "-1", "x", "9" * 30):
        refused = await artifact.patch(address, content=b"x", headers={"Upload-Offset": given})
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (400, "header.offset")
    more = await append(artifact, address, BYTES, offset=4)
    assert (more.status_code, more.json()["errors"][0]["code"]) == (400, "header.offset")


async def test_what_came_is_kept_when_the_connection_is_lost(artifact: httpx2.AsyncClient) -> None:
    content = bytes(range(256)) * 4000
    address = await begin(artifact, size=len(content))

    async def lose() -> AsyncIterator[bytes]:
        yield content[:300_000]

    headers = {"Upload-Offset": "0", "Content-Length": str(len(content))}
    assert (await artifact.patch(address, content=lose(), headers=headers)).status_code == 400
    offset = int((await artifact.head(address)).headers["upload-offset"])
    assert offset == 300_000
    assert (await append(artifact, address, content[offset:], offset=offset)).is_success
    assert (await complete(artifact, address, content)).is_success
    assert (await artifact.get(f"{CONTENT}/net/f")).content == content


async def test_upload_goes_on_when_the_server_was_started_again(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, server.client() as client:
        assert (await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})).is_success
        await add_artifact(client)
        address = await begin(client, sha256=SHA256.upper())
        await append(client, address, BYTES[:4])
    async with serve(tmp_path) as server, server.client() as client:
        [listed] = (await client.get(UPLOADS)).json()
        assert {**listed, "expires_at": ""} == {
            "id": address.rpartition("/")[2],
            "path": "net/f",
            "size": 11,
            "offset": 4,
            "expires_at": "",
            "content_type": "application/octet-stream",
            "sha256": SHA256,
        }
        assert (await append(client, address, BYTES[4:], offset=4)).is_success
        done = await client.post(f"{address}/complete", json={})
        assert (done.status_code, (await client.get(f"{CONTENT}/net/f")).content) == (200, BYTES)


async def test_upload_is_gone_when_its_bytes_are_wrong(
    artifact: httpx2.AsyncClient, server: Server, tmp_path: Path
) -> None:
    assert (await artifact.put(f"{CONTENT}/net/f", content=BYTES)).is_success
    address = await begin(artifact)
    missing = await artifact.post(f"{address}/complete", json={})
    assert (missing.status_code, missing.json()["errors"][0]["code"]) == (400, "field.missing")
    await append(artifact, address, b"hellp world")
    wrong = await complete(artifact, address)
    assert (wrong.status_code, wrong.json()["errorCode"]) == (400, "file.checksum")
    assert (await artifact.head(address)).status_code == 404
    assert (await artifact.get(f"{CONTENT}/net/f")).content == BYTES
    assert (len(list_blobs(tmp_path)), await measure(server)) == (1, len(BYTES))


async def test_condition_holds_at_the_end_when_it_was_stated_at_the_beginning(artifact: httpx2.AsyncClient) -> None:
    address = await begin(artifact, headers={"If-None-Match": "*"})
    await append(artifact, address, BYTES)
    assert (await artifact.put(f"{CONTENT}/net/f", content=b"other")).is_success
    assert (await complete(artifact, address)).status_code == 412
    again = await artifact.post(UPLOADS, json={"path": "net/f", "size": 1}, headers={"If-None-Match": "*"})
    assert again.status_code == 412
    tag = f'"{hashlib.sha256(b"other").hexdigest()}"'
    replacing = await begin(artifact, headers={"If-Match": tag})
    await append(artifact, replacing, BYTES)
    assert (await complete(artifact, replacing)).is_success
    assert (await artifact.get(f"{CONTENT}/net/f")).content == BYTES


async def test_other_requests_are_told_to_wait_when_one_is_writing(artifact: httpx2.AsyncClient) -> None:
    address = await begin(artifact)
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def wait() -> AsyncIterator[bytes]:
        yield BYTES[:4]
        has_begun.set()
        await may_end.wait()
        yield BYTES[4:]

    headers = {"Upload-Offset": "0", "Content-Length": str(len(BYTES))}
    writing = asyncio.create_task(artifact.patch(address, content=wait(), headers=headers))
    await has_begun.wait()
    for busy in (
        await append(artifact, address, BYTES),
        await complete(artifact, address),
        await artifact.delete(address),
    ):
        assert (busy.status_code, busy.json()["errorCode"], busy.headers["retry-after"]) == (409, "upload.busy", "5")
    may_end.set()
    assert (await writing).headers["upload-offset"] == "11"
    assert (await complete(artifact, address)).is_success


async def test_writer_stops_when_its_lease_went_to_another(
    artifact: httpx2.AsyncClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable_uploads, "RENEWAL_SECONDS", 0.0)
    address = await begin(artifact)
    blob = address.rpartition("/")[2]

    async def lose_lease() -> AsyncIterator[bytes]:
        yield BYTES[:4]
        async with server.core.store.begin() as unit:
            # As if the first had stalled for so long.
            await unit.files.free_upload(blob, holder=await find_holder(server, blob))
            assert await unit.files.hold_upload(blob, holder="another", lasting=timedelta(minutes=1))
            await unit.commit()
        yield BYTES[4:]

    headers = {"Upload-Offset": "0", "Content-Length": str(len(BYTES))}
    stopped = await artifact.patch(address, content=lose_lease(), headers=headers)
    assert (stopped.status_code, stopped.json()["errorCode"]) == (409, "upload.busy")
    assert (await artifact.head(address)).headers["upload-offset"] == "4"


async def find_holder(server: Server, blob: str) -> str:
    """Who has the lease; the port does not tell."""
    async with server.core.store.begin(is_read_only=True) as unit:
        files: Any = unit.files
        found = await files._session.fetch_value(
            text("SELECT lease_owner FROM uploads WHERE blob = :blob"), {"blob": blob}
        )
    return str(found)


async def test_room_is_free_again_when_an_upload_or_its_entity_is_deleted(
    artifact: httpx2.AsyncClient, server: Server, tmp_path: Path
) -> None:
    given_up, orphaned = await begin(artifact), await begin(artifact)
    for address in (given_up, orphaned):
        await append(artifact, address, BYTES[:4])
    assert (await measure(server), len(list_blobs(tmp_path))) == (22, 2)
    assert (await artifact.delete(given_up)).status_code == 200
    assert (await measure(server), len(list_blobs(tmp_path))) == (11, 1)
    assert (await artifact.delete(f"{INSIDE}/artifacts/a1")).is_success
    assert await measure(server) == 0
    await add_artifact(artifact)
    # The id is used again, and the upload was for another one.
    assert (await append(artifact, orphaned, BYTES[4:], offset=4)).status_code == 404
    assert (await artifact.get(UPLOADS)).json() == []


async def test_bytes_are_deleted_when_an_upload_has_expired(
    artifact: httpx2.AsyncClient, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = await begin(artifact)
    await append(artifact, address, BYTES[:4])
    async with server.core.store.begin() as unit:
        files: Any = unit.files
        await files._session.write(text("UPDATE uploads SET expires_at = 1"))
        await files._session.write(text("UPDATE unused_blobs SET due_at = 1"))
        await unit.commit()
    assert (await artifact.head(address)).status_code == 404
    assert (await append(artifact, address, BYTES[4:], offset=4)).status_code == 404
    assert await remove_unused(server.core.store, server.core.blobs or pytest.fail("no blobs")) == 1
    assert (list_blobs(tmp_path), await measure(server)) == ([], 0)
    async with server.core.store.begin(is_read_only=True) as unit:
        assert await unit.files.count_uploads("demo") == 0


async def test_upload_is_refused_when_there_are_too_many_or_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable_uploads, "MOST_ENTITY_UPLOADS", 2)
    options = {"max_file_bytes": 10, "max_entity_bytes": 15, "max_project_bytes": 20}
    async with serve(tmp_path, options=options, limits=Limits()) as server, server.client() as client:
        assert (await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})).is_success
        await add_artifact(client)
        large = await client.post(UPLOADS, json={"path": "f", "size": 11})
        assert (large.status_code, large.json()["errorCode"]) == (413, "file.too_large")
        address = await begin(client, size=8)
        full = await client.post(UPLOADS, json={"path": "g", "size": 8})
        assert (full.status_code, full.json()["errorCode"]) == (400, "file.quota")
        await begin(client, size=1)
        many = await client.post(UPLOADS, json={"path": "g", "size": 1})
        assert (many.status_code, many.json()["errorCode"]) == (400, "upload.too_many")
        assert (await client.delete(address)).is_success
        await begin(client, size=8)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "field.missing"),
        ({"path": "f"}, "field.missing"),
        ({"path": "../f", "size": 1}, "file.path"),
        ({"path": "f", "size": -1}, "number.range"),
        ({"path": "f", "size": "many"}, "number.invalid"),
        ({"path": "f", "size": 1, "sha256": "x"}, "header.digest"),
        ({"path": "f", "size": 1, "content_type": "no"}, "header.content_type"),
        ({"path": "f", "size": 1, "sha265": "x"}, "field.unknown"),
        ([], "type.mapping"),
    ],
)
async def test_upload_is_refused_with_the_field_when_it_cannot_be_read(
    artifact: httpx2.AsyncClient, body: Any, code: str
) -> None:
    answer = await artifact.post(UPLOADS, json=body)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, code)
