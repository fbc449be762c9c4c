"""A command in a container from start to end: its exit code and what it wrote."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Sequence
from dataclasses import dataclass

from runyard.kube.client import Client
from runyard.kube.errors import DeadlineExceeded, Disconnected
from runyard.kube.streams.errors import HalfCloseUnsupported, OutputTooLarge
from runyard.kube.streams.exec import ExecSession, exec_in_pod


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended, and all it wrote. A non-zero exit code is an answer, not an error."""

    exit_code: int
    stdout: bytes
    stderr: bytes


async def run_command(
    client: Client,
    pod: str,
    command: Sequence[str],
    *,
    namespace: str,
    container: str | None = None,
    stdin: bytes | AsyncIterable[bytes] | None = None,
    deadline_seconds: float = 30.0,
    max_output_bytes: int = 16 << 20,
) -> ExecResult:
    """Run a command to its end within `deadline_seconds`; not idempotent, and never repeated.

    More than `max_output_bytes` on both outputs together is OutputTooLarge. After that, and after the deadline, the
    command may still run: Kubernetes has no way to end it.
    With `stdin`, exit code 0 may mean that the node died (see `exec`): where it matters, let the command print a last
    word. And a command that ends without reading all of a large stdin may be Disconnected instead of its exit code:
    the server resets the connection, sometimes before its answer was read.
    """
    try:
        async with asyncio.timeout(deadline_seconds) as timer:
            async with exec_in_pod(
                client,
                pod,
                command,
                namespace=namespace,
                container=container,
                stdin=stdin is not None,
                deadline_seconds=deadline_seconds,
            ) as session:
                if stdin is None:
                    return await _collect(session, max_output_bytes)
                return await _converse(session, stdin, max_output_bytes)
    except TimeoutError as error:
        if not timer.expired():
            raise
        raise DeadlineExceeded(f"the command did not end within {deadline_seconds:g} s") from error


async def _converse(session: ExecSession, stdin: bytes | AsyncIterable[bytes], max_output_bytes: int) -> ExecResult:
    """Write stdin and read output concurrently: a command may block until its output is read, or end early."""
    if not session.can_close_stdin:
        raise HalfCloseUnsupported("the server speaks only v4.channel.k8s.io: the command would wait for more stdin")
    try:
        async with asyncio.TaskGroup() as group:
            feeding = group.create_task(_feed(session, stdin))
            result = await _collect(session, max_output_bytes)
            feeding.cancel()
    except BaseExceptionGroup as failures:
        # Raise the first failure; the later ones are consequences.
        first = failures.exceptions[0]
        raise first from first.__cause__
    return result


async def _feed(session: ExecSession, stdin: bytes | AsyncIterable[bytes]) -> None:
    if isinstance(stdin, bytes):
        if not await _was_sent(session.write(stdin)):
            return
    else:
        async for data in stdin:
            if not await _was_sent(session.write(data)):
                return
    await _was_sent(session.close_stdin())


async def _was_sent(sending: Awaitable[None]) -> bool:
    """Write stdin; False when the connection is gone because the command ended without reading all."""
    try:
        await sending
    except Disconnected:
        return False
    return True


async def _collect(session: ExecSession, max_output_bytes: int) -> ExecResult:
    collected = {"stdout": bytearray(), "stderr": bytearray()}
    total_bytes = 0
    async for output in session:
        total_bytes += len(output.data)
        if total_bytes > max_output_bytes:
            raise OutputTooLarge(f"the command wrote more than {max_output_bytes} bytes")
        collected[output.stream] += output.data
    return ExecResult(session.exit_code, bytes(collected["stdout"]), bytes(collected["stderr"]))
