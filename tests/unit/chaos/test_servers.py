"""Servers that are killed and started again."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.chaos.servers import Replica, has_ended

SLOW_TO_DIE = """
import socket, sys, time
memory = bytearray(b"x") * (256 << 20)  # the kernel frees it before it closes the socket
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
time.sleep(600)
"""


class SlowServers:
    """Processes that hold the port for a while after SIGKILL; nobody reaps them, so they stay as zombies."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, flags: Mapping[str, str], *, output: Path, is_quick: bool) -> int:
        process = subprocess.Popen([sys.executable, "-c", SLOW_TO_DIE, flags["port"]], stdout=subprocess.PIPE)
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", (output, is_quick)
        return process.pid


@pytest.fixture
def starter() -> Iterator[SlowServers]:
    starter = SlowServers()
    yield starter
    for process in starter.processes:
        process.kill()
        process.communicate()


async def test_port_is_free_at_once_when_a_server_was_killed(starter: SlowServers, tmp_path: Path) -> None:
    replica = Replica(starter, {}, folder=tmp_path, is_quick=True)
    for _ in range(3):
        await replica.start(waits=False)
        assert replica.is_alive
        await replica.kill()
        assert replica.pid is None
        socket.create_server(("127.0.0.1", int(replica.flags["port"]))).close()


async def test_second_start_changes_nothing_when_the_server_runs(starter: SlowServers, tmp_path: Path) -> None:
    replica = Replica(starter, {}, folder=tmp_path, is_quick=True)
    await replica.start(waits=False)
    await replica.start(waits=False)
    assert [process.pid for process in starter.processes] == [replica.pid]
    await replica.kill()


def test_process_has_ended_when_it_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert not has_ended(process.pid)
    assert process.stdin is not None
    process.stdin.close()
    process.wait()
    assert has_ended(process.pid)
