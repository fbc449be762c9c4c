"""Uploads over connections that are cut and through a restart of the server: they go on where they were."""

import asyncio
import hashlib
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import runyard as ry
from runyard.sdk.transfer_progress import TransferProgress
from testbed.faults import FaultPlan, FaultProxy, LoseAnswer, Rule
from tests.core_process import CoreProcess, run_core
from tests.cutting_relay import open_relay
from tests.e2e.client.conftest import SECONDS, set_environment
from tests.e2e.client.test_follow_through_restart import find_free_port

MIB = 1 << 20
SIZE = 96 * MIB
SLACK = 12 * MIB
"""What may be on its way in buffers when a connection breaks, several times."""
MOST_MEMORY = 24 * MIB
MEASURE = """
import sys
import runyard as ry

def read_peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

project = ry.get_or_create_project("memory")
project.log_artifact("warm", __file__ if "__file__" in globals() else sys.executable)
before = read_peak()
project.log_artifact("large", sys.argv[1])
print(read_peak() - before)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "model.bin"
    with path.open("wb") as stream:
        for number in range(SIZE // MIB):
            stream.write(number.to_bytes(4, "big") * (MIB // 4))
    return path


def hash_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def test_upload_goes_on_where_it_was_when_connections_are_cut(
    core: CoreProcess, server: str, large: Path, tmp_path: Path
) -> None:
    told: list[TransferProgress] = []
    ry.get_or_create_project("demo")
    with open_relay(int(core.url.rpartition(":")[2]), cut_at=[20 * MIB, 50 * MIB, 80 * MIB]) as relay:
        with ry.Client(relay.url) as client:
            client.get_project("demo").log_model("cut", large, on_progress=told.append)
        assert relay.cuts == 3
        assert SIZE < relay.sent < SIZE + SLACK
    model = ry.get_project("demo").get_model("cut")
    assert model.state == "READY"
    assert [file.hash for file in model.list_files()] == [f"sha256:{hash_file(large)}"]
    assert hash_file(model.download(tmp_path / "back")) == hash_file(large)
    assert [each.done_bytes for each in told if each.phase == "checking"][-1] == SIZE
    assert (told[-1].phase, told[-1].done_bytes, told[-1].total_bytes) == ("uploading", SIZE, SIZE)
    assert sum(each.problem is not None for each in told) >= 3


def test_upload_goes_on_when_the_server_is_killed_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: Path
) -> None:
    set_environment(monkeypatch, tmp_path)
    port = find_free_port()
    is_half = {name: threading.Event() for name in ("sync", "async")}
    made: dict[str, str] = {}

    def watch(name: str, progress: TransferProgress) -> None:
        if progress.phase == "uploading" and progress.done_bytes > SIZE // 2:
            is_half[name].set()

    def upload() -> None:
        with ry.Client(relay.url) as client:
            project = client.get_project("demo")
            made["sync"] = project.log_model("sync", large, on_progress=lambda now: watch("sync", now)).id

    async def upload_async() -> None:
        async with ry.AsyncClient(relay.url) as client:
            project = await client.get_project("demo")
            logged = await project.log_model("async", large, on_progress=lambda now: watch("async", now))
            made["async"] = logged.id

    options = ("--engine", "none", "--port", str(port))
    threads = [threading.Thread(target=upload), threading.Thread(target=lambda: asyncio.run(upload_async()))]
    with open_relay(port) as relay:
        with run_core(*options, folder=tmp_path / "core") as core:
            with ry.Client(core.url) as client:
                client.get_or_create_project("demo")
            for thread in threads:
                thread.start()
            for event in is_half.values():
                assert event.wait(SECONDS)
            core.kill()
        with run_core(*options, folder=tmp_path / "core"), ry.Client(f"http://127.0.0.1:{port}") as client:
            for thread in threads:
                thread.join(SECONDS)
                assert not thread.is_alive()
            for name, model_id in made.items():
                model = client.get_project("demo").get_model(name, id=model_id)
                assert [(file.size, file.hash) for file in model.list_files()] == [(SIZE, f"sha256:{hash_file(large)}")]
        assert set(made) == {"sync", "async"}
        assert 2 * SIZE < relay.sent < 2 * (SIZE + SLACK)


async def test_file_is_stored_once_when_the_answers_are_lost(server: str, large: Path) -> None:
    lost = [
        Rule(LoseAnswer(), method="POST", path="*/artifacts"),
        Rule(LoseAnswer(), method="POST", path="*/files/uploads"),
        Rule(LoseAnswer(), method="PATCH"),
        Rule(LoseAnswer(), method="POST", path="*/complete"),
    ]
    async with FaultProxy(server, plan=FaultPlan(rules=lost)) as proxy, ry.AsyncClient(proxy.url) as client:
        project = await client.get_or_create_project("lossy")
        artifact = await project.log_artifact("large", large)
        assert proxy.counts["lose-answer"] == len(lost)
        assert [file.hash for file in await artifact.list_files()] == [f"sha256:{hash_file(large)}"]
        assert await client.request("GET", f"/api/v1/-/lossy/artifacts/{artifact.id}/files/uploads") == []
        assert len(await project.list_stored("artifact")) == 1


def test_memory_stays_small_when_a_large_file_is_uploaded(server: str, large: Path) -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE, large], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MOST_MEMORY


def test_upload_is_refused_at_once_when_the_file_becomes_shorter(server: str, tmp_path: Path, large: Path) -> None:
    path = tmp_path / "shrinks.bin"
    path.write_bytes(large.read_bytes()[: 16 * MIB])

    def shorten(progress: TransferProgress) -> None:
        if progress.phase == "uploading":
            with path.open("r+b") as stream:
                stream.truncate(MIB)

    project = ry.get_or_create_project("demo")
    with pytest.raises(ry.ArgumentError, match=r"shrinks\.bin: became shorter while it was uploaded"):
        project.log_artifact("shrinks", path, on_progress=shorten)
    stored = project.get_artifact("shrinks")
    assert (stored.state, stored.list_files()) == ("ERROR", [])
