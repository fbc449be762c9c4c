"""Tells the engines of a place that something happened to a run. Supervisors tell them in the same way."""

import errno
import os
import socket
from contextlib import suppress
from pathlib import Path

MOST_LISTENERS = 100
"""How many engines of one place are told."""


def tell_listeners(listeners: Path, folder: Path, *, but: str | None = None) -> None:
    """Send the path of a run's folder to every engine that listens, but for one socket; one that is gone is forgotten.

    Never waits.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
        # The address of a socket has at most 107 bytes; a path through a descriptor is short whatever the folder.
        descriptor = os.open(listeners, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in sorted(os.listdir(descriptor))[:MOST_LISTENERS]:
                if name != but:
                    _tell(sender, f"/proc/self/fd/{descriptor}/{name}", folder)
        finally:
            os.close(descriptor)


def _tell(sender: socket.socket, address: str, folder: Path) -> None:
    try:
        sender.sendto(os.fsencode(folder), address)
    except OSError as error:
        # A full queue is no loss: whoever has not read it all looks at everything.
        if error.errno == errno.ECONNREFUSED:
            with suppress(OSError):
                os.unlink(address)
