"""A gate between a program and an apiserver: closed, nobody gets through. The cluster itself is not disturbed."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from runyard.kube import ClusterConfig
from testbed.cluster import Cluster


class ApiGate:
    """A TCP relay to an apiserver on a port of the loopback address; closed, nobody gets through."""

    def __init__(self, server: str) -> None:
        target = urlsplit(server)
        self._host, self._port = target.hostname or "", target.port or 443
        self._server: asyncio.Server | None = None
        self._relays: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await asyncio.sleep(0)  # relays of connections that were accepted a moment ago begin
        self.drop()
        while self._relays:
            await asyncio.wait(self._relays, timeout=1)
            self.drop()

    def drop(self) -> None:
        """End every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    def configure(self, config: ClusterConfig) -> ClusterConfig:
        """The cluster as it is reached through the gate."""
        return replace(config, server=f"https://127.0.0.1:{self.port}", tls_server_name=self._host)

    def write_kubeconfig(self, cluster: Cluster, path: Path) -> Path:
        """The admin's kubeconfig of the cluster, through the gate."""
        text = cluster.kubeconfig.read_text()
        address = f"https://127.0.0.1:{self.port}"
        document = yaml.safe_load(text)
        for entry in document["clusters"]:
            entry["cluster"] |= {"server": address, "tls-server-name": self._host}
        path.write_text(yaml.safe_dump(document))
        return path

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        opened = [writer]
        self._writers.add(writer)
        try:
            with suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
                opened.append(far_writer)
                self._writers.add(far_writer)
                await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:
            for each in opened:
                self._writers.discard(each)
                each.close()
                with suppress(OSError):
                    await each.wait_closed()
            self._relays.discard(task)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while content := await reader.read(1 << 16):
            writer.write(content)
            await writer.drain()
    writer.close()
