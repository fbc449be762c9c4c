"""No byte of a relayed stream is lost at its end: TLS peers in threads, slow readers, and clients that go on talking.

kubectl sends a ping every five seconds, also while it still reads what a command has printed before it ended. The
peers lose nothing themselves: a provider that closes as Go does is reset by such a ping, and loses what it has not sent
yet, with and without a node between.

`RUNYARD_STREAMS=5000` relays so many.
"""

import asyncio
import hashlib
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from runyard.kube.client import Client
from runyard.kube.config import ClusterConfig
from runyard.node.kubelet_api import streams as streams_module
from runyard.node.kubelet_api.connections import Connections, open_listener
from runyard.node.kubelet_api.streams import OpenStreams, relay_stream
from runyard.node.providers.kubernetes.streams import KubernetesStreams
from testbed.pki import Authority
from tests.unit.node.kubelet_api.raw_peers import SWITCHED, Received, TlsEnd, read_all, read_head
from tests.unit.node.kubelet_api.test_connections import wait_for

STREAMS = int(os.environ.get("RUNYARD_STREAMS", "60"))
AT_ONCE = 6
HOST = "127.0.0.1"
SWITCH = (
    b"POST /exec?command=%d HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\n"
    b"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
)
WRITE_BYTES = (100, 4096, 32768, 300_000)


@dataclass
class Plan:
    """What becomes of one stream."""

    payload: bytes
    client_payload: bytes = b""
    """The provider ends when it has all of it."""
    write_bytes: int = 32768
    ping_seconds: float = 0.0
    """The client says something so often, until it has everything."""
    read_after_seconds: float = 0.0
    pause_seconds: float = 0.0
    """Between two reads of the client."""
    closes_first: bool = False
    """The client knows how much there is, and closes as soon as it has it."""
    is_cut: bool = False
    """The provider is killed when it has sent everything."""
    from_client: Received = field(default_factory=Received)


