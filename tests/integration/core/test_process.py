"""The process: how it starts, says what is wrong, tells how it is, and leaves."""

import asyncio
import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import httpx2
import pytest

from runyard.api.write_probe import LEAST_FREE_BYTES, PROBED_EVERY_SECONDS
from runyard.vault.key_file import KeyFile
from tests.core_process import CoreProcess, call_runyard, run_core
from tests.integration.core.conftest import PROJECT, Place, fill, make_run
from tests.postgres import NoPostgres, run_postgres


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[CoreProcess]:
    """A server on SQLite, where the database makes no difference."""
    with run_core(folder=tmp_path) as core:
        yield core


async def test_server_says_where_it_listens_and_is_ready_when_it_starts(
    shared_cores: list[CoreProcess], engine: str, tell: Callable[[str], None]
) -> None:
    core = shared_cores[0]
    tell(f"{engine}: `runyard server` listens {core.started_in:.2f} s after its start on an empty database")
    assert core.read_output().startswith(f"runyard listens on {core.url}\n")
    assert "No accounts" in core.read_output()
    async with core.client() as client:
        for path in ("/healthz", "/readyz"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_no_label_names_a_run_or_a_user_when_metrics_are_read(shared_cores: list[CoreProcess]) -> None:
    async with shared_cores[0].client() as client:
        await fill(client)
        await client.post(f"{PROJECT}/runs", json=make_run("demo", "run-with-a-known-id"))
        for path in ("runs/run-with-a-known-id", "runs/missing-id", "functions/f-demo", "nowhere/x-y-z"):
            await client.get(f"{PROJECT}/{path}")
        await client.get("/no/such/route/at-all")
        await client.request("BREW", "/healthz")
        text = (await client.get("/metrics")).text
    assert 'route="/api/v1/-/{project}/runs/{id}"' in text
    for known in ("run-with-a-known-id", "missing-id", "x-y-z", "at-all", "demo", "BREW", "admin"):
        assert known not in text


def test_every_wrong_setting_has_a_line_when_several_are_wrong(tmp_path: Path) -> None:
    ended = call_runyard(
        *("server", "--data", str(tmp_path), "--port", "http", "--host", "0.0.0.0", "--database", "mysql://x"),
        environment={"RUNYARD_LOG_LEVEL": "verbose", "RUNYARD_KEY": "not a key that could be"},
    )
    assert ended.code == 2
    lines = ended.err.splitlines()
    for word in ("--port", "--host", "--database", "RUNYARD_LOG_LEVEL"):
        assert sum(word in line.split(":")[1] for line in lines) >= 1, ended.err
    assert "Traceback" not in ended.err
    assert "not a key that could be" not in ended.err


def test_one_line_names_what_is_wrong_when_the_server_cannot_work_with_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no certificate, no folder\n")
    (tmp_path / "policy.yaml").write_text("resources.mem: {max: lots}\n")
    file, policy = str(tmp_path / "file"), str(tmp_path / "policy.yaml")
    for flags, environment, words in (
        ((), {"RUNYARD_KEY": "not a key that could be"}, "key"),
        (("--data", f"{file}/data"), {}, f"cannot create the data directory {file}/data"),
        (("--policy", policy), {}, f"{policy}:1"),
        (("--tls-certificate", file, "--tls-key", file), {}, f"{file} do not match"),
        (
            ("--logs", f"folder:{tmp_path}/logs"),
            {"RUNYARD_DATABASE": "postgresql://u:hunter2@127.0.0.1:1/x"},
            "cannot be reached",
        ),
    ):
        ended = call_runyard("server", "--data", str(tmp_path / "data"), "--port", "0", *flags, environment=environment)
        assert ended.code in (1, 2), ended.err
        assert len([line for line in ended.err.splitlines() if not line.startswith(" ")]) == 1, ended.err
        assert words in ended.err
        assert "Traceback" not in ended.err
        assert "not a key that could be" not in ended.err
        assert "hunter2" not in ended.err


async def test_one_line_says_so_when_the_database_was_sealed_with_another_key(tmp_path: Path) -> None:
    with run_core(folder=tmp_path) as core:
        core.process.terminate()
        assert await core.wait() == 0
    key, lost = tmp_path / "data" / "key", tmp_path / "data" / "lost"
    key.rename(lost)
    KeyFile(key).ensure()
    ended = call_runyard("server", "--data", str(tmp_path / "data"), "--port", "0")
    assert ended.code == 1
    assert len(ended.err.splitlines()) == 1, ended.err
    assert "is not among the known keys" in ended.err
    assert f"restore the key that belongs to it, in {key} (--key-file)" in ended.err


async def test_no_key_is_named_or_made_when_the_key_file_is_missing(tmp_path: Path) -> None:
    with run_core(folder=tmp_path) as core:
        core.process.terminate()
        assert await core.wait() == 0
    key = tmp_path / "data" / "key"
    key.rename(tmp_path / "data" / "lost")
    cure = "restore the file, or name another with --key-file"
    ended = call_runyard("server", "--data", str(tmp_path / "data"), "--port", "0")
    assert (ended.code, ended.err) == (
        1,
        f"error: the key file {key} does not exist, and the database is encrypted: {cure}\n",
    )
    # None was made that would stand in the way of the right one.
    assert not (tmp_path / "data" / "key").exists()
    (tmp_path / "data" / "lost").rename(tmp_path / "data" / "key")
    with run_core(folder=tmp_path) as core:
        assert core.process.poll() is None


async def test_server_warns_when_there_are_no_accounts_to_sign_in_with(tmp_path: Path) -> None:
    with run_core("--auth", "accounts", folder=tmp_path) as core:
        assert "nobody can sign in" in core.read_errors()
        async with core.client(("ada", "password")) as client:
            assert (await client.get("/api/v1/projects")).status_code == 401


def test_one_line_says_so_when_the_port_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = call_runyard("server", "--data", str(tmp_path), "--port", str(port))
    assert ended.code == 1
    reason = "Address already in use; choose another port with --port"
    assert ended.err == f"error: cannot listen on 127.0.0.1:{port}: {reason}\n"


async def test_one_line_names_the_first_when_a_second_server_takes_the_same_sqlite(tmp_path: Path) -> None:
    with run_core(folder=tmp_path) as core:
        second = call_runyard("server", "--data", str(tmp_path / "data"), "--port", "0")
        assert second.code == 1
        assert len(second.err.splitlines()) == 1, second.err
        assert f"is in use by process {core.process.pid}" in second.err
        async with core.client() as client:
            assert (await client.get("/readyz")).status_code == 200


async def test_database_of_the_future_is_refused_and_left_as_it_is_when_it_is_served(place: Place, engine: str) -> None:
    assert (call_runyard("db", "upgrade", environment=place.environment)).code == 0
    await set_version(place, engine, "r9999")
    data = place.folder / "data"
    # A place that several servers can share: PostgreSQL beside a file of one server is warned about.
    places = ("--data", str(data), "--logs", f"folder:{data}/logs")
    for flags in (("--port", "0"), ("--check",)):
        ended = call_runyard("server", *flags, *places, environment=place.environment)
        assert ended.code == 1
        assert len(ended.err.splitlines()) == 1, ended.err
        assert "newer" in ended.err
    assert await set_version(place, engine, "r9999") == "r9999"


async def set_version(place: Place, engine: str, version: str) -> str:
    """Write the version of the schema and say which it was."""
    if engine == "sqlite":
        with sqlite3.connect(place.database.removeprefix("sqlite:///")) as connection:
            before: str = connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]
            connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
        connection.close()
        return before
    postgres = await asyncpg.connect(place.database)
    before = await postgres.fetchval("SELECT version_num FROM alembic_version")
    await postgres.execute("UPDATE alembic_version SET version_num = $1", version)
    await postgres.close()
    return before


