"""A `runyard` for shells whose every call is a fork of the process that has everything imported.

A shell script with a dozen calls then costs what one start of Python costs. `CommandShim` serves a Unix socket; the
program in its folder passes streams, arguments and environment on and leaves with the exit code of the fork.
"""

import json
import os
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from runyard.cli.main import main
from tests.core_process import COMMAND, open_forks

_PROGRAM = """\
#!{python} -IS
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
asked = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
socket.send_fds(connection, [len(asked).to_bytes(8, "big")], [0, 1, 2])
connection.sendall(asked)
sys.exit(int(connection.makefile().read() or 1))
"""


def call_main() -> int:
    """In a fork: run the command with new stream objects. Those of the fork server take a pipe for a seekable file."""
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(one, mode, closefd=False) for one, mode in enumerate(("r", "w", "w"))
    )
    return main()


class CommandShim:
    """Serves calls until it is closed. `folder` is to be the first one on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "socket"))
        self._listener.listen()
        self.write_program("runyard", _PROGRAM.format(python=sys.executable, address=str(folder / "socket")))
        threading.Thread(target=self._serve, daemon=True).start()

    def write_program(self, name: str, text: str) -> None:
        """Add another program."""
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def close(self) -> None:
        """Take no more calls."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            size, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
            with connection.makefile("rb") as stream:
                arguments, environment, folder = json.loads(stream.read(int.from_bytes(size, "big")))
            stdin, stdout, stderr = (
                os.fdopen(one, mode) for one, mode in zip(descriptors, ("rb", "wb", "wb"), strict=True)
            )
            with stdin, stdout, stderr:
                process = open_forks().start(
                    f"{__name__}:call_main",
                    [*COMMAND, *arguments],
                    environment=environment,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    folder=Path(folder),
                )
            connection.sendall(str(process.wait()).encode())
