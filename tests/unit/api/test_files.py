"""Files of artifacts over HTTP: upload, download, list, delete; conditions, ranges, digests and limits."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest

from runyard.api.context import Limits
from runyard.app.blob_store import BlobsUnavailable, StorageFull
from tests.http_servers import ENDPOINT, Server, serve

INSIDE = "/api/v1/-/demo"
CONTENT = f"{INSIDE}/artifacts/a1/files/content"
BYTES = b"hello world"
SHA256 = hashlib.sha256(BYTES).hexdigest()


def make_digest(content: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"


def list_blobs(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "files").rglob("*") if path.is_file())


async def add_artifact(client: httpx2.AsyncClient, entity_id: str = "a1", **more: Any) -> dict[str, Any]:
    document = {"kind": "artifact", "name": "net", "id": entity_id, **more}
    answer = await client.post(f"{INSIDE}/artifacts", json=document)
    assert answer.is_success, answer.text
    made: dict[str, Any] = answer.json()
    return made


@pytest.fixture
async def artifact(demo: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """The client, with an artifact a1 in project demo."""
    await add_artifact(demo)
    return demo


async def test_file_is_the_same_when_it_is_downloaded(artifact: httpx2.AsyncClient) -> None:
    put = await artifact.put(f"{CONTENT}/data/model.csv", content=BYTES)
    assert put.status_code == 200, put.text
    got = await artifact.get(f"{CONTENT}/data/model.csv")
    assert (got.status_code, got.content) == (200, BYTES)
    assert got.headers["content-length"] == "11"
    assert got.headers["content-type"] == "text/csv; charset=utf-8"
    assert got.headers["etag"] == put.headers["etag"] == f'"{SHA256}"'
    assert got.headers["repr-digest"] == make_digest(BYTES)
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''model.csv"
    assert got.headers["x-content-type-options"] == "nosniff"
    head = await artifact.head(f"{CONTENT}/data/model.csv")
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "11")


async def test_file_is_listed_in_digitalhubs_shape_when_it_is_stored(artifact: httpx2.AsyncClient) -> None:
    described = [{"path": "model.bin", "size": 1, "stored": True}, {"path": "elsewhere", "size": 2, "stored": True}]
    assert (await artifact.put(f"{INSIDE}/artifacts/a1/files/info", json=described)).is_success
    assert (await artifact.put(f"{CONTENT}/model.bin", content=BYTES)).is_success
    listed = (await artifact.get(f"{INSIDE}/artifacts/a1/files/info")).json()
    modified = listed[0].pop("last_modified")
    assert modified.endswith(" GMT")
    stored = {"path": "model.bin", "name": "model.bin", "content_type": "application/octet-stream", "size": 11}
    assert listed == [
        {**stored, "hash": f"sha256:{SHA256}", "stored": True},
        # What a client says of a file that is not here does not make it stored.
        {"path": "elsewhere", "size": 2},
    ]
    page = (await artifact.get(f"{INSIDE}/artifacts/a1/files/info", params={"page": 0})).json()
    assert [entry["path"] for entry in page["content"]] == ["model.bin", "elsewhere"]


async def test_path_is_an_address_of_the_only_file_when_the_client_gives_none(demo: httpx2.AsyncClient) -> None:
    made = await add_artifact(demo)
    assert made["spec"]["path"] == f"{ENDPOINT}{CONTENT}"
    assert (await demo.get(CONTENT)).status_code == 404
    assert (await demo.put(f"{CONTENT}/model.bin", content=BYTES)).is_success
    assert (await demo.get(made["spec"]["path"])).content == BYTES
    assert (await demo.put(f"{CONTENT}/other.bin", content=BYTES)).is_success
    refused = await demo.get(CONTENT)
    assert (refused.status_code, refused.json()["errorCode"]) == (400, "file.several")
    assert "model.bin, other.bin" in refused.json()["message"]


async def test_path_stays_when_the_client_gives_one(demo: httpx2.AsyncClient) -> None:
    made = await add_artifact(demo, spec={"path": "s3://bucket/net/"})
    assert made["spec"]["path"] == "s3://bucket/net/"


@pytest.mark.parametrize(
    ("asked", "status", "content", "shown"),
    [
        ("bytes=0-4", 206, b"hello", "bytes 0-4/11"),
        ("bytes=6-", 206, b"world", "bytes 6-10/11"),
        ("bytes=-5", 206, b"world", "bytes 6-10/11"),
        ("bytes=6-999", 206, b"world", "bytes 6-10/11"),
        ("bytes=-999", 206, BYTES, "bytes 0-10/11"),
        ("bytes=4-2", 200, BYTES, None),
        ("bytes=0-1,3-4", 200, BYTES, None),
        ("lines=0-1", 200, BYTES, None),
        ("bytes=-", 200, BYTES, None),
        ("bytes=11-", 416, None, "bytes */11"),
    ],
)
async def test_range_is_answered_when_it_is_asked_for(
    artifact: httpx2.AsyncClient, asked: str, status: int, content: bytes | None, shown: str | None
) -> None:
    assert (await artifact.put(f"{CONTENT}/f", content=BYTES)).is_success
    got = await artifact.get(f"{CONTENT}/f", headers={"Range": asked})
    assert (got.status_code, got.headers.get("content-range")) == (status, shown)
    if content is not None:
        assert (got.content, got.headers["content-length"]) == (content, str(len(content)))


async def test_whole_file_is_answered_when_if_range_names_other_bytes(artifact: httpx2.AsyncClient) -> None:
    assert (await artifact.put(f"{CONTENT}/f", content=BYTES)).is_success
    headers = {"Range": "bytes=0-4"}
    same = await artifact.get(f"{CONTENT}/f", headers={**headers, "If-Range": f'"{SHA256}"'})
    other = await artifact.get(f"{CONTENT}/f", headers={**headers, "If-Range": '"other"'})
    assert (same.status_code, other.status_code, other.content) == (206, 200, BYTES)


async def test_download_is_not_modified_when_the_client_has_it(artifact: httpx2.AsyncClient) -> None:
    assert (await artifact.put(f"{CONTENT}/f", content=BYTES)).is_success
    got = await artifact.get(f"{CONTENT}/f", headers={"If-None-Match": f'"x", W/"{SHA256}"'})
    assert (got.status_code, got.content, got.headers["etag"]) == (304, b"", f'"{SHA256}"')
    assert (await artifact.get(f"{CONTENT}/f", headers={"If-None-Match": '"x"'})).status_code == 200


async def test_upload_is_refused_and_leaves_nothing_when_the_digest_differs(
    artifact: httpx2.AsyncClient, tmp_path: Path
) -> None:
    right = await artifact.put(f"{CONTENT}/f", content=BYTES, headers={"Content-Digest": make_digest(BYTES)})
    assert right.status_code == 200
    kept = list_blobs(tmp_path)
    wrong = await artifact.put(f"{CONTENT}/f", content=b"hellp world", headers={"Content-Digest": make_digest(BYTES)})
    assert (wrong.status_code, wrong.json()["errorCode"]) == (400, "file.checksum")
    assert (await artifact.get(f"{CONTENT}/f")).content == BYTES
    assert list_blobs(tmp_path) == kept
    assert len(kept) == 1
    assert kept[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "digest", ["sha-256=:short:", "md5=:abcd:", "x", f"sha-256=:{'!' * 44}:", "sha-256=:" + "A" * 44]
)
async def test_upload_is_refused_when_the_digest_cannot_be_read(artifact: httpx2.AsyncClient, digest: str) -> None:
    answer = await artifact.put(f"{CONTENT}/f", content=BYTES, headers={"Content-Digest": digest})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "header.digest")


async def test_upload_changes_nothing_when_it_is_repeated(artifact: httpx2.AsyncClient, tmp_path: Path) -> None:
    first = await artifact.put(f"{CONTENT}/f", content=BYTES)
    kept = list_blobs(tmp_path)
    again = await artifact.put(f"{CONTENT}/f", content=BYTES)
    assert (again.status_code, again.json()) == (200, first.json())
    assert list_blobs(tmp_path) == kept


async def test_replaced_bytes_are_gone_when_a_file_is_uploaded_again(
    artifact: httpx2.AsyncClient, tmp_path: Path
) -> None:
    assert (await artifact.put(f"{CONTENT}/f", content=BYTES)).is_success
    assert (await artifact.put(f"{CONTENT}/f", content=b"other")).is_success
    assert (await artifact.get(f"{CONTENT}/f")).content == b"other"
    assert [path.read_bytes() for path in list_blobs(tmp_path)] == [b"other"]


async def test_condition_is_kept_when_a_client_states_one(artifact: httpx2.AsyncClient) -> None:
    new, same = {"If-None-Match": "*"}, {"If-Match": f'"{SHA256}"'}
    assert (await artifact.put(f"{CONTENT}/f", content=BYTES, headers=same)).status_code == 412
    assert (await artifact.put(f"{CONTENT}/f", content=BYTES, headers=new)).status_code == 200
    assert (await artifact.put(f"{CONTENT}/f", content=b"x", headers=new)).status_code == 412
    assert (await artifact.put(f"{CONTENT}/f", content=b"x", headers=same)).status_code == 200
    assert (await artifact.put(f"{CONTENT}/f", content=b"y", headers=same)).status_code == 412
    assert (await artifact.get(f"{CONTENT}/f")).content == b"x"
    assert (await artifact.put(f"{CONTENT}/f", content=b"y", headers={"If-Match": "?"})).status_code == 400
    assert (await artifact.put(f"{CONTENT}/f", content=b"y", headers={"If-None-Match": '"x"'})).status_code == 400


async def test_file_is_gone_when_it_is_deleted(artifact: httpx2.AsyncClient, tmp_path: Path) -> None:
    assert (await artifact.put(f"{CONTENT}/f", content=BYTES)).is_success
    assert (await artifact.delete(f"{CONTENT}/f")).status_code == 200
    assert (await artifact.get(f"{CONTENT}/f")).status_code == 404
    assert (await artifact.delete(f"{CONTENT}/f")).status_code == 404
    assert list_blobs(tmp_path) == []


async def test_bytes_are_gone_when_their_entity_is_deleted_and_its_id_used_again(
    artifact: httpx2.AsyncClient, tmp_path: Path
) -> None:
    assert (await artifact.put(f"{CONTENT}/f", content=BYTES)).is_success
    assert (await artifact.delete(f"{INSIDE}/artifacts/a1")).is_success
    assert list_blobs(tmp_path) == []
    await add_artifact(artifact)
    assert (await artifact.get(f"{INSIDE}/artifacts/a1/files/info")).json() == []
    assert (await artifact.get(f"{CONTENT}/f")).status_code == 404


@pytest.mark.parametrize("address", [f"{INSIDE}/artifacts?name=net", "/api/v1/projects/demo?cascade=true"])
async def test_bytes_are_gone_when_all_versions_or_the_project_are_deleted(
    artifact: httpx2.AsyncClient, tmp_path: Path, address: str
) -> None:
    await add_artifact(artifact, "a2")
    for entity_id in ("a1", "a2"):
        for name in ("f", "g/h"):
            put = await artifact.put(f"{INSIDE}/artifacts/{entity_id}/files/content/{name}", content=BYTES)
            assert put.is_success
    assert len(list_blobs(tmp_path)) == 4
    deleted = await artifact.delete(address)
    assert deleted.is_success, deleted.text
    assert list_blobs(tmp_path) == []


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "a/../b",
        "a//b",
        "./a",
        "a/.",
        "a\\b",
        "a%0ab",
        "%2e%2e/x",
        "x" * 256,
        "/".join(["y" * 99] * 7),
        "%ed%a0%80",
    ],
)
async def test_path_is_refused_when_it_could_leave_a_folder(
    artifact: httpx2.AsyncClient, server: Server, path: str
) -> None:
    # Straight into the application: a client would normalize the path first.
    messages: list[Any] = []
    scope = {
        "type": "http",
        "method": "PUT",
        "path": f"{CONTENT}/{unquote(path, errors='surrogateescape')}",
        "query_string": b"",
        "headers": [(b"host", b"localhost:8080"), (b"content-length", b"1")],
        "client": ("127.0.0.1", 5),
        "scheme": "http",
        "server": ("localhost", 8080),
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": b"x", "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    await server.app(scope, receive, send)
    assert messages[0]["status"] in (400, 404), messages
    assert (await artifact.get(f"{INSIDE}/artifacts/a1/files/info")).json() == []


async def test_upload_is_refused_when_its_size_is_unknown_or_too_large(tmp_path: Path) -> None:
    options = {"max_file_bytes": 10, "max_entity_bytes": 15, "max_project_bytes": 20}
    async with serve(tmp_path, options=options) as server, server.client() as client:
        assert (await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})).is_success
        for entity_id in ("a1", "a2"):
            await add_artifact(client, entity_id)
        other = f"{INSIDE}/artifacts/a2/files/content"

        async def stream() -> AsyncIterator[bytes]:
            yield b"x"

        unknown = await client.put(f"{CONTENT}/f", content=stream())
        assert (unknown.status_code, "Content-Length" in unknown.json()["message"]) == (411, True)
        large = await client.put(f"{CONTENT}/f", content=b"x" * 11)
        assert (large.status_code, large.json()["errorCode"]) == (413, "file.too_large")
        assert (await client.put(f"{CONTENT}/f", content=b"x" * 10)).is_success
        entity = await client.put(f"{CONTENT}/g", content=b"x" * 6)
        assert (entity.status_code, entity.json()["errorCode"]) == (400, "file.quota")
        assert "artifact a1 has no room for 6 bytes" in entity.json()["message"]
        assert (await client.put(f"{other}/f", content=b"x" * 8)).is_success
        project = await client.put(f"{other}/g", content=b"x" * 3)
        assert (project.status_code, project.json()["errorCode"]) == (400, "file.quota")
        assert "project demo has no room for 3 bytes" in project.json()["message"]
        # A replaced file makes room, and so does a deleted one.
        assert (await client.put(f"{CONTENT}/f", content=b"y" * 9)).is_success
        assert (await client.put(f"{other}/g", content=b"x" * 3)).is_success
        assert (await client.delete(f"{INSIDE}/artifacts/a1")).is_success
        assert (await client.put(f"{other}/h", content=b"x" * 4)).is_success


async def test_upload_is_refused_without_a_trace_when_it_stalls(tmp_path: Path) -> None:
    limits = Limits(body_seconds=0.1)
    async with serve(tmp_path, limits=limits) as server, server.client() as client:
        assert (await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})).is_success
        await add_artifact(client)

        async def stall() -> AsyncIterator[bytes]:
            yield b"x" * 300_000
            await asyncio.sleep(5)

        stalled = await client.put(f"{CONTENT}/f", content=stall(), headers={"Content-Length": "400000"})
        assert stalled.status_code == 408
        assert list_blobs(tmp_path) == []
        assert (await client.get(f"{INSIDE}/artifacts/a1/files/info")).json() == []
        async with server.core.store.begin(is_read_only=True) as unit:
            assert (await unit.files.measure("demo")).bytes == 0


async def test_upload_is_refused_when_fewer_bytes_come_than_stated(
    artifact: httpx2.AsyncClient, tmp_path: Path
) -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield b"x"

    short = await artifact.put(f"{CONTENT}/f", content=stream(), headers={"Content-Length": "2"})
    assert short.status_code == 400
    assert list_blobs(tmp_path) == []


class FailingBlobs:
    """Blob storage that cannot write."""

    def __init__(self, blobs: Any, error: Exception) -> None:
        self._blobs, self._error = blobs, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)

    async def write(self, blob: str, chunks: AsyncIterator[bytes], *, size: int) -> str:
        async def cut() -> AsyncIterator[bytes]:
            async for chunk in chunks:
                yield chunk
                raise self._error

        written: str = await self._blobs.write(blob, cut(), size=size)
        return written


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (StorageFull("the file storage is full"), 507, "files.full"),
        (BlobsUnavailable("secret cause"), 503, "unavailable"),
    ],
)
async def test_upload_fails_without_a_trace_when_the_storage_does(
    tmp_path: Path, error: Exception, status: int, code: str
) -> None:
    async with (
        serve(tmp_path, wrap_blobs=lambda blobs: FailingBlobs(blobs, error)) as server,
        server.client() as client,
    ):
        assert (await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})).is_success
        await add_artifact(client)
        failed = await client.put(f"{CONTENT}/f", content=BYTES)
        assert (failed.status_code, failed.json()["errorCode"]) == (status, code)
        assert "file storage" in failed.json()["message"]
        assert "secret" not in failed.text
        assert list_blobs(tmp_path) == []
        assert (await client.get(f"{CONTENT}/f")).status_code == 404
        async with server.core.store.begin(is_read_only=True) as unit:
            assert (await unit.files.measure("demo")).bytes == 0


async def test_download_says_what_to_do_when_the_bytes_are_lost(artifact: httpx2.AsyncClient, tmp_path: Path) -> None:
    assert (await artifact.put(f"{CONTENT}/f", content=BYTES)).is_success
    [blob] = list_blobs(tmp_path)
    blob.write_bytes(b"short")
    cut = await artifact.get(f"{CONTENT}/f")
    assert (cut.status_code, cut.json()["errorCode"]) == (410, "file.lost")
    blob.unlink()
    assert (await artifact.get(f"{CONTENT}/f")).status_code == 410
    assert (await artifact.put(f"{CONTENT}/f", content=b"again")).is_success
    assert (await artifact.get(f"{CONTENT}/f")).content == b"again"


async def test_nothing_is_stored_when_there_is_no_such_entity(demo: httpx2.AsyncClient, tmp_path: Path) -> None:
    assert (await demo.put(f"{CONTENT}/f", content=BYTES)).status_code == 404
    assert (await demo.put("/api/v1/-/nothing/artifacts/a1/files/content/f", content=BYTES)).status_code == 404
    assert (await demo.put(f"{INSIDE}/functions/f1/files/content/f", content=BYTES)).status_code == 404
    assert list_blobs(tmp_path) == []


async def test_stored_type_is_the_clients_when_it_states_one(artifact: httpx2.AsyncClient) -> None:
    for stated in ("application/x-thing; version=2", "text/csv;charset=utf-8", "image/x ; a='b c' ;d"):
        assert (await artifact.put(f"{CONTENT}/f.csv", content=BYTES, headers={"Content-Type": stated})).is_success
        assert (await artifact.get(f"{CONTENT}/f.csv")).headers["content-type"] == stated
    wrong = await artifact.put(f"{CONTENT}/f.csv", content=BYTES, headers={"Content-Type": "csv"})
    assert (wrong.status_code, wrong.json()["errors"][0]["code"]) == (400, "header.content_type")
    # An expression that can divide the spaces in several ways would not end.
    hostile = {"Content-Type": f"a/b{';   ' * 48}@"}
    assert (await artifact.put(f"{CONTENT}/f.csv", content=BYTES, headers=hostile)).status_code == 400
    form = await artifact.put(f"{CONTENT}/f.csv", files={"file": BYTES})
    assert (form.status_code, "not a form" in form.json()["message"]) == (415, True)


async def test_audit_names_the_file_when_it_is_stored_and_deleted(artifact: httpx2.AsyncClient) -> None:
    assert (await artifact.put(f"{CONTENT}/f", content=BYTES)).is_success
    assert (await artifact.delete(f"{CONTENT}/f")).is_success
    entries = (await artifact.get("/api/v1/audit", params={"project": "demo"})).json()["entries"]
    found = {entry["action"]: entry["details"] for entry in entries if entry["id"] == "a1"}
    assert found["artifact.put_file"] == {"path": "f", "size": 11, "sha256": SHA256}
    assert found["artifact.delete_file"] == {"path": "f"}
