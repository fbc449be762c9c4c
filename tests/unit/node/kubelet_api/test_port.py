"""Who gets an answer from the port, which one, and what becomes of a slow or vanished client."""

import asyncio
import datetime
import json
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from runyard.kube.client import Client
from runyard.node.kubelet_api.local_pods import LocalPod, local_pod_from_object
from runyard.node.kubelet_api.port import KubeletPort
from runyard.node.kubelet_api.streams import OpenStreams
from runyard.node.providers.provider import (
    LogOptions,
    Object,
    ProviderRefused,
    ProviderUnavailable,
    RemotePodMissing,
    StreamKind,
    Tunnel,
)
from testbed.pki import Authority
from tests.unit.node.kubelet_api.scripted_cluster import ScriptedCluster, scripted_cluster

NODE = "k8s.gpu"
POD: Object = {
    "metadata": {"namespace": "team", "name": "web", "uid": "uid-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"containers": [{"name": "main"}]},
    "status": {"phase": "Running"},
}
LOG = "/containerLogs/team/web/main"
SPDY = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}


class Pods:
    def find_pod(self, namespace: str, name: str) -> LocalPod | None:
        return local_pod_from_object(POD) if (namespace, name) == ("team", "web") else None

    async def list_pods(self) -> Sequence[Object]:
        return [POD]


class LoopTunnel:
    """Gives back what it was sent, in capitals."""

    headers = (("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", "v4.channel.k8s.io"))

    def __init__(self) -> None:
        self._bytes: asyncio.Queue[bytes] = asyncio.Queue()

    async def receive(self) -> bytes:
        data = await self._bytes.get()
        return b"" if data == b"END" else data

    async def send(self, data: bytes) -> None:
        await self._bytes.put(data.upper())

    async def close_sending(self) -> None:
        await self._bytes.put(b"END")


@dataclass
class ScriptedProvider:
    """A provider with logs and tunnels; of `Provider` only what the port uses."""

    kind = "scripted"
    chunks: list[bytes] = field(default_factory=lambda: [b"line\n"])
    failure: Exception | None = None
    late_failure: Exception | None = None
    waits: bool = False
    asked: list[Any] = field(default_factory=list)
    open: int = 0
    taken: int = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    @asynccontextmanager
    async def read_log(self, uid: str, container: str, options: LogOptions) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append((uid, container, options))
        if self.failure:
            raise self.failure
        with self.counted():
            yield self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            self.taken += 1
            yield chunk
        if self.waits:
            await asyncio.Event().wait()
        if self.late_failure:
            raise self.late_failure

    @asynccontextmanager
    async def open_tunnel(
        self,
        kind: StreamKind,
        uid: str,
        container: str | None,
        *,
        method: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
    ) -> AsyncIterator[Tunnel]:
        self.asked.append((kind, uid, container, method, list(query), dict(headers)))
        if self.failure:
            raise self.failure
        with self.counted():
            yield LoopTunnel()