class ThreadedProvider:
    """A provider's apiserver: for a stream of `command=N` it does what `plans[N]` says."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._listener = socket.create_server((HOST, 0), backlog=100)
        self.port = int(self._listener.getsockname()[1])
        self.plans: dict[int, Plan] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # A thread that accepts does not notice a mere close.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        end = TlsEnd(connection, self._context)
        head, rest = read_head(end)
        plan = self.plans[int(head.partition(b"command=")[2].split()[0])]
        plan.from_client.take(rest)
        end.write(SWITCHED)
        if plan.is_cut:
            end.write(plan.payload)
            end.reset()
            return
        reader = threading.Thread(target=read_all, args=(end, plan.from_client))
        reader.start()
        for start in range(0, len(plan.payload), plan.write_bytes):
            end.write(plan.payload[start : start + plan.write_bytes])
        plan.from_client.wait_for(len(plan.client_payload))
        end.end_sending()
        reader.join()
        end.close()


@dataclass
class Relayed:
    """A relay as the kubelet port has it, between a provider and clients in threads."""

    provider: ThreadedProvider
    streams: OpenStreams
    port: int
    context: ssl.SSLContext
    lost: list[str]
    clients: ThreadPoolExecutor

    async def run(self, number: int, plan: Plan) -> Received:
        """Everything that the client of one stream got."""
        self.provider.plans[number] = plan
        # Not by the loop's own threads: the relay needs those.
        return await asyncio.get_running_loop().run_in_executor(self.clients, self._run_client, number, plan)

    def _run_client(self, number: int, plan: Plan) -> Received:
        end = TlsEnd(socket.create_connection((HOST, self.port)), self.context, host=HOST)
        end.write(SWITCH % number)
        received = Received()
        received.take(read_head(end)[1])
        has_all = threading.Event()
        talking = threading.Thread(target=self._talk, args=(end, plan, has_all))
        talking.start()
        time.sleep(plan.read_after_seconds)
        if plan.closes_first:
            while received.size_bytes < len(plan.payload):
                received.take(end.read())
        else:
            read_all(end, received, pause_seconds=plan.pause_seconds)
        has_all.set()
        talking.join()
        end.close()
        return received

    def _talk(self, end: TlsEnd, plan: Plan, has_all: threading.Event) -> None:
        if plan.client_payload:
            end.write(plan.client_payload)
        while plan.ping_seconds and not has_all.wait(plan.ping_seconds):
            try:
                end.write(b"ping")
            except OSError:
                return


@pytest.fixture
async def relayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Relayed]:
    monkeypatch.setattr(streams_module, "CLIENT_FIRST_SECONDS", 0.0)
    authority = Authority(tmp_path)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(*authority.issue("server", common_name="server", hosts=[HOST]))
    provider = ThreadedProvider(serving)
    ca = authority.certificate_file.read_bytes()
    async with Client.connect(ClusterConfig(server=f"https://{HOST}:{provider.port}", ca=ca)) as client:
        lost: list[str] = []
        streams = OpenStreams(100, on_lost=lambda _, why: lost.append(why))
        async with serving_relay(client, streams, serving) as port:
            context = ssl.create_default_context(cadata=ca.decode())
            with ThreadPoolExecutor(AT_ONCE) as clients:
                yield Relayed(provider, streams, port, context, lost, clients)
    provider.close()


@asynccontextmanager
async def serving_relay(client: Client, streams: OpenStreams, context: ssl.SSLContext) -> AsyncIterator[int]:
    relay = KubernetesStreams(client, namespace="team", find_remote=lambda _: "remote")

    async def handle(request: web.Request) -> web.StreamResponse:
        query = list(request.query.items())
        return await relay_stream(request, relay, streams, "exec", uid="uid", container=None, query=query)

    async with AsyncExitStack() as stack:
        app = web.Application()
        app.router.add_post("/exec", handle)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        assert runner.server is not None
        listener = stack.enter_context(open_listener(HOST, 0))
        serving = asyncio.create_task(Connections(runner.server, context=context).serve(listener))
        yield listener.getsockname()[1]
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def random_plan(random_: random.Random) -> Plan:
    plan = Plan(random_.randbytes(int(10 ** random_.uniform(0, 6.7))), write_bytes=random_.choice(WRITE_BYTES))
    match random_.choice(["fast", "slow", "talks", "late", "sends"]):
        case "slow":
            plan.pause_seconds = 0.01
        case "talks":
            plan.pause_seconds, plan.ping_seconds = 0.005, random_.choice([0.01, 0.05])
        case "late":
            plan.read_after_seconds, plan.ping_seconds = random_.choice([0.2, 0.7]), 0.05
        case "sends":
            plan.client_payload = random_.randbytes(int(10 ** random_.uniform(0, 6)))
    return plan


async def test_every_byte_arrives_when_streams_end_in_all_ways(relayed: Relayed) -> None:
    seed = int(os.environ.get("RUNYARD_SEED", "20261118"))
    random_, places = random.Random(seed), asyncio.Semaphore(AT_ONCE)

    async def run(number: int) -> str | None:
        async with places:
            plan = random_plan(random_)
            got = await relayed.run(number, plan)
            del relayed.provider.plans[number]
        if got.digest.digest() == hashlib.sha256(plan.payload).digest() and got.end == "closed":
            return None
        return f"stream {number}: {got.size_bytes} of {len(plan.payload)} bytes, {got.end}; {plan.read_after_seconds=}"

    problems = await asyncio.gather(*(run(number) for number in range(STREAMS)))
    assert [problem for problem in problems if problem] == [], f"seed {seed}"
    assert relayed.lost == []
    await wait_for(lambda: relayed.streams.open == 0)


async def test_last_bytes_arrive_when_the_client_talks_before_it_reads_them(relayed: Relayed) -> None:
    payload = random.Random(7).randbytes(3_000_000)
    got = await relayed.run(0, Plan(payload, ping_seconds=0.02, read_after_seconds=1.0))
    assert (got.size_bytes, got.end) == (len(payload), "closed")
    assert got.digest.digest() == hashlib.sha256(payload).digest()


async def test_providers_side_gets_every_byte_when_it_has_nothing_to_say(relayed: Relayed) -> None:
    plan = Plan(b"x", client_payload=random.Random(8).randbytes(3_000_000))
    await relayed.run(0, plan)
    assert plan.from_client.digest.digest() == hashlib.sha256(plan.client_payload).digest()


async def test_what_came_before_arrives_when_the_provider_is_killed(relayed: Relayed) -> None:
    payload = random.Random(9).randbytes(200_000)
    plan = Plan(payload, is_cut=True, read_after_seconds=0.5)
    got = await relayed.run(0, plan)
    assert got.digest.digest() == hashlib.sha256(payload).digest()
    assert [why.partition(":")[0] for why in relayed.lost] == ["exec broke off"]


async def test_client_hears_of_no_end_when_it_closes_first(relayed: Relayed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "CLIENT_FIRST_SECONDS", 3600.0)
    plan = Plan(random.Random(10).randbytes(300_000), closes_first=True, ping_seconds=0.02, read_after_seconds=0.5)
    got = await relayed.run(0, plan)
    assert (got.size_bytes, got.end) == (len(plan.payload), "")
    await wait_for(lambda: relayed.streams.open == 0)
