"""What is said in a session: calls that open one, and messages as in Kubernetes' `v5.channel.k8s.io`. Pure.

The first byte of a message is its channel.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from runyard.sdk.calls import Call, get
from runyard.sdk.errors import ArgumentError, RunyardError, SessionFailed

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
OUTPUTS: dict[int, Literal["stdout", "stderr"]] = {STDOUT: "stdout", STDERR: "stderr"}
SUBPROTOCOL = "v5.channel.k8s.io"
END_OF_INPUT = bytes([CLOSE, STDIN])
PIECE_BYTES = 32 << 10
"""Input is sent in messages of this size; the server takes up to 256 KiB."""
OnProblem = Callable[[RunyardError], None]
"""Called when a connection could not be forwarded, or broke."""


class Output(NamedTuple):
    """What a command printed; a terminal has only `stdout`."""

    stream: Literal["stdout", "stderr"]
    content: bytes


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended, and what it printed."""

    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """Its standard output as text."""
        return self.stdout.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class PortForward:
    """Where a forwarded port is on this machine."""

    host: str
    port: int


def make_exec_call(
    path: Sequence[str], command: Sequence[str], *, stdin: bool, tty: bool, container: str | None, pod: str | None
) -> Call:
    """The call that executes a command. Raises `ArgumentError`."""
    if isinstance(command, str):
        raise ArgumentError('command is a list, and no shell reads it: ["sh", "-c", "…"] starts one')
    if not command or not all(isinstance(part, str) for part in command):
        raise ArgumentError("command is a list of texts: the program, then its arguments")
    return get(*path, "exec", **_select(stdin=stdin, tty=tty, container=container, pod=pod), command=tuple(command))


def make_attach_call(path: Sequence[str], *, stdin: bool, tty: bool, container: str | None, pod: str | None) -> Call:
    """The call that attaches to the main process of a container."""
    return get(*path, "attach", **_select(stdin=stdin, tty=tty, container=container, pod=pod))


def make_port_call(path: Sequence[str], port: int, *, pod: str | None) -> Call:
    """The call that connects to a port. Raises `ArgumentError`."""
    if not 1 <= port <= 65535:
        raise ArgumentError(f"port {port} is not a TCP port; allowed: 1 to 65535")
    return get(*path, "portforward", port=port, pod=pod)


def iter_messages(channel: int, content: bytes) -> Iterator[bytes]:
    """The messages that carry some bytes."""
    for start in range(0, len(content), PIECE_BYTES):
        yield bytes([channel]) + content[start : start + PIECE_BYTES]


def make_resize(columns: int, rows: int) -> bytes:
    """The message with the size of the terminal."""
    return bytes([RESIZE]) + json.dumps({"Width": max(1, columns), "Height": max(1, rows)}).encode()


def read_status(content: bytes) -> int:
    """The exit code in the last message of a session. Raises `SessionFailed` if the command was not executed."""
    try:
        status = json.loads(content)
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):
        raise SessionFailed("the session ended without a status that can be read")
    if status.get("status") == "Success":
        return 0
    code = next((found for found in map(_find_exit_code, _list_causes(status)) if found is not None), None)
    if code is None:
        raise SessionFailed(str(status.get("message") or "the session failed")[:2000])
    return code


def _list_causes(status: dict[str, Any]) -> list[Any]:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return causes[:100] if isinstance(causes, list) else []


def _find_exit_code(cause: Any) -> int | None:
    is_code = isinstance(cause, dict) and cause.get("reason") == "ExitCode"
    text = str(cause.get("message", "")) if is_code else ""
    return int(text) if text.isdecimal() and len(text) <= 10 else None


def _select(*, stdin: bool, tty: bool, container: str | None, pod: str | None) -> dict[str, str | None]:
    flags = {"stdin": "true" if stdin else None, "tty": "true" if tty else None}
    return {**flags, "container": container, "pod": pod}
