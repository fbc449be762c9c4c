"""Implements `runyard port-forward`."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import click

from runyard.cli.client_session import open_session
from runyard.cli.log_output import INTERRUPTED
from runyard.cli.output import clean, print_note
from runyard.sdk.errors import RunyardError, ServerFailed, ServerUnreachable, TooManyRequests
from runyard.sdk.sync.run import Run

Flags = Mapping[str, Any]
LOOK_SECONDS = 5.0
"""How often the run is looked at: nobody else tells that it has ended."""
Problems = SimpleQueue[tuple[int, RunyardError]]


class Ports(NamedTuple):
    """A port of this machine, 0 for any free one, and the port of the run that it leads to."""

    local: int
    remote: int


def forward_ports(flags: Flags, given: str, wanted: Sequence[Ports], *, address: str, pod: str | None) -> None:
    """Forward ports until Ctrl-C, or until the run has ended."""
    problems: Problems = SimpleQueue()
    with open_session(flags) as session, ExitStack() as stack:
        run = session.get_run(given)
        if run.state != "RUNNING":
            raise click.ClickException(f"run {run.id} is {run.describe()}; only a RUNNING run has ports")
        for ports in wanted:
            _open(stack, run, ports, address=address, pod=pod, problems=problems)
        print_note("Ctrl-C ends it")
        try:
            _watch(run, problems)
        except KeyboardInterrupt:  # the way to end it, which needs no words
            raise click.exceptions.Exit(INTERRUPTED) from None


def _open(stack: ExitStack, run: Run, ports: Ports, *, address: str, pod: str | None, problems: Problems) -> None:
    def note(error: RunyardError) -> None:
        problems.put((ports.remote, error))

    opening = run.port_forward(ports.remote, local_port=ports.local, host=address, pod=pod, on_problem=note)
    forward = stack.enter_context(opening)
    host = f"[{forward.host}]" if ":" in forward.host else forward.host
    click.echo(f"{host}:{forward.port} -> port {ports.remote} of run {run.id}")


def _watch(run: Run, problems: Problems) -> None:
    """Report connections that failed. Raises `ClickException` once the run does not run anymore."""
    while True:
        try:
            port, error = problems.get(timeout=LOOK_SECONDS)
            print_note(f"port {port}: a connection failed: {clean(str(error))}")
        except Empty:
            pass
        try:
            run.refresh()
        except (ServerUnreachable, ServerFailed, TooManyRequests):  # a new connection would say so
            continue
        if run.has_ended:
            raise click.ClickException(f"run {run.id} has ended: {run.describe()}")
