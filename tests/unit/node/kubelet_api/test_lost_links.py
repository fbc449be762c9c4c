"""Streams of a provider that vanished without a word end, with words; others go on."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runyard.node.kubelet_api import lost_links
from runyard.node.kubelet_api.lost_links import ended_with_link
from runyard.node.providers.provider import Link, ProviderUnavailable
from tests.unit.node.kubelet_api.scripted_cluster import scripted_cluster
from tests.unit.node.kubelet_api.test_port import LOG, Served, _upgrade, serving

UP = Link(is_up=True, has_listed=True, since=datetime(2026, 1, 1, tzinfo=UTC))
DOWN = replace(UP, is_up=False, message="no answer")


class Provider:
    """The link of a provider."""

    link = UP

    def __init__(self) -> None:
        self.lost: list[tuple[str, str]] = []

    def read_link(self) -> Link:
        return self.link

    def note_lost(self, uid: str, why: str) -> None:
        self.lost.append((uid, why))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_links, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(lost_links, "CHECK_SECONDS", 0.05)


@pytest.fixture
async def provider() -> Provider:
    return Provider()


@pytest.fixture
async def served(tmp_path: Path, provider: Provider) -> AsyncIterator[Served]:
    async with scripted_cluster(tmp_path / "pki") as (cluster, client):
        cluster.tokens = {"root": {"username": "root"}}
        cluster.rights = {("root", "get", "proxy"), ("root", "create", "proxy")}
        async with serving(
            cluster, client, tmp_path, read_link=provider.read_link, on_lost=provider.note_lost
        ) as served:
            yield served


async def test_a_log_ends_with_words_when_the_provider_vanished(served: Served, provider: Provider) -> None:
    served.provider.waits = True
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port.port, ssl=served.tls())
    writer.write(f"GET {LOG}?follow=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\n\r\n".encode())
    await reader.readuntil(b"line\n")
    provider.link = DOWN
    async with asyncio.timeout(30):
        rest = await reader.read()
    assert b"the log breaks off here: the provider cannot be reached since 2026-01-01T00:00:00Z: no answer" in rest
    assert not rest.endswith(b"0\r\n\r\n")  # nobody takes a part for the whole
    writer.close()


async def test_a_session_ends_and_its_pod_is_told_when_the_provider_vanished(
    served: Served, provider: Provider
) -> None:
    reader, writer = await _upgrade(served, "/exec/team/web/main?command=sh&input=1")
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"HELLO"
    provider.link = DOWN
    async with asyncio.timeout(30):
        assert await reader.read() == b""
    writer.close()
    ((uid, why),) = provider.lost
    assert uid == "uid-1"
    assert "exec broke off: the provider cannot be reached" in why


async def test_a_stream_goes_on_when_bytes_still_come_or_the_link_comes_back() -> None:
    link = DOWN
    async with ended_with_link(lambda: link) as activity:
        for _ in range(10):
            await asyncio.sleep(0.1)
            activity.note()
        link = UP
        await asyncio.sleep(1.0)


async def test_the_block_is_cancelled_when_nothing_comes() -> None:
    with pytest.raises(ProviderUnavailable, match="no answer"):
        async with ended_with_link(lambda: DOWN):
            await asyncio.Event().wait()
