"""The file in which a command leaves a message. It belongs to the command: nothing about it is trusted."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LARGEST_TERMINATION_BYTES = 4096
"""How much of the file is read, from its end."""


def make_termination_file(path: str, identity: dict[str, Any] | None) -> None:
    """Make an empty file in place of what is there, writable by the command. Raises OSError."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if identity is not None and os.geteuid() == 0:
            os.fchown(descriptor, identity["uid"], identity["gid"])
    finally:
        os.close(descriptor)


def read_termination_file(path: str, identity: dict[str, Any] | None) -> str | None:
    """Return the message; None if there is none, or if the file is not a plain one of the command's user."""
    owner = os.geteuid() if identity is None else identity["uid"]
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        # A link to a file of somebody else would be read with the supervisor's rights.
        if not stat.S_ISREG(status.st_mode) or status.st_uid != owner or status.st_nlink != 1:
            return None
        offset = max(0, status.st_size - LARGEST_TERMINATION_BYTES)
        content = os.pread(descriptor, LARGEST_TERMINATION_BYTES, offset)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return content.decode(errors="replace").strip() or None
