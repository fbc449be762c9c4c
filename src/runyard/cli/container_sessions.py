"""Implements `runyard exec` and `attach`: bytes pass between the terminal and a container as they are."""

import os
import select
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import Thread
from typing import Any

import click

from runyard.cli.client_session import open_session
from runyard.cli.files import get_stdin
from runyard.cli.log_output import INTERRUPTED, keep_running
from runyard.cli.output import print_note
from runyard.cli.terminals import drain, raw_mode, watch_size
from runyard.sdk.errors import RunyardError
from runyard.sdk.sessions.blocking import Session

Flags = Mapping[str, Any]
STDIN, STDOUT, STDERR = 0, 1, 2
READ_BYTES = 32 << 10
JOIN_SECONDS = 5.0


def execute(
    flags: Flags, given: str, command: Sequence[str], *, stdin: bool, tty: bool, container: str | None, pod: str | None
) -> None:
    """Execute a command in a container, with its exit code as ours."""
    if tty and not get_stdin().isatty():
        raise click.UsageError("-t needs a terminal on standard input; leave it out for a pipe or a file")
    with open_session(flags) as session:
        run = session.get_run(given)
        opening = run.open_exec(command, stdin=stdin, tty=tty, container=container, pod=pod)
        try:
            code = _converse(opening, stdin=stdin, tty=tty)
        except KeyboardInterrupt:
            click.echo(err=True)
            print_note("the command was left; it may go on in the container")
            raise click.exceptions.Exit(INTERRUPTED) from None
    raise click.exceptions.Exit(code)


def attach(flags: Flags, given: str | None, *, container: str | None, pod: str | None) -> None:
    """Print what the main process of a container prints from now on."""
    with open_session(flags) as session:
        run = session.get_run(given)
        with keep_running(run):
            _converse(run.open_attach(container=container, pod=pod), stdin=False, tty=False)


def _converse(opening: AbstractContextManager[Session], *, stdin: bool, tty: bool) -> int:
    """Hold a session to its end; returns the command's exit code. The terminal is as it was before in any case."""
    with ExitStack() as stack:
        resized = stack.enter_context(watch_size()) if tty else None
        stopped = stack.enter_context(_open_pipe())
        thread: Thread | None = None
        try:
            with opening as session, raw_mode(STDIN) if stdin and tty else ExitStack():
                if tty:
                    session.resize(*os.get_terminal_size(STDIN))
                if stdin or tty:
                    arguments = (session, STDIN if stdin else None, resized, stopped[0])
                    thread = Thread(target=_send_input, args=arguments, name="runyard-input", daemon=True)
                    thread.start()
                try:
                    for output in session:
                        _write(STDOUT if output.stream == "stdout" else STDERR, output.content)
                finally:
                    os.write(stopped[1], b"\0")
        finally:
            # Only now: it may have waited for a command that does not read, and the session is closed.
            if thread is not None:
                thread.join(JOIN_SECONDS)
        return session.exit_code or 0


def _send_input(session: Session, stdin: int | None, resized: int | None, stopped: int) -> None:
    """Send keys, or what a pipe brings, and the size of the terminal, until told to stop."""
    waiting = [each for each in (stopped, resized, stdin) if each is not None]
    try:
        while True:
            ready, _, _ = select.select(waiting, [], [])
            if stopped in ready:
                return
            if resized is not None and resized in ready:
                drain(resized)
                session.resize(*os.get_terminal_size(STDIN))
            if stdin is not None and stdin in ready:
                if content := os.read(stdin, READ_BYTES):
                    session.send(content)
                else:
                    waiting.remove(stdin)
                    session.close_input()
    except (RunyardError, OSError):  # the session has ended, which its reader reports; or the terminal is gone
        return


def _write(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


@contextmanager
def _open_pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        os.close(reading)
        os.close(writing)
