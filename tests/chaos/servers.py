"""The servers of a storm: killed, frozen and started again; and a client that asks until one answers."""

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import httpx2

from tests.core_process import make_client, make_environment

START_SECONDS = 60.0
ANSWER_SECONDS = 15.0
CANNOT_START = "--engine kubernetes: cannot use the cluster"
ROOT = Path(__file__).parents[2]


class Starter(Protocol):
    """Starts servers."""

    def start(self, flags: Mapping[str, str], *, output: Path, is_quick: bool) -> int:
        """Start a server with these settings; returns its pid."""


class Spawner:
    """Starts servers as forks of a process that has everything imported."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.spawner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=make_environment(),
            cwd=ROOT,
        )

    def start(self, flags: Mapping[str, str], *, output: Path, is_quick: bool) -> int:
        """Start a server with these settings; returns its pid."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"flags": dict(flags), "output": str(output), "is_quick": is_quick}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End the process; servers that were not killed before end with it."""
        self._process.communicate()


class Replica:
    """One server: its settings, and its process if it has one."""

    def __init__(self, spawner: Starter, flags: Mapping[str, str], *, folder: Path, is_quick: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        port = find_port()
        self.flags = {"port": str(port), "data": str(folder / "data"), "max_requests": "100000", **flags}
        self.url = f"http://127.0.0.1:{port}"
        self.output = folder / "output"
        self._spawner, self._is_quick = spawner, is_quick
        self.pid: int | None = None
        self.is_frozen = False
        self._changing = asyncio.Lock()
        """Held while it is killed or started: two processes would fight for the port, and one would be forgotten."""

    async def start(self, *, waits: bool = True) -> None:
        """Start it unless it runs; unless told otherwise, wait until it answers."""
        async with self._changing:
            if not self.is_alive:
                self.pid = await asyncio.to_thread(
                    self._spawner.start, self.flags, output=self.output, is_quick=self._is_quick
                )
        if waits:
            await self.wait_ready()

    async def wait_ready(self) -> None:
        """Until it answers; raises with the end of its output if it does not."""
        deadline = time.monotonic() + START_SECONDS
        async with make_client(self.url, timeout=5.0) as client:
            while True:
                with suppress(httpx2.TransportError):
                    if (await client.get("/readyz")).status_code == 200:
                        return
                if time.monotonic() > deadline or not self.is_alive:
                    raise AssertionError(f"the server does not answer:\n{self.read_output()}")
                await asyncio.sleep(0.05)

    @property
    def is_alive(self) -> bool:
        """Whether its process exists."""
        return self.pid is not None and not has_ended(self.pid)

    async def kill(self) -> None:
        """As a crash would; returns when the process has ended, so that its port is free."""
        async with self._changing:
            killed = self.pid
            self._signal(signal.SIGKILL)
            self.pid, self.is_frozen = None, False
            deadline = time.monotonic() + START_SECONDS
            while killed is not None and not has_ended(killed):
                assert time.monotonic() < deadline, f"process {killed} does not end after SIGKILL"
                await asyncio.sleep(0.01)

    def freeze(self) -> None:
        """Stop it in the middle of whatever it does."""
        self.is_frozen = True
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)
        self.is_frozen = False

    async def stop(self) -> None:
        """SIGTERM, and wait until it has gone."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + START_SECONDS
        while self.is_alive:
            if time.monotonic() > deadline:
                raise AssertionError(f"the server does not end:\n{self.read_output()}")
            await asyncio.sleep(0.05)
        self.pid = None

    def read_output(self) -> str:
        """The end of what it said."""
        return self.output.read_text(errors="replace")[-4000:] if self.output.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Servers:
    """All replicas of one installation."""

    def __init__(self, replicas: list[Replica]) -> None:
        self.replicas = replicas
        self._clients = [make_client(replica.url, timeout=ANSWER_SECONDS) for replica in replicas]
        self._turn = 0
        self.crashes: list[str] = []
        """Servers that ended though nobody killed them."""
        self.failed_starts = 0
        """How often a server said that it cannot start, because its cluster did not answer."""

    async def start(self) -> None:
        """Start all."""
        for replica in self.replicas:
            await replica.start()

    async def keep_alive(self) -> None:
        """Until cancelled: start servers again that ended by themselves, as systemd or a kubelet would."""
        while True:
            await asyncio.sleep(0.5)
            for replica in self.replicas:
                if replica.pid is not None and not replica.is_alive:
                    output = replica.read_output()
                    if CANNOT_START in output[-1000:]:
                        self.failed_starts += 1
                    else:
                        self.crashes.append(f"a server ended by itself:\n{output}")
                    await replica.start(waits=False)

    async def ask(self, method: str, path: str, *, seconds: float = 300.0, **options: Any) -> httpx2.Response:
        """Ask one replica after the other until one answers; 5xx and 429 are no answers."""
        deadline = time.monotonic() + seconds
        said: object = "nothing was asked"
        while time.monotonic() < deadline:
            self._turn += 1
            which = self._turn % len(self.replicas)
            if self.replicas[which].pid is not None and not self.replicas[which].is_frozen:
                try:
                    answer = await self._clients[which].request(method, path, **options)
                except httpx2.TransportError as error:
                    said = repr(error)
                else:
                    if answer.status_code < 500 and answer.status_code != 429:
                        return answer
                    said = answer.text[:500]
            await asyncio.sleep(0.2)
        raise AssertionError(f"{method} {path}: no answer within {seconds:.0f} s: {said}")

    async def close(self) -> None:
        """Kill all."""
        for replica in self.replicas:
            replica.thaw()
            await replica.kill()
        for client in self._clients:
            await client.aclose()


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or a zombie without other threads: nothing of it holds a port or a file anymore."""
    process = Path(f"/proc/{pid}")
    try:
        # The name, in parentheses, may have any character; the state follows it.
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        return state in "ZX" and len(list((process / "task").iterdir())) <= 1
    except (FileNotFoundError, ProcessLookupError):
        return True


def find_port() -> int:
    """A free port below the ephemeral ones: a client that asks a dead server again could else take its port."""
    for port in random.SystemRandom().sample(range(20_000, 30_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
