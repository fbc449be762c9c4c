"""Connections that are cut or given up while they begin: no request may get at the descriptor of another connection."""

import asyncio
import random
import socket
import ssl
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.certificates import write_certificate

SECONDS = 6
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: on, for no time."""


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """With the path that was asked for; now and then the connection ends before or after."""
    with suppress(OSError, asyncio.IncompleteReadError):
        while True:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
            if random.random() < 0.2:
                writer.transport.abort()
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(path), path))
            await writer.drain()
            if random.random() < 0.7:
                writer.close()
                return


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
    finally:
        writer.close()


@asynccontextmanager
async def serving(context: ssl.SSLContext) -> AsyncIterator[int]:
    """A port that resets every other connection before TLS, at once or a moment later."""
    inner = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context, backlog=500)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if random.random() < 0.5:
            if random.random() < 0.5:
                await asyncio.sleep(random.random() * 0.003)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()
            return
        with suppress(OSError):
            other = await asyncio.open_connection(*inner.sockets[0].getsockname())
            await asyncio.gather(copy(reader, other[1]), copy(other[0], writer), return_exceptions=True)

    outer = await asyncio.start_server(relay, "127.0.0.1", 0, backlog=500)
    try:
        yield outer.sockets[0].getsockname()[1]
    finally:
        outer.close()
        inner.close()


async def test_the_process_lives_and_answers_are_right_when_connections_are_cancelled_as_they_begin(
    tmp_path: Path,
) -> None:
    write_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the resets
    async with serving(context) as port:
        arguments = (f"https://127.0.0.1:{port}", str(tmp_path / "cert.pem"), str(SECONDS))
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.kube.hasty_client", *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(120):
            output, errors = await client.communicate()
    assert client.returncode == 0, errors.decode()[-2000:]
    assert int(output) > 0
