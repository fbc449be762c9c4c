"""The root of the `runyard` command: the table of commands, and how a call ends.

Exit codes: 0 done, 1 refused, 2 wrong use; 130 interrupted, 141 the reader of our output went away.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from runyard import __version__
from runyard.cli.lazy_commands import Entry, LazyGroup, load

INTERRUPTED = 130
PIPE_CLOSED = 141

COMMANDS = {
    "render": Entry("runyard.cli.commands.render:render", "Print the Kubernetes objects that a run becomes."),
    "explain": Entry("runyard.cli.commands.explain:explain", "Show every value of a run, and who decided it."),
    "policy": Entry("runyard.cli.commands.policy:policy", "Check a policy; rehearse a new one."),
    "schema": Entry("runyard.cli.commands.schema:schema", "Print the JSON Schema of a kind of file."),
    "server": Entry("runyard.cli.commands.server:server", "Serve the API."),
    "db": Entry("runyard.cli.commands.db:db", "Look after the database, and back it up."),
    "user": Entry("runyard.cli.commands.user:user", "Accounts of those who may sign in."),
    "keys": Entry("runyard.cli.commands.keys:keys", "The key that secrets are sealed with."),
    "completion": Entry("runyard.cli.commands.completion:completion", "Print the completion script of a shell."),
}


class Root(LazyGroup):
    """The group of all commands."""

    def invoke(self, ctx: click.Context) -> Any:
        """As click does, but that a closed pipe has an exit code of its own: 1 would say «refused»."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _silence_output()
            ctx.exit(PIPE_CLOSED)


@click.group(
    cls=Root,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`runyard COMMAND --help` explains a command, with examples.",
)
@click.version_option(__version__, "-V", "--version", prog_name="runyard", message="%(prog)s %(version)s")
def root() -> None:
    """Run AI tasks on Kubernetes with exactly the resources they need."""


def main() -> int:
    """The console script: run one command line, and say how it ended."""
    for stream in (sys.stdout, sys.stderr):
        # What a terminal cannot show is shown escaped; an answer is never lost to an encoding.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # the real streams have it
    return run(sys.argv[1:])


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code. Never raises for what the user wrote, and tells a bug in one line."""
    try:
        ended = root.main(args=list(arguments), prog_name="runyard", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except OSError as error:
        click.echo(f"error: {error.strerror or error}", err=True)
        return 1
    except Exception as error:  # noqa: BLE001 - the last line before the user; a traceback helps nobody there
        click.echo(_describe_bug(error), err=True)
        return 1
    return ended if isinstance(ended, int) else 0


def _silence_output() -> None:
    """Let the interpreter's own flush at its end go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _describe_bug(error: Exception) -> str:
    frame = load("traceback:extract_tb")(error.__traceback__)[-1]
    where = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
    return (
        f"internal error: {type(error).__name__} in {where}: {str(error)[:200]}\n"
        "This is a bug in Runyard and not in your files. Please report it, with the command and the files."
    )
