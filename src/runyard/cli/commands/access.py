"""`runyard login`, `logout`, `whoami` and `context`."""

from typing import Any

import click

from runyard.cli.completed_names import complete
from runyard.cli.lazy_commands import load
from runyard.cli.listings import add_listing
from runyard.cli.server_options import add_output, add_server_options

LOGIN_EXAMPLES = """\b
Examples:
  runyard login http://localhost:8080
  runyard login https://runyard.example.org --user ada
  runyard login https://runyard.example.org --token --name lab
  pass show runyard/ada | runyard login https://runyard.example.org --user ada --stdin

\b
Exit codes:
  0 signed in    1 refused    2 usage error
"""
LOGOUT_EXAMPLES = """\b
Examples:
  runyard logout
  runyard logout lab

\b
Exit codes:
  0 signed out    1 refused, such as an unknown context    2 usage error
"""
WHOAMI_EXAMPLES = """\b
Examples:
  runyard whoami
  runyard whoami --context lab -o json

\b
Exit codes:
  0 printed    1 refused, or no answer    2 usage error
"""
CONTEXT_EXAMPLES = """\b
Examples:
  runyard context
  runyard context lab

\b
Exit codes:
  0 success    1 unknown context    2 usage error
"""


@click.command(epilog=LOGIN_EXAMPLES)
@click.argument("endpoint", required=False)
@click.option("--name", metavar="NAME", help="Name of the context.  [default: the host's]")
@click.option("-u", "--user", metavar="NAME", help="Account, to sign in by password.")
@click.option("--token", "is_token", is_flag=True, help="Sign in with a personal access token instead.")
@click.option("--stdin", "is_piped", is_flag=True, help="Read the password or token from standard input.")
@click.option("-p", "--project", metavar="NAME", help="Project of commands that name none.")
def login(**given: Any) -> None:
    """Sign in at the server ENDPOINT, and store the credentials as a context.

    A password is exchanged for a personal access token of 90 days and is not stored. The file of contexts can be read
    by its owner alone (mode 0600): ~/.config/runyard/contexts.json, or the path in RUNYARD_CONTEXTS.

    Without a context, commands use RUNYARD_ENDPOINT and RUNYARD_TOKEN, DigitalHub's DHCORE_* variables, or its
    ~/.dhcore.ini.
    """
    load("runyard.cli.sign_in:login")(**given)


@click.command(epilog=LOGOUT_EXAMPLES)
@click.argument("name", required=False, shell_complete=complete("context"))
def logout(name: str | None) -> None:
    """Remove the context NAME, or the current one, and revoke the token that `runyard login` created."""
    load("runyard.cli.sign_in:logout")(name)


@click.command(epilog=WHOAMI_EXAMPLES)
@add_output("text", "json", "yaml")
@add_server_options
def whoami(output: str, **flags: Any) -> None:
    """Show who you are at the server, and where the credentials come from."""
    load("runyard.cli.sign_in:print_user")(flags, output=output)


@click.command(epilog=CONTEXT_EXAMPLES)
@click.argument("name", required=False, shell_complete=complete("context"))
@add_listing("current", "name", "endpoint", "user", "project")
def context(name: str | None, listing: Any) -> None:
    """List the contexts, or make NAME the current one."""
    if name is None:
        load("runyard.cli.sign_in:print_contexts")(listing=listing)
    else:
        load("runyard.cli.sign_in:use_context")(name)
