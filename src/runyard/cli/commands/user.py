"""`runyard user`."""

from typing import Any

import click

from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.setting_options import DATABASE, add_settings, require_server

ENTRIES = {
    "create": Entry("runyard.cli.commands.user:create", "Make an account."),
    "list": Entry("runyard.cli.commands.user:list_users", "All accounts."),
    "disable": Entry("runyard.cli.commands.user:disable", "Let somebody in no more."),
    "enable": Entry("runyard.cli.commands.user:enable", "Let somebody in again."),
    "delete": Entry("runyard.cli.commands.user:delete", "Delete an account."),
    "admin": Entry("runyard.cli.commands.user:admin", "Make somebody an admin, or no longer."),
    "password": Entry("runyard.cli.commands.user:password", "Set a password."),
    "token": Entry("runyard.cli.commands.user:token", "Make a personal access token."),
    "tokens": Entry("runyard.cli.commands.user:tokens", "Personal access tokens of somebody."),
    "revoke": Entry("runyard.cli.commands.user:revoke", "End personal access tokens."),
}
EXAMPLES = """\b
Examples:
  runyard user create ada --admin
  pass show runyard/ada | runyard user create ada --admin --password-stdin
  runyard user token ada --name laptop --scope write --life 90d
  runyard user revoke bob --all
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
@click.option("--keep-tokens", is_flag=True, help="Personal tokens go on working.")
@_STDIN
@add_settings(DATABASE)
def password(name: str, keep_tokens: bool, password_stdin: bool, **flags: Any) -> None:  # noqa: FBT001
    """Set the password of NAME. It is asked for.

    All sessions of NAME end, and so do all personal tokens, unless --keep-tokens is given.
    """
    _call("set_password", flags, name=name, is_password_piped=password_stdin, keeps_tokens=keep_tokens)


@click.command()
@click.argument("name")
@click.option("--no", "is_no", is_flag=True, help="An ordinary user again.")
@add_settings(DATABASE)
def admin(name: str, is_no: bool, **flags: Any) -> None:  # noqa: FBT001
    """Make NAME an admin, who may do everything on the whole platform."""
    _call("set_admin", flags, name=name, is_admin=not is_no)


@click.command()
@click.argument("name")
@click.option("--name", "label", default="", metavar="TEXT", help="What the token is for.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="read, write or admin. May be repeated.")
@click.option("--life", metavar="DURATION", help="Such as 90d.  [default: --personal-token-life]")
@add_settings((*DATABASE, "personal_token_life"))
def token(name: str, label: str, scopes: tuple[str, ...], life: str | None, **flags: Any) -> None:
    """Make a personal access token of NAME and print it, once."""
    _call("print_token", flags, module="user_tokens", name=name, label=label, scopes=scopes, life=life)


@click.command()
@click.argument("name")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@add_settings(DATABASE)
def tokens(name: str, output: str, **flags: Any) -> None:
    """Personal access tokens of NAME: what each is for, what it may do, when it ends, when it was last used."""
    _call("print_tokens", flags, module="user_tokens", name=name, output=output)


@click.command()
@click.argument("name")
@click.argument("token_id", metavar="[ID]", required=False)
@click.option("--all", "is_all", is_flag=True, help="All personal tokens of NAME.")
@add_settings(DATABASE)
def revoke(name: str, token_id: str | None, is_all: bool, **flags: Any) -> None:  # noqa: FBT001
    """End the personal access token ID of NAME, or all, with every session that was begun with them."""
    if (token_id is None) is not is_all:
        raise click.UsageError("give either the ID of a token, which `runyard user tokens` lists, or --all")
    _call("revoke", flags, module="user_tokens", name=name, token_id=token_id)


def _call(function: str, flags: dict[str, Any], *, module: str = "users", **more: Any) -> None:
    require_server()
    load(f"runyard.cli.{module}:{function}")(flags, **more)