def test_settings_are_printed_and_nothing_is_made_when_they_are_only_checked(place: Place, engine: str) -> None:
    data = place.folder / "data"
    ended = call_runyard(
        "server", "--check", "--data", str(data), "--logs", f"folder:{data}/logs", environment=place.environment
    )
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith("settings: ok; database: empty\n")
    assert "p%40ss-word" not in ended.out
    assert not data.exists()


async def test_in_flight_request_is_answered_when_the_server_is_told_to_stop(core: CoreProcess) -> None:
    async with core.client() as client:
        await fill(client)
        begun, release = asyncio.Event(), asyncio.Event()

        async def write_slowly() -> httpx2.Response:
            async def make_body() -> object:
                yield b'{"kind": "container", "name": "slow", "id": "slow",'
                begun.set()
                await release.wait()
                yield b' "spec": {"image": "busybox:1.36"}}'

            headers = {"Content-Type": "application/json"}
            return await client.post(f"{PROJECT}/functions", content=make_body(), headers=headers)  # type: ignore[arg-type]

        slow = asyncio.create_task(write_slowly())
        await begun.wait()
        await wait_for_requests(client, 1)
        core.process.send_signal(signal.SIGTERM)
        await wait_for_line(core, "server.draining")
        assert not slow.done()
        release.set()
        answer = await slow
    assert (answer.status_code, answer.json()["id"]) == (200, "slow")
    assert await core.wait() == 0
    assert "Traceback" not in core.read_errors()


