"""Files through real servers: memory stays small, nothing half done is visible, two servers share a folder."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx2
import pytest

from tests.core_process import CoreProcess, make_client, run_core
from tests.integration.core.conftest import PROJECT, Place
from tests.postgres import Postgres

MIB = 1 << 20
LARGE = 192 * MIB
MOST_MEMORY = 48 * MIB
"""How much the server's memory may grow while a file of `LARGE` bytes passes, in both directions."""


async def add_artifact(client: httpx2.AsyncClient) -> str:
    """An artifact a1 in a new project `demo`; the address of its files."""
    assert (await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})).is_success
    assert (await client.post(f"{PROJECT}/artifacts", json={"kind": "artifact", "name": "a", "id": "a1"})).is_success
    return f"{PROJECT}/artifacts/a1/files/content"


def list_blobs(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def read_peak(core: CoreProcess) -> int:
    lines = Path(f"/proc/{core.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


async def wait_until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)


async def open_upload(
    core: CoreProcess, address: str, *, size: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which the head of an upload was sent."""
    host, port = core.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"PUT {address} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {size}\r\n\r\n".encode())
    return reader, writer


async def iterate(size: int) -> AsyncIterator[bytes]:
    chunk = bytes(range(256)) * 4096
    for _ in range(size // len(chunk)):
        yield chunk


async def test_memory_stays_small_when_a_large_file_passes(core: CoreProcess) -> None:
    async with core.client() as client:
        address = f"{await add_artifact(client)}/large.bin"
        before = read_peak(core)
        put = await client.put(address, content=iterate(LARGE), headers={"Content-Length": str(LARGE)})
        assert put.is_success, put.text
        digest, size = hashlib.sha256(), 0
        async with client.stream("GET", address) as got:
            async for chunk in got.aiter_bytes():
                digest.update(chunk)
                size += len(chunk)
        assert size == LARGE
        assert f"sha256:{digest.hexdigest()}" == put.json()["hash"]
        assert read_peak(core) - before < MOST_MEMORY


async def test_nothing_is_visible_when_the_server_is_killed_during_an_upload(place: Place) -> None:
    files = place.folder / "data" / "files"

    async def wait_for_bytes(core: CoreProcess) -> AsyncIterator[bytes]:
        yield b"x" * MIB
        await wait_until(lambda: any(path.name.endswith(".part") for path in list_blobs(files)))
        core.kill()
        for _ in range(MIB):
            yield b"x"

    with run_core(folder=place.folder, environment=place.environment) as core:
        async with core.client() as client:
            address = f"{await add_artifact(client)}/f"
            assert (await client.put(address, content=b"old")).is_success
            with pytest.raises(httpx2.TransportError):
                await client.put(address, content=wait_for_bytes(core), headers={"Content-Length": str(2 * MIB)})
    assert len(list_blobs(files)) == 2
    with run_core(folder=place.folder, environment=place.environment) as core:
        async with core.client() as client:
            assert (await client.get(address)).content == b"old"
            assert (await client.put(address, content=b"new")).is_success
            assert (await client.get(address)).content == b"new"


async def test_nothing_is_left_when_a_client_goes_away_during_an_upload(core: CoreProcess, place: Place) -> None:
    files = place.folder / "data" / "files"
    async with core.client() as client:
        address = await add_artifact(client)
    _, writer = await open_upload(core, f"{address}/f", size=2 * MIB)
    writer.write(b"x" * MIB)
    await writer.drain()
    await wait_until(lambda: bool(list_blobs(files)))
    writer.close()
    await wait_until(lambda: not list_blobs(files))
    async with core.client() as client:
        assert (await client.get(f"{address}/f")).status_code == 404


async def test_upload_is_ended_when_it_comes_too_slowly(place: Place) -> None:
    arguments = ("--max-body-time", "2s")
    with run_core(*arguments, folder=place.folder, environment=place.environment) as core:
        async with core.client() as client:
            address = await add_artifact(client)
        reader, writer = await open_upload(core, f"{address}/f", size=100)
        answer = asyncio.create_task(reader.read())
        while not answer.done():
            writer.write(b"x")
            await asyncio.sleep(0.1)
        assert answer.result().startswith(b"HTTP/1.1 408 ")
        assert b"the body is not complete after 2 seconds" in answer.result()
        writer.close()
    assert list_blobs(place.folder / "data" / "files") == []


async def test_servers_see_each_others_files_when_they_share_a_folder(postgres: Postgres, tmp_path: Path) -> None:
    environment = {
        "RUNYARD_DATABASE": postgres.create_database(),
        "RUNYARD_KEY_FILE": str(tmp_path / "key"),
        "RUNYARD_FILES": str(tmp_path / "shared"),
    }
    with (
        run_core(folder=tmp_path / "a", environment=environment) as one,
        run_core(folder=tmp_path / "b", environment=environment) as two,
    ):
        async with make_client(one.url) as first, make_client(two.url) as second:
            address = await add_artifact(first)
            content = os.urandom(MIB)
            assert (await first.put(f"{address}/f", content=content)).is_success
            assert (await second.get(f"{address}/f")).content == content
            many = [bytes([number]) * 300_000 for number in range(8)]
            answers = await asyncio.gather(
                *((first, second)[number % 2].put(f"{address}/g", content=body) for number, body in enumerate(many))
            )
            assert {answer.status_code for answer in answers} == {200}
            got = [(await client.get(f"{address}/g")).content for client in (first, second)]
            assert got[0] == got[1]
            assert got[0] in many
            assert (await second.delete(f"{PROJECT}/artifacts/a1")).is_success
            assert (await first.get(f"{address}/f")).status_code == 404
    assert list_blobs(tmp_path / "shared") == []
