"""Ports of this machine that lead to ports of a pod."""

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from runyard.kube.client import Client
from runyard.kube.errors import Disconnected, KubeError
from runyard.kube.streams.portforward import PortConnection, forward_port

logger = logging.getLogger(__name__)

_READ_BYTES = 1 << 16
# A client that has ended its direction may wait for an answer, or may be gone: TCP does not tell. So it is waited for
# as long as bytes come, and this long without any.
_LINGER_SECONDS = 10.0


@asynccontextmanager
async def listen_and_forward(
    client: Client,
    pod: str,
    ports: Mapping[int, int],
    *,
    namespace: str,
    host: str = "127.0.0.1",
    on_error: Callable[[KubeError], None] | None = None,
) -> AsyncIterator[dict[int, int]]:
    """Listen on local ports, `{remote: local}`, and forward each connection to the pod on a stream of its own.

    Yields the ports in use in the same form: local port 0 takes a free one. A connection that fails is reset, so that
    no client takes a cut for an end, and is reported to `on_error` or else logged. Leaving the block ends them all.
    """
    connections: set[asyncio.Task[None]] = set()

    def accept(remote: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            forwarding = forward_port(client, pod, remote, namespace=namespace)
            task = asyncio.create_task(_serve(forwarding, reader, writer, on_error or _log))
            connections.add(task)
            task.add_done_callback(connections.discard)

        return accepted

    servers: dict[int, asyncio.Server] = {}
    try:
        for remote, local in ports.items():
            servers[remote] = await asyncio.start_server(accept(remote), host, local)
        yield {remote: server.sockets[0].getsockname()[1] for remote, server in servers.items()}
    finally:
        for server in servers.values():
            server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _serve(
    forwarding: AbstractAsyncContextManager[PortConnection],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    report: Callable[[KubeError], None],
) -> None:
    try:
        async with forwarding as connection:
            await _exchange(connection, reader, writer)
        writer.close()
    except KubeError as error:
        report(error)
    except OSError:
        pass  # The client is gone, or got no answer any more: there is nobody else to tell.
    finally:
        _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close, unless that was done, so that the client sees an error: without lingering the kernel resets."""
    if not writer.transport.is_closing():
        option = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
        writer.transport.abort()


async def _exchange(connection: PortConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy both ways until the pod's side ends; TimeoutError when a client that has ended gets no more answer."""
    clock = asyncio.get_running_loop().time
    async with asyncio.timeout(None) as linger:

        async def send_up() -> None:
            try:
                while data := await reader.read(_READ_BYTES):
                    await connection.write(data)
                linger.reschedule(clock() + _LINGER_SECONDS)
            except Disconnected:
                pass  # Reading from the connection tells why.
            except OSError:
                linger.reschedule(clock())

        sending = asyncio.create_task(send_up())
        try:
            while data := await connection.read():
                writer.write(data)
                await writer.drain()
                if linger.when() is not None:
                    linger.reschedule(clock() + _LINGER_SECONDS)
        finally:
            sending.cancel()


def _log(error: KubeError) -> None:
    logger.warning("a forwarded connection failed: %s", error)
