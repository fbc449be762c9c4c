"""Files that clients store by themselves in S3, through the routes of the server; files of others stay closed."""

import hashlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.files.s3_files_store import S3FilesStore
from tests.contract.files.builders import LARGE, PART
from tests.http_servers import serve
from tests.s3.server import S3Server
from tests.unit.api.test_files import make_digest

INSIDE = "/api/v1/-/demo"
BYTES = b"x,y\n1,2\n"


@pytest.fixture
async def store(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[S3FilesStore]:
    monkeypatch.setattr("runyard.s3.multipart.LEAST_PART_BYTES", PART)
    opened = s3_server.open_files_store(f"tests/{uuid.uuid4().hex}")
    assert isinstance(opened, S3FilesStore)
    yield opened
    await opened.close()


@pytest.fixture
async def client(store: S3FilesStore, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """Of a server with projects demo and other."""
    async with serve(tmp_path, files_store=store) as server, server.client() as client:
        for name in ("demo", "other"):
            assert (await client.post("/api/v1/projects", json={"kind": "project", "name": name})).is_success
        yield client


def make_key(store: S3FilesStore, rest: str) -> str:
    return f"{store.place.removeprefix('s3://').partition('/')[2]}/{rest}"


async def add_artifact(client: httpx2.AsyncClient, path: str, **more: Any) -> str:
    """The address of its files."""
    document = {"kind": "artifact", "name": "points", "id": "a1", "spec": {"path": path}, **more}
    answer = await client.post(f"{INSIDE}/artifacts", json=document)
    assert answer.is_success, answer.text
    return f"{INSIDE}/artifacts/a1/files"


async def test_file_of_a_client_is_listed_and_read_when_the_path_names_it(
    client: httpx2.AsyncClient, store: S3FilesStore
) -> None:
    key = make_key(store, "demo/artifact/points/a1/points.csv")
    await store._bucket.put(key, BYTES, content_type="text/csv")
    described = [{"path": "points.csv", "name": "points.csv", "hash": "md5:0", "content_type": "text/csv"}]
    files = await add_artifact(
        client, f"{store.place}/demo/artifact/points/a1/points.csv", status={"state": "READY", "files": described}
    )
    [listed] = (await client.get(f"{files}/info")).json()
    assert listed.pop("last_modified").endswith(" GMT")
    assert listed == {**described[0], "size": len(BYTES), "stored": True}
    got = await client.get(f"{files}/content/points.csv")
    assert (got.status_code, got.content, got.headers["content-type"]) == (200, BYTES, "text/csv; charset=utf-8")
    assert "repr-digest" not in got.headers
    part = await client.get(f"{files}/content", headers={"Range": "bytes=4-6", "If-Range": got.headers["etag"]})
    assert (part.status_code, part.content, part.headers["content-range"]) == (206, b"1,2", "bytes 4-6/8")
    again = await client.get(f"{files}/content/points.csv", headers={"If-None-Match": got.headers["etag"]})
    assert again.status_code == 304
    assert (await client.get(f"{files}/content/other.csv")).status_code == 404


async def test_file_is_where_the_path_says_when_it_is_uploaded_through_the_server(
    client: httpx2.AsyncClient, store: S3FilesStore, tmp_path: Path
) -> None:
    files = await add_artifact(client, f"{store.place}/demo/artifact/points/a1/")
    small = {"Content-Type": "text/csv", "Content-Digest": make_digest(BYTES)}
    put = await client.put(f"{files}/content/sub/points.csv", content=BYTES, headers=small)
    assert (put.status_code, put.json()["size"]) == (200, len(BYTES)), put.text
    large = await client.put(f"{files}/content/large", content=LARGE)
    assert large.is_success, large.text
    for name, content, kind in (("sub/points.csv", BYTES, "text/csv"), ("large", LARGE, "application/octet-stream")):
        found = await store.find(make_key(store, f"demo/artifact/points/a1/{name}"))
        assert found is not None
        assert (found.size, found.content_type) == (len(content), kind)
        got = await client.get(f"{files}/content/{name}")
        assert hashlib.sha256(got.content).digest() == hashlib.sha256(content).digest()
    assert [entry["path"] for entry in (await client.get(f"{files}/info")).json()] == ["large", "sub/points.csv"]
    # Nothing of it is in the server's own storage.
    assert [path for path in (tmp_path / "files").rglob("*") if path.is_file()] == []
    new = await client.put(f"{files}/content/large", content=b"x", headers={"If-None-Match": "*"})
    assert new.status_code == 412
    assert (await client.delete(f"{files}/content/large")).is_success
    assert (await client.delete(f"{files}/content/large")).status_code == 404
    refused = await client.post(f"{files}/uploads", json={"path": "f", "size": 1})
    assert (refused.status_code, refused.json()["errorCode"]) == (400, "files.elsewhere")


@pytest.mark.parametrize("content", [BYTES, LARGE])
async def test_nothing_is_visible_when_the_digest_differs(
    client: httpx2.AsyncClient, store: S3FilesStore, content: bytes
) -> None:
    files = await add_artifact(client, f"{store.place}/demo/artifact/points/a1/")
    wrong = await client.put(f"{files}/content/f", content=content, headers={"Content-Digest": make_digest(b"other")})
    assert (wrong.status_code, wrong.json()["errorCode"]) == (400, "file.checksum")
    assert (await client.get(f"{files}/info")).json() == []


@pytest.mark.parametrize(
    "path",
    [
        "{place}/other/artifact/points/a1/secret",
        "{place}/other/",
        "{place}/demo/../other/artifact/points/a1/secret",
        "{place}/demo//",
        "{place}/",
        "s3://logs/demo/artifact/points/a1/",
    ],
)
async def test_files_of_others_stay_closed_when_a_path_names_them(
    client: httpx2.AsyncClient, store: S3FilesStore, path: str
) -> None:
    await store._bucket.put(make_key(store, "other/artifact/points/a1/secret"), b"secret")
    files = await add_artifact(client, path.format(place=store.place))
    assert (await client.get(f"{files}/info")).json() == []
    for name in ("secret", "artifact/points/a1/secret", "../other/artifact/points/a1/secret"):
        assert (await client.get(f"{files}/content/{name}")).status_code in (400, 404)
    assert (await client.put(f"{files}/content/secret", content=b"mine")).is_success  # in the server's own storage
    kept = await store._bucket.find(make_key(store, "other/artifact/points/a1/secret"))
    assert kept == b"secret"


async def test_files_of_another_entity_are_not_replaced_when_a_path_names_them(
    client: httpx2.AsyncClient, store: S3FilesStore
) -> None:
    key = make_key(store, "demo/artifact/points/a2/f")
    await store._bucket.put(key, b"others")
    files = await add_artifact(client, f"{store.place}/demo/artifact/points/a2/")
    assert (await client.get(f"{files}/content/f")).content == b"others"
    assert (await client.put(f"{files}/content/f", content=b"mine")).is_success
    assert (await client.get(f"{files}/content/f")).content == b"mine"
    assert (await client.delete(f"{files}/content/f")).is_success
    assert await store._bucket.find(key) == b"others"
