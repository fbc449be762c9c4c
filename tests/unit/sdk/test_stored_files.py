"""Downloads over connections that break, and what a hostile server may name. `transport=` is the seam."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

import runyard as ry
from runyard.sdk.local_files import choose_target, list_local_files

CONTENT = bytes(range(256)) * 40
DIGEST = hashlib.sha256(CONTENT).hexdigest()
ENTITY = {"id": "a1", "name": "net", "kind": "artifact", "project": "demo"}


class _Broken(httpx2.SyncByteStream):
    """A body that breaks off."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content
        raise httpx2.ReadError("broken")


class Server:
    """Has one file; the first `breaks` downloads break off after 1000 bytes."""

    def __init__(self, *, breaks: int = 0, path: str = "net.bin", digest: str = DIGEST) -> None:
        self.breaks = breaks
        self.info = {"path": path, "size": len(CONTENT), "hash": f"sha256:{digest}", "stored": True}
        self.ranges: list[str | None] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/files/info"):
            return httpx2.Response(200, json=[self.info])
        if "/files/content/" not in request.url.path:
            listed = (
                {"content": [ENTITY], "totalPages": 1}
                if "artifacts" in request.url.path
                else {**ENTITY, "name": "demo"}
            )
            return httpx2.Response(200, json=listed)
        wanted = request.headers.get("range")
        self.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        body, status = CONTENT[start:], 206 if wanted else 200
        if self.breaks:
            self.breaks -= 1
            return httpx2.Response(status, stream=_Broken(body[:1000]))
        return httpx2.Response(status, content=body)


class ClientPlace:
    """A server whose files of this entity are in S3, where it cannot append to them."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if path.endswith("/files/uploads"):
            refused = {"errorCode": "files.elsewhere", "message": "elsewhere", "errors": []}
            return httpx2.Response(200, json=[]) if request.method == "GET" else httpx2.Response(400, json=refused)
        if "/files/content/" in path:
            self.bodies[path] = request.read()
        return httpx2.Response(200, json={**ENTITY, "name": "demo"})


def test_file_is_sent_by_one_request_when_the_server_cannot_append_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.sdk.sync.file_uploads.MOST_WHOLE_BYTES", 100)
    (tmp_path / "net.bin").write_bytes(CONTENT)
    server = ClientPlace()
    with ry.Client("http://server", transport=httpx2.MockTransport(server)) as client:
        client.get_project("demo").log_artifact("net", tmp_path / "net.bin")
    assert server.bodies == {"/api/v1/-/demo/artifacts/a1/files/content/net.bin": CONTENT}


def test_no_byte_is_counted_twice_when_a_file_is_sent_again(tmp_path: Path) -> None:
    (tmp_path / "net.bin").write_bytes(CONTENT)
    server, sent, told = ClientPlace(), 0, list[int]()

    def answer(request: httpx2.Request) -> httpx2.Response:
        nonlocal sent
        if request.method == "PUT" and "/files/content/" in request.url.path:
            request.read()
            sent += 1
            if sent < 3:
                return httpx2.Response(503, json={"message": "busy"})
        return server(request)

    with ry.Client("http://server", transport=httpx2.MockTransport(answer)) as client:
        project = client.get_project("demo")
        project.log_artifact("net", tmp_path / "net.bin", on_progress=lambda now: told.append(now.done_bytes))
    assert (sent, max(told), told[-1]) == (3, len(CONTENT), len(CONTENT))


@pytest.mark.parametrize("offset", [0, len(CONTENT) + 1])
def test_upload_ends_when_the_server_says_what_cannot_be_of_its_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    monkeypatch.setattr("runyard.sdk.sync.file_uploads.MOST_WHOLE_BYTES", 100)
    (tmp_path / "net.bin").write_bytes(CONTENT)
    parts = 0

    def answer(request: httpx2.Request) -> httpx2.Response:
        nonlocal parts
        if request.method == "PATCH":
            request.read()
            parts += 1
            assert parts < 100, "asked without end"
            return httpx2.Response(200, json={"offset": offset})
        if request.url.path.endswith("/files/uploads"):
            return httpx2.Response(200, json=[] if request.method == "GET" else {"id": "u1", "offset": 0})
        return httpx2.Response(200, json={**ENTITY, "name": "demo"})

    with ry.Client("http://server", transport=httpx2.MockTransport(answer)) as client:
        project = client.get_project("demo")
        with pytest.raises(ry.UnexpectedResponse, match=f"has {offset} of {len(CONTENT)} bytes, and had 0 before"):
            project.log_artifact("net", tmp_path / "net.bin")


def download(server: Server, folder: Path) -> Path:
    with ry.Client("http://server", transport=httpx2.MockTransport(server)) as client:
        return client.get_project("demo").get_artifact("net").download(folder)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.sdk.retry.FIRST_PAUSE_SECONDS", 0.0)


def test_download_continues_where_it_was_when_the_connection_breaks(tmp_path: Path) -> None:
    server = Server(breaks=2)
    assert download(server, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=1000-", "bytes=2000-"]
    assert [path.name for path in tmp_path.iterdir()] == ["net.bin"]


def test_file_is_not_kept_when_its_bytes_are_not_those_of_the_server(tmp_path: Path) -> None:
    with pytest.raises(ry.TransferFailed, match="not those of the server"):
        download(Server(digest="0" * 64), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_file_stays_when_it_would_be_overwritten(tmp_path: Path) -> None:
    (tmp_path / "net.bin").write_text("mine")
    with pytest.raises(ry.ArgumentError, match="exists; use overwrite=True"):
        download(Server(), tmp_path)
    assert (tmp_path / "net.bin").read_text() == "mine"


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "", "a\\b", "a\0b"])
def test_path_is_refused_when_it_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    with pytest.raises(ry.TransferFailed, match="leads out of the folder"):
        choose_target(tmp_path, path)
    assert choose_target(tmp_path, "a/b.txt") == tmp_path / "a" / "b.txt"


def test_links_are_refused_when_a_folder_is_uploaded(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("a")
    assert [file.path for file in list_local_files(tmp_path)] == ["sub/a.txt"]
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(ry.ArgumentError, match="is a link"):
        list_local_files(tmp_path)
    with pytest.raises(ry.ArgumentError, match="no such file"):
        list_local_files(tmp_path / "lost")
