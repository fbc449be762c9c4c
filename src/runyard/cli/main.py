"""The `runyard` command: the table of subcommands, and how errors become exit codes.

`EXIT_CODES` lists the exit codes.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from runyard import __version__
from runyard.cli.command_errors import print_error, show_error
from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.questions import add_no_input

INTERRUPTED = 130
PIPE_CLOSED = 141
EXIT_CODES = {
    0: "success",
    1: "refused or failed: the reason is on standard error",
    2: "usage error: unknown command or option, wrong value, unreadable file, wrong settings",
    3: "the run failed",
    4: "the time to wait is over",
    INTERRUPTED: "interrupted by Ctrl-C, or a question was answered with no",
    PIPE_CLOSED: "the reader of standard output went away",
}
"""What each exit code means. The reference (docs/users/cli.md) is generated from it."""

COMMANDS = {
    "login": Entry("runyard.cli.commands.access:login", "Sign in at a server."),
    "logout": Entry("runyard.cli.commands.access:logout", "Sign out, and revoke the token of the sign-in."),
    "whoami": Entry("runyard.cli.commands.access:whoami", "Show who you are at the server."),
    "doctor": Entry("runyard.cli.commands.doctor:doctor", "Check the way to the server and the server."),
    "context": Entry("runyard.cli.commands.access:context", "List the servers you signed in at, or choose one."),
    "run": Entry("runyard.cli.commands.run:run", "Plan, submit and follow a run."),
    "ps": Entry("runyard.cli.commands.runs:ps", "List runs."),
    "logs": Entry("runyard.cli.commands.runs:logs", "Print or follow the log of a run."),
    "stop": Entry("runyard.cli.commands.runs:stop", "Stop runs."),
    "init": Entry("runyard.cli.commands.init:init", "Write a run file that works."),
    "describe": Entry("runyard.cli.commands.run_inspection:describe", "Show a run and who decided its values."),
    "events": Entry("runyard.cli.commands.run_inspection:events", "List the transitions of a run."),
    "why": Entry("runyard.cli.commands.run_inspection:why", "Say why a run is in its state."),
    "wait": Entry("runyard.cli.commands.run_inspection:wait", "Wait for a run."),
    "resume": Entry("runyard.cli.commands.run_inspection:resume", "Resume stopped services."),
    "rm": Entry("runyard.cli.commands.run_inspection:rm", "Delete runs."),
    "exec": Entry("runyard.cli.commands.live:execute", "Execute a command in a run."),
    "attach": Entry("runyard.cli.commands.live:attach", "Print what a run prints from now on."),
    "port-forward": Entry("runyard.cli.commands.live:port_forward", "Forward ports of this machine to a run."),
    "top": Entry("runyard.cli.commands.live:top", "Show what runs use now."),
    "project": Entry("runyard.cli.commands.project_things:project", "List, create and delete projects."),
    "function": Entry("runyard.cli.commands.project_things:function", "Look at functions."),
    "secret": Entry("runyard.cli.commands.project_things:secret", "Manage secrets."),
    "config-map": Entry("runyard.cli.commands.config_map:config_map", "Manage config maps."),
    "volume": Entry("runyard.cli.commands.volume:volume", "Manage volumes that outlive runs."),
    "artifact": Entry("runyard.cli.commands.artifact:artifact", "Upload and download files."),
    "profile": Entry("runyard.cli.commands.profile:profile", "Look at profiles, check and change them."),
    "render": Entry("runyard.cli.commands.render:render", "Print the Kubernetes objects of a run."),
    "explain": Entry("runyard.cli.commands.explain:explain", "Show every value of a run and who set it."),
    "token": Entry("runyard.cli.commands.token:token", "Manage your personal access tokens."),
    "audit": Entry("runyard.cli.commands.audit:audit", "Show who did what."),
    "policy": Entry("runyard.cli.commands.policy:policy", "Show, check, rehearse and change the policy."),
    "schema": Entry("runyard.cli.commands.schema:schema", "Print the JSON Schema of a document."),
    "server": Entry("runyard.cli.commands.server:server", "Start the API server."),
    "node": Entry("runyard.cli.commands.node:node", "Join a cluster as a virtual node of remote GPUs."),
    "db": Entry("runyard.cli.commands.db:db", "Upgrade, back up, restore, export and prune the database."),
    "user": Entry("runyard.cli.commands.user:user", "Manage accounts and personal access tokens."),
    "keys": Entry("runyard.cli.commands.keys:keys", "Rotate the key that encrypts secrets."),
    "completion": Entry("runyard.cli.commands.completion:completion", "Print a shell completion script."),
}


class Root(LazyGroup):
    """The group of all commands."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; exit with 141 on a broken pipe, because 1 means refused."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _silence_output()
            ctx.exit(PIPE_CLOSED)


@click.group(
    cls=Root,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Use `runyard COMMAND --help` for the options of a command, with examples.",
)
@click.version_option(__version__, "-V", "--version", prog_name="runyard", message="%(prog)s %(version)s")
@add_no_input
def root() -> None:
    """Run AI tasks, batch jobs and model serving, with exactly the resources they need."""


def main() -> int:
    """The console script: run one command line and return its exit code."""
    occupy_closed_streams()
    if sys.stdout is None:
        print_error("standard output is closed")
        return 1
    for stream in (sys.stdout, sys.stderr):
        # Escape characters that the terminal's encoding lacks, instead of failing on them.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # the real streams have it
    return run(sys.argv[1:])


def occupy_closed_streams() -> None:
    """Open /dev/null on those of the descriptors 0 to 2 that are closed, so that no file gets their number.

    Otherwise a message to standard error could be written into the next file that is opened, such as the database.
    Python sets the stream of a closed descriptor to None. Standard input and output stay None, which is reported;
    standard error is replaced, because there is nowhere to report it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Reports errors, and bugs in one line, without a traceback."""
    try:
        ended = root.main(args=list(arguments), prog_name="runyard", standalone_mode=False)
    except click.ClickException as error:
        show_error(error)
        return error.exit_code
    except click.Abort:
        if sys.stderr.isatty():
            click.echo(err=True)  # the question's line has no end yet
        return INTERRUPTED
    except OSError as error:
        print_error(error.strerror or str(error))
        return 1
    except Exception as error:  # noqa: BLE001 - the last line before the user; a traceback helps nobody there
        click.echo(_describe_bug(error), err=True)
        return 1
    return ended if isinstance(ended, int) else 0


def _silence_output() -> None:
    """Redirect standard output to /dev/null, so that the interpreter's final flush cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _describe_bug(error: Exception) -> str:
    frame = load("traceback:extract_tb")(error.__traceback__)[-1]
    where = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
    return (
        f"internal error: {type(error).__name__} in {where}: {str(error)[:200]}\n"
        "This is a bug in Runyard, not in your files. Please report it with the command and the files."
    )