@dataclass
class Served:
    """A port that listens, and clients of it."""

    cluster: ScriptedCluster
    port: KubeletPort
    provider: ScriptedProvider
    address: str
    folder: Path

    def tls(self, *, user: str | None = None, authority: Authority | None = None) -> ssl.SSLContext:
        """TLS of a client that trusts the cluster; with a certificate of `authority` if it is a `user`."""
        context = ssl.create_default_context(cafile=str(self.cluster.authority.certificate_file))
        context.check_hostname = True
        if user is not None:
            files = (authority or self.cluster.authority).issue(f"client-{user}", common_name=user, groups=["team"])
            context.load_cert_chain(*files)
        return context

    async def get(
        self, path: str, *, method: str = "GET", tls: ssl.SSLContext | None = None, **headers: str
    ) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"{self.address}{path}", ssl=tls or self.tls(), headers=headers) as response,
        ):
            return response.status, (await response.read()).decode(errors="surrogateescape")

    async def get_as(self, token: str, path: str, **options: Any) -> tuple[int, str]:
        return await self.get(path, Authorization=f"Bearer {token}", **options)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A port; the token `root` may everything, and `nobody` nothing."""
    async with scripted_cluster(tmp_path / "pki") as (cluster, client):
        cluster.tokens = {name: {"username": name, "groups": ["system:authenticated"]} for name in ("root", "nobody")}
        cluster.rights = {
            ("root", verb, subresource) for verb in ("get", "create") for subresource in ("proxy", "stats", "metrics")
        }
        async with serving(cluster, client, tmp_path) as served:
            yield served


@asynccontextmanager
async def serving(cluster: ScriptedCluster, client: Client, folder: Path, **options: Any) -> AsyncIterator[Served]:
    provider = ScriptedProvider()
    port = KubeletPort(
        client,
        provider,  # type: ignore[arg-type] # the part that the port uses
        Pods(),
        node=NODE,
        addresses=["127.0.0.1"],
        listen="127.0.0.1",
        port=0,
        **options,
    )
    running = asyncio.create_task(port.run())
    try:
        listening = asyncio.create_task(port.wait_listening())
        await asyncio.wait([running, listening], return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if running.done():
            running.result()
        yield Served(cluster, port, provider, f"https://127.0.0.1:{port.port}", folder)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


PATHS = ["/healthz", "/pods", "/runningpods/", "/stats/summary", "/metrics/resource", LOG, "/unknown", "/exec/a/b/c"]


@pytest.mark.parametrize("path", PATHS)
async def test_401_when_nobody_vouches(served: Served, path: str) -> None:
    assert (await served.get(path))[0] == 401
    assert (await served.get_as("made-up", path))[0] == 401


@pytest.mark.parametrize("path", PATHS)
async def test_403_with_the_missing_right_when_the_user_lacks_it(served: Served, path: str) -> None:
    status, text = await served.get_as("nobody", path)
    assert status == 403
    assert "nobody may not" in text
    assert f"nodes/{'proxy' if path not in ('/stats/summary', '/metrics/resource') else path.split('/')[1]}" in text


async def test_finer_right_suffices_when_the_path_has_one(served: Served) -> None:
    served.cluster.tokens["reader"] = {"username": "reader"}
    served.cluster.rights.add(("reader", "get", "pods"))
    assert (await served.get_as("reader", "/runningpods/"))[0] == 200
    assert (await served.get_as("reader", LOG))[0] == 403


async def test_create_is_needed_when_a_command_comes_as_get(served: Served) -> None:
    served.cluster.tokens["reader"] = {"username": "reader"}
    served.cluster.rights.add(("reader", "get", "proxy"))
    status, text = await served.get_as("reader", "/exec/team/web/main?command=id")
    assert (status, "may not create nodes/proxy" in text) == (403, True)
    assert (await served.get_as("reader", LOG))[0] == 200


async def test_certificate_names_the_user_when_the_clusters_authority_signed_it(served: Served) -> None:
    served.cluster.rights.add(("apiserver", "get", "proxy"))
    assert await served.get(LOG, tls=served.tls(user="apiserver")) == (200, "line\n")
    status, text = await served.get(LOG, tls=served.tls(user="somebody"))
    assert (status, "somebody may not" in text) == (403, True)


async def test_nothing_is_answered_when_another_authority_signed(served: Served) -> None:
    foreign = Authority(served.folder / "foreign")
    with pytest.raises((aiohttp.ClientError, ConnectionError)):
        await served.get(LOG, tls=served.tls(user="apiserver", authority=foreign))


async def test_one_review_serves_many_requests_when_they_are_alike(served: Served) -> None:
    for _ in range(5):
        assert (await served.get_as("root", LOG))[0] == 200
        assert (await served.get_as("made-up", LOG))[0] == 401
    assert served.cluster.asked("tokenreviews") == 2
    assert served.cluster.asked("subjectaccessreviews") == 1


@pytest.mark.parametrize(
    "path",
    [
        "/containerLogs/other/web/main",
        "/containerLogs/team/other/main",
        "/containerLogs/team/web/other",
        "/exec/team/web/uid-2/main?command=id",
        "/portForward/team/other",
        "/unknown",
    ],
)
async def test_404_when_pod_or_container_is_not_on_this_node(served: Served, path: str) -> None:
    assert (await served.get_as("root", path))[0] == 404
    assert served.provider.asked == []


async def test_log_options_reach_the_provider_when_they_are_valid(served: Served) -> None:
    served.provider.chunks = [b"a\n", b"\xff\x00", b"c"]
    query = "follow=true&timestamps=true&tailLines=3&sinceSeconds=60&limitBytes=100"
    assert await served.get_as("root", f"{LOG}?{query}") == (200, "a\n\udcff\x00c")
    options = LogOptions(follow=True, timestamps=True, tail_lines=3, since_seconds=60, limit_bytes=100)
    assert served.provider.asked == [("uid-1", "main", options)]


async def test_400_names_the_parameter_when_it_is_unknown(served: Served) -> None:
    assert await served.get_as("root", f"{LOG}?tailLines=many") == (
        400,
        "tailLines is `many`; allowed: a whole number from 0 on\n",
    )


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (RemotePodMissing("gone"), 404),
        (ProviderRefused("BadRequest", "container is waiting to start"), 400),
        (ProviderRefused("Forbidden", "our account may not"), 502),
        (ProviderUnavailable("no route"), 503),
    ],
)
async def test_status_tells_what_the_provider_said_when_it_failed(
    served: Served, failure: Exception, status: int
) -> None:
    served.provider.failure = failure
    answered, text = await served.get_as("root", LOG)
    assert answered == status
    assert str(failure) in text


async def test_answer_is_cut_when_a_log_breaks_off(served: Served) -> None:
    served.provider.late_failure = ProviderUnavailable("cut")
    with pytest.raises(aiohttp.ClientPayloadError):
        await served.get_as("root", LOG)


async def test_log_ends_at_the_provider_when_the_client_leaves(served: Served) -> None:
    served.provider.waits = True
    async with aiohttp.ClientSession() as session:
        response = await session.get(
            f"{served.address}{LOG}?follow=true", ssl=served.tls(), headers={"Authorization": "Bearer root"}
        )
        assert await response.content.readany() == b"line\n"
        assert (served.provider.open, served.port.streams.open) == (1, 1)
        response.close()
        await _until(lambda: served.provider.open == 0 and served.port.streams.open == 0)


async def test_little_is_taken_from_the_provider_when_the_client_reads_slowly(served: Served) -> None:
    served.provider.chunks = [b"x" * 100_000] * 1000
    headers = {"Authorization": "Bearer root"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{served.address}{LOG}", ssl=served.tls(), headers=headers) as response,
    ):
        before = -1
        while before != served.provider.taken:
            before = served.provider.taken
            await asyncio.sleep(0.3)
        assert served.provider.taken < 300
        assert len(await response.read()) == 100_000_000


async def test_429_when_too_many_streams_are_open(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served.port._routes, "streams", OpenStreams(0))
    assert (await served.get_as("root", LOG))[0] == 429


async def test_bytes_are_relayed_both_ways_when_upgraded(served: Served) -> None:
    reader, writer = await _upgrade(served, "/exec/team/web/main?command=sh&command=-c&input=1&error=1")
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    assert head.startswith("HTTP/1.1 101 ")
    assert "X-Stream-Protocol-Version: v4.channel.k8s.io\r\n" in head
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"HELLO"
    writer.write(b"x" * 3_000_000)
    assert await reader.readexactly(3_000_000) == b"X" * 3_000_000
    writer.close()
    await _until(lambda: served.provider.open == 0 and served.port.streams.open == 0)
    query = [("command", "sh"), ("command", "-c"), ("input", "1"), ("error", "1")]
    kind, uid, container, method, asked, headers = served.provider.asked[0]
    assert (kind, uid, container, method, asked) == ("exec", "uid-1", "main", "POST", query)
    assert sorted(headers) == ["Upgrade", "X-Stream-Protocol-Version"]


async def test_client_gets_all_bytes_and_the_end_when_the_provider_ends(served: Served) -> None:
    reader, writer = await _upgrade(served, "/portForward/team/web/uid-1")
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"last")
    assert await reader.readexactly(4) == b"LAST"
    writer.write(b"end")
    assert await reader.read() == b""
    await _until(lambda: served.port.streams.open == 0)
    writer.close()


async def test_400_when_no_upgrade_is_asked_for(served: Served) -> None:
    status, text = await served.get_as("root", "/exec/team/web/main?command=id", method="POST")
    assert (status, "an upgrade is needed" in text) == (400, True)


async def test_501_when_the_provider_has_no_logs(served: Served) -> None:
    class Bare:
        kind = "bare"

    served.port._routes._provider = Bare()  # type: ignore[assignment] # no optional part
    assert await served.get_as("root", LOG) == (501, "the provider (bare) has no logs\n")
    assert (await served.get_as("root", "/attach/team/web/main", method="POST"))[0] == 501


async def test_pods_and_summary_are_those_of_this_node_when_asked(served: Served) -> None:
    for path in ("/pods", "/runningpods/"):
        status, text = await served.get_as("root", path)
        assert (status, json.loads(text)) == (
            200,
            {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [POD]},
        )
    summary = json.loads((await served.get_as("root", "/stats/summary"))[1])
    assert summary["node"]["nodeName"] == NODE
    assert summary["pods"][0]["podRef"] == {"name": "web", "namespace": "team", "uid": "uid-1"}
    assert [each["name"] for each in summary["pods"][0]["containers"]] == ["main"]


async def test_request_head_is_bounded_when_it_does_not_end(served: Served) -> None:
    assert (await served.get_as("root", f"/exec/team/web/main?command={'x' * 100_000}"))[0] == 400
    status, _ = await served.get_as("root", f"/exec/team/web/main?command={'x' * 300_000}")
    assert status == 400
    assert served.provider.asked == []


async def test_new_connections_get_the_new_certificate_when_it_was_renewed(tmp_path: Path) -> None:
    async with scripted_cluster(tmp_path / "pki") as (cluster, client):
        cluster.tokens = {"root": {"username": "root"}}
        cluster.rights = {("root", "get", "proxy")}
        cluster.lifetime = datetime.timedelta(seconds=2)
        async with serving(cluster, client, tmp_path) as served:
            first = await _serial_number(served)
            await _until(lambda: len(cluster.deleted) >= 2)
            async with asyncio.timeout(10):
                while await _serial_number(served) == first:  # noqa: ASYNC110 - what is served, not what is known
                    await asyncio.sleep(0.1)
            assert (await served.get_as("root", LOG))[0] == 200
            assert set(cluster.deleted) <= set(cluster.requests)


async def test_old_clients_are_refused_when_the_authority_has_changed(served: Served) -> None:
    served.cluster.rights.add(("apiserver", "get", "proxy"))
    contexts = served.port._contexts
    assert contexts is not None
    new = Authority(served.folder / "new")
    old_client, new_client = served.tls(user="apiserver"), served.tls(user="apiserver", authority=new)
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{served.address}{LOG}", ssl=old_client) as response:
            assert response.status == 200
            await response.read()
        await contexts.trust(new.certificate_file.read_bytes())
        # The same connection, which was checked against the authority of before.
        async with session.get(f"{served.address}{LOG}", ssl=old_client) as response:
            assert response.status == 401
    assert (await served.get(LOG, tls=new_client))[0] == 200
    with pytest.raises((aiohttp.ClientError, ConnectionError)):
        await served.get(LOG, tls=old_client)


async def _serial_number(served: Served) -> str:
    _, writer = await asyncio.open_connection("127.0.0.1", served.port.port, ssl=served.tls())
    try:
        certificate = writer.get_extra_info("peercert")
        return str(certificate["serialNumber"])
    finally:
        writer.close()


async def _upgrade(served: Served, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port.port, ssl=served.tls())
    headers = SPDY | {"Host": "node", "Authorization": "Bearer root"}
    writer.write(f"POST {path} HTTP/1.1\r\n".encode())
    writer.write("".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode() + b"\r\n")
    return reader, writer


async def _until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the event happens in the server
            await asyncio.sleep(0.01)
