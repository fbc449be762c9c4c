"""Runs the programs that act on a container: stop, inspect, cleanup."""

from __future__ import annotations

import os

from runyard.procs.supervisor.light import signal
from runyard.procs.supervisor.process_tree import find_start_time, send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from runyard.procs.supervisor.poll_loop import PollLoop

LONGEST_HOOK_SECONDS = 120.0
"""How long a hook may take, except for the one that stops a container: that may take the grace of the stop."""
LARGEST_HOOK_OUTPUT_BYTES = 65536
"""How much of a hook's output is kept; the rest is read and dropped."""


def run_hook(
    loop: PollLoop,
    argv: list[str],
    env: dict[str, str],
    *,
    seconds: float | None = LONGEST_HOOK_SECONDS,
    is_over: Callable[[], bool] = lambda: False,
) -> bytes:
    """Run a hook and return what it printed. It is killed after this time, or when `is_over`.

    A hook that cannot be started prints nothing.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        pid = os.posix_spawnp(
            argv[0],
            argv,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, each, number) for number, each in enumerate((null, writer, null))],
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    except OSError:
        os.close(reader)
        return b""
    finally:
        os.close(writer)
        os.close(null)
    return _read_until_end(loop, reader, pid, seconds=seconds, is_over=is_over)


def _read_until_end(
    loop: PollLoop, reader: int, pid: int, *, seconds: float | None, is_over: Callable[[], bool]
) -> bytes:
    start_time = find_start_time(pid)
    chunks: list[bytes] = []
    is_open = [True]
    os.set_blocking(reader, False)

    def read() -> None:
        content = os.read(reader, LARGEST_HOOK_OUTPUT_BYTES)
        if not content:
            is_open[0] = False
        elif sum(map(len, chunks)) < LARGEST_HOOK_OUTPUT_BYTES:
            chunks.append(content)

    loop.add(reader, read)
    loop.run_until(lambda: not is_open[0] or is_over(), seconds=seconds)
    if is_open[0]:
        send_signal(pid, signal.SIGKILL, start_time=start_time)
    loop.remove(reader)
    os.close(reader)
    return b"".join(chunks)[:LARGEST_HOOK_OUTPUT_BYTES]


def parse_inspection(content: bytes) -> dict[str, Any]:
    """Return the fields of an instance's record that the inspect hook knows better."""
    import json  # noqa: PLC0415  # only supervisors of containers pay for it

    try:
        answer = json.loads(content)
        fields = {
            "exit_code": answer.get("exit_code"),
            "signal": answer.get("signal"),
            "is_out_of_memory": bool(answer.get("oom")) or None,
            "peak_bytes": answer.get("peak_bytes"),
        }
    except (ValueError, AttributeError, RecursionError):
        return {}
    found = {name: value for name, value in fields.items() if isinstance(value, int)}
    if "signal" in found or "exit_code" in found:
        return {"exit_code": None, "signal": None, **found}
    return found