async def test_streams_end_and_say_why_when_the_server_is_told_to_stop(alone: CoreProcess) -> None:
    core = alone
    async with core.client() as client:
        await fill(client)
        await client.post(f"{PROJECT}/runs", json=make_run("demo", "r1"))
        headers = {"Accept": "text/event-stream"}
        async with client.stream("GET", f"{PROJECT}/runs/r1/events", headers=headers) as answer:
            texts = answer.aiter_text()
            seen = await anext(texts)
            core.process.send_signal(signal.SIGTERM)
            seen += "".join([text async for text in texts])
    assert "event: transition" in seen
    assert "draining" in seen
    assert await core.wait() == 0


async def test_connection_is_answered_and_ended_when_its_request_comes_to_its_end_while_the_server_drains(
    alone: CoreProcess,
) -> None:
    core = alone
    reader, writer = await open_connection(core)
    writer.write(b"POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
    await writer.drain()
    async with core.client() as client:
        await wait_for_requests(client, 1)
    core.process.send_signal(signal.SIGTERM)
    await wait_for_line(core, "server.draining")
    writer.write(b"grant_type")
    await writer.drain()
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"connection: close" in answer.lower()
    assert await core.wait() == 0


async def test_server_ends_at_once_when_it_is_told_twice(tmp_path: Path) -> None:
    with run_core("--drain", "10m", folder=tmp_path) as core:
        _, writer = await open_connection(core)
        writer.write(b"POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
        await writer.drain()
        async with core.client() as client:
            await wait_for_requests(client, 1)
        core.process.send_signal(signal.SIGTERM)
        await wait_for_line(core, "server.draining")
        core.process.send_signal(signal.SIGTERM)
        assert await core.wait() == 0
        writer.close()


async def test_server_is_not_ready_and_says_so_when_its_database_is_away(tmp_path: Path) -> None:
    try:
        with (
            run_postgres() as own,
            run_core(folder=tmp_path, environment={"RUNYARD_DATABASE": own.url()}) as core,
        ):
            async with core.client() as client:
                await fill(client)
                own.kill()
                ready = await client.get("/readyz")
                assert ready.status_code == 503
                for answer in (
                    await client.get(f"{PROJECT}/tasks/t-demo"),
                    await client.post(f"{PROJECT}/runs", json=make_run("demo", "r1")),
                ):
                    assert (answer.status_code, answer.json()["errorCode"]) == (503, "unavailable")
                    assert "p@ss" not in answer.text
                assert (await client.get("/healthz")).status_code == 200
                own.start()
                assert (await client.get("/readyz")).status_code == 200
                assert (await client.get(f"{PROJECT}/tasks/t-demo")).status_code == 200
            core.process.terminate()
            assert await core.wait() == 0
    except NoPostgres as missing:
        pytest.skip(f"no PostgreSQL: {missing}")


async def test_server_is_not_ready_when_its_database_takes_no_writes(tmp_path: Path) -> None:
    with run_core("--log-level", "error", folder=tmp_path) as core:
        async with core.client() as client:
            await wait_for_readiness(client, 200)
            with closing(sqlite3.connect(tmp_path / "data" / "runyard.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                await wait_for_readiness(client, 503)
                assert (await client.get("/healthz")).status_code == 200
                other.execute("ROLLBACK")
            await wait_for_readiness(client, 200)
            # As a full disk: no file may grow.
            _, hard = resource.prlimit(core.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(core.process.pid, resource.RLIMIT_FSIZE, (4096, hard))
            await wait_for_readiness(client, 503)
            resource.prlimit(core.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
            await wait_for_readiness(client, 200)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The data directory of a server, on a disk that a test can fill."""
    if os.geteuid() != 0:
        pytest.skip("a small disk to fill is mounted, which takes root")
    disk = tmp_path / "data"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={3 * LEAST_FREE_BYTES}", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


async def test_server_is_not_ready_when_small_writes_still_fit_on_a_full_disk(small_disk: Path) -> None:
    filling = small_disk / "filling"
    with run_core("--log-level", "error", folder=small_disk.parent) as core:
        async with core.client() as client:
            await wait_for_readiness(client, 200)
            await fill(client)
            for number in range(30):  # enough that the write-ahead log has its full size and is overwritten
                await client.post(f"{PROJECT}/artifacts", json=make_artifact(f"small-{number}", size=200_000))
            filling.write_bytes(bytes(shutil.disk_usage(small_disk).free - LEAST_FREE_BYTES - (4 << 20)))
            await asyncio.sleep(PROBED_EVERY_SECONDS + 0.1)
            assert (await client.get("/readyz")).status_code == 200
            fill_up(filling)
            large = make_artifact("large", size=4_000_000)
            assert (await client.post(f"{PROJECT}/artifacts", json=large)).status_code == 503
            await wait_for_readiness(client, 503)
            # It stays so: a small row has room where the write-ahead log is overwritten.
            for _ in range(5):
                assert (await client.get("/readyz")).status_code == 503
            assert (await client.get("/healthz")).status_code == 200
            filling.unlink()
            await wait_for_readiness(client, 200)
            assert (await client.post(f"{PROJECT}/artifacts", json=large)).status_code == 200


def fill_up(path: Path) -> None:
    """Let a file take what the disk has left."""
    with suppress(OSError), path.open("ab", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


async def test_database_is_written_rarely_when_readiness_is_asked_often(alone: CoreProcess) -> None:
    async with alone.client() as client:
        begun = time.monotonic()
        assert (await client.get("/readyz")).status_code == 200
        with closing(sqlite3.connect(alone.folder / "data" / "runyard.db")) as database:
            first = database.execute("SELECT value FROM meta WHERE name = 'write_probe'").fetchone()
            for _ in range(50):
                assert (await client.get("/readyz")).status_code == 200
            last = database.execute("SELECT value FROM meta WHERE name = 'write_probe'").fetchone()
            assert last == first or time.monotonic() - begun > PROBED_EVERY_SECONDS - 1


def make_artifact(name: str, *, size: int) -> dict[str, Any]:
    """With so many characters."""
    path, text = "s3://bucket/file", "a" * size
    return {"kind": "artifact", "name": name, "spec": {"path": path}, "status": {"text": text}}


async def wait_for_readiness(client: httpx2.AsyncClient, status: int) -> None:
    """Until the server says so; a good answer counts for a few seconds."""
    async with asyncio.timeout(60):
        while (await client.get("/readyz")).status_code != status:  # noqa: ASYNC110 - it is another process's
            await asyncio.sleep(0.2)


async def open_connection(core: CoreProcess) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A bare connection."""
    address = httpx2.URL(core.url)
    return await asyncio.open_connection(address.host, address.port)


async def wait_for_requests(client: httpx2.AsyncClient, number: int) -> None:
    """Until that many requests are being answered beside the one that asks."""
    while f"runyard_http_requests_in_flight {number + 1}.0" not in (await client.get("/metrics")).text:
        pass


async def wait_for_line(core: CoreProcess, text: str) -> None:
    """Until its log says that."""
    while text not in core.read_errors():  # noqa: ASYNC110 - it is another process's
        await asyncio.sleep(0.02)
