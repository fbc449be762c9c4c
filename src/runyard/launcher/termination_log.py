"""The termination log: one line of JSON from which the engine takes the run's message and peak memory."""

import json
import sys
from pathlib import Path

LARGEST_TERMINATION_BYTES = 4096
"""Kubernetes keeps no more of the file."""


def write_termination(
    path: Path | None, *, message: str | None, peak_bytes: int | None, step: str | None = None
) -> None:
    """Write the line; a file that cannot be written is said in the log and changes nothing else."""
    if path is None:
        return
    try:
        # Never create a file in place of the one that the engine made: it may be a bind mount.
        with path.open("r+b" if path.exists() else "wb") as file:
            file.truncate(0)
            file.write(render_termination(message=message, peak_bytes=peak_bytes, step=step))
    except OSError as error:
        sys.stderr.write(f"runyard: the termination log cannot be written: {error.strerror or error}\n")


def render_termination(*, message: str | None, peak_bytes: int | None, step: str | None = None) -> bytes:
    """The line; the message is cut so that it fits, and absent if the run succeeded."""
    record: dict[str, object] = {"runyard": 1}
    if peak_bytes is not None:
        record["peak_bytes"] = peak_bytes
    if step is not None:
        record["step"] = step
    if message is None:
        return _encode(record)
    kept = min(len(message), LARGEST_TERMINATION_BYTES)
    while True:
        record["message"] = message if kept == len(message) else message[:kept] + "…"
        line = _encode(record)
        if len(line) <= LARGEST_TERMINATION_BYTES or kept == 0:
            return line
        # A character takes up to 12 bytes (an escaped surrogate pair).
        kept = max(0, min(kept - 1, kept - (len(line) - LARGEST_TERMINATION_BYTES) // 12))


def _encode(record: dict[str, object]) -> bytes:
    # ASCII escapes make unpaired surrogates of user text harmless.
    return json.dumps(record).encode("ascii") + b"\n"
