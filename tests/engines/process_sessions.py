"""Programs of `InteractiveEngine` that execute commands as processes of this machine, at a real terminal if asked."""

import asyncio
import fcntl
import os
import pty
import shutil
import struct
import termios
from collections.abc import Sequence
from contextlib import suppress

from runyard.app.engine import ChannelId
from tests.engines.interactive import Container


async def execute(container: Container) -> None:
    """Execute the command of the session, as a container's runtime does."""
    program = container.session.command[0]
    if shutil.which(program) is None:
        await container.fail_with_status(f"{program}: No such file or directory")
    elif container.session.is_tty:
        await _execute_at_terminal(container)
    else:
        await _execute_with_pipes(container)


async def connect(container: Container) -> None:
    """Connect to a port of this machine."""
    assert container.port is not None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", container.port)
    except OSError:
        await container.fail_with_status(f"dial tcp4 127.0.0.1:{container.port}: connection refused")
        return
    sending = asyncio.ensure_future(_copy_input(container, writer))
    try:
        while data := await reader.read(1 << 16):
            await container.write(data, channel=ChannelId.STDIN)
        await container.leave()
    finally:
        sending.cancel()
        writer.close()


async def _execute_with_pipes(container: Container) -> None:
    process = await _start(container.session.command, has_stdin=container.session.has_stdin)
    sending = asyncio.ensure_future(_copy_input(container, process.stdin))
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        await asyncio.gather(
            _copy_output(container, process.stdout, ChannelId.STDOUT),
            _copy_output(container, process.stderr, ChannelId.STDERR),
        )
        await container.exit(_to_exit_code(await process.wait()))
    finally:
        sending.cancel()
        if process.returncode is None:
            process.kill()
            # asyncio waits for the end of the pipes, which it does not read while their buffers are full.
            await asyncio.gather(process.stdout.read(), process.stderr.read())
            await process.wait()


async def _start(command: Sequence[str], *, has_stdin: bool) -> asyncio.subprocess.Process:
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        *command, stdin=pipe if has_stdin else nothing, stdout=pipe, stderr=pipe, start_new_session=True
    )


async def _copy_output(container: Container, reader: asyncio.StreamReader, channel: ChannelId) -> None:
    while data := await reader.read(1 << 16):
        await container.write(data, channel=channel)


async def _copy_input(container: Container, writer: asyncio.StreamWriter | None) -> None:
    while (content := await container.read()) is not None:
        if writer is not None:
            writer.write(content)
            with suppress(ConnectionError):
                await writer.drain()
    if writer is not None:
        writer.close()


async def _execute_at_terminal(container: Container) -> None:
    leader, follower = pty.openpty()
    words = ["setsid", "--ctty", *container.session.command]
    process = await asyncio.create_subprocess_exec(*words, stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    tasks = [
        asyncio.ensure_future(_copy_keys(container, leader)),
        asyncio.ensure_future(_copy_sizes(container, leader)),
    ]
    try:
        while data := await asyncio.to_thread(_read_screen, leader):
            await container.write(data)
        await container.exit(_to_exit_code(await process.wait()))
    finally:
        for task in tasks:
            task.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(leader)


def _read_screen(leader: int) -> bytes:
    try:
        return os.read(leader, 1 << 16)
    except OSError:  # the last process at the terminal has ended
        return b""


async def _copy_keys(container: Container, leader: int) -> None:
    while (content := await container.read()) is not None:
        os.write(leader, content)


async def _copy_sizes(container: Container, leader: int) -> None:
    """Give the terminal its size, as often as the client tells it."""
    while True:
        size = await container.read_size()
        fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))


def _to_exit_code(returned: int) -> int:
    """As a shell says it."""
    return returned if returned >= 0 else 128 - returned
