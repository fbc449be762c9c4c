"""`runyard user`."""

from typing import Any

import click

from runyard.cli.lazy import Entry, LazyGroup, load
from runyard.cli.setting_options import DATABASE, add_settings, require_server

ENTRIES = {
    "create": Entry("runyard.cli.commands.user:create", "Make an account."),
    "list": Entry("runyard.cli.commands.user:list_users", "All accounts."),
    "disable": Entry("runyard.cli.commands.user:disable", "Let somebody in no more."),
    "enable": Entry("runyard.cli.commands.user:enable", "Let somebody in again."),
    "delete": Entry("runyard.cli.commands.user:delete", "Delete an account."),
    "password": Entry("runyard.cli.commands.user:password", "Set a password."),
    "token": Entry("runyard.cli.commands.user:token", "Make a personal access token."),
}
EXAMPLES = """\b
Examples:
  runyard user create ada --admin
  pass show runyard/ada | runyard user create ada --admin --password-stdin
  runyard user token ada --name laptop --scope write --life 90d
  runyard user disable bob

\b
Exit codes:
  0 done    1 refused, and why    2 wrong use
"""
_STDIN = click.option("--password-stdin", is_flag=True, help="Read the password from standard input, not a prompt.")


@click.group(cls=LazyGroup, entries=ENTRIES, epilog=EXAMPLES)
def user() -> None:
    """Accounts of those who may sign in.

    Works on the database itself. With SQLite the server must not be running; a server on PostgreSQL may.
    """


@click.command()
@click.argument("name")
@click.option("--admin", "is_admin", is_flag=True, help="May do everything, on the whole platform.")
@click.option("--no-password", is_flag=True, help="Signs in by tokens alone.")
@_STDIN
@add_settings(DATABASE)
def create(name: str, is_admin: bool, no_password: bool, password_stdin: bool, **flags: Any) -> None:  # noqa: FBT001
    """Make the account NAME. The password is asked for."""
    if no_password and password_stdin:
        raise click.UsageError("--no-password and --password-stdin do not go together")
    _call("create", flags, name=name, is_admin=is_admin, has_password=not no_password, is_password_piped=password_stdin)


@click.command(name="list")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@add_settings(DATABASE)
def list_users(output: str, **flags: Any) -> None:
    """All accounts."""
    _call("print_list", flags, output=output)


@click.command()
@click.argument("name")
@add_settings(DATABASE)
def disable(name: str, **flags: Any) -> None:
    """Let NAME in no more, by password or token; nothing else is changed."""
    _call("set_disabled", flags, name=name, is_disabled=True)


@click.command()
@click.argument("name")
@add_settings(DATABASE)
def enable(name: str, **flags: Any) -> None:
    """Let NAME in again."""
    _call("set_disabled", flags, name=name, is_disabled=False)


@click.command()
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@add_settings(DATABASE)
def delete(name: str, yes: bool, **flags: Any) -> None:  # noqa: FBT001
    """Delete the account NAME with its tokens and memberships."""
    if not yes:
        click.confirm(f"Delete the account {name}?", abort=True)
    _call("delete", flags, name=name)


@click.command()
@click.argument("name")
@_STDIN
@add_settings(DATABASE)
def password(name: str, password_stdin: bool, **flags: Any) -> None:  # noqa: FBT001
    """Set the password of NAME. It is asked for."""
    _call("set_password", flags, name=name, is_password_piped=password_stdin)


@click.command()
@click.argument("name")
@click.option("--name", "label", default="", metavar="TEXT", help="What the token is for.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="read, write or admin. May be repeated.")
@click.option("--life", metavar="DURATION", help="Such as 90d.  [default: --personal-token-life]")
@add_settings((*DATABASE, "personal_token_life"))
def token(name: str, label: str, scopes: tuple[str, ...], life: str | None, **flags: Any) -> None:
    """Make a personal access token of NAME and print it, once."""
    _call("print_token", flags, name=name, label=label, scopes=scopes, life=life)


def _call(function: str, flags: dict[str, Any], **more: Any) -> None:
    require_server()
    load(f"runyard.cli.users:{function}")(flags, **more)
