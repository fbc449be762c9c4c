"""`runyard user`."""

from typing import Any

import click

from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.listings import add_listing
from runyard.cli.questions import add_no_input, confirm
from runyard.cli.setting_options import DATABASE, add_settings, require_server

ENTRIES = {
    "create": Entry("runyard.cli.commands.user:create", "Create an account."),
    "list": Entry("runyard.cli.commands.user:list_users", "List accounts."),
    "disable": Entry("runyard.cli.commands.user:disable", "Disable an account."),
    "enable": Entry("runyard.cli.commands.user:enable", "Enable a disabled account."),
    "delete": Entry("runyard.cli.commands.user:delete", "Delete an account."),
    "admin": Entry("runyard.cli.commands.user:admin", "Grant or remove the admin role."),
    "password": Entry("runyard.cli.commands.user:password", "Set a password."),
    "token": Entry("runyard.cli.commands.user:token", "Create a personal access token."),
    "tokens": Entry("runyard.cli.commands.user:tokens", "List the personal access tokens of an account."),
    "revoke": Entry("runyard.cli.commands.user:revoke", "Revoke personal access tokens."),
}
EXAMPLES = """\b
Examples:
  pass show runyard/eve | runyard user create eve --admin --password-stdin
  runyard user token ada --name laptop --scope write --life 90d
  runyard user revoke bob --all
  runyard user disable bob

\b
Exit codes:
  0 success    1 refused    2 usage error
"""
_STDIN = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input instead of a prompt."
)


@click.group(cls=LazyGroup, entries=ENTRIES, epilog=EXAMPLES)
def user() -> None:
    """Manage accounts and personal access tokens.

    These commands work on the database directly. With SQLite, stop the server first. A server on PostgreSQL may keep
    running.
    """


@click.command(
    epilog=format_epilog(
        "runyard user create eve --no-password",
        "pass show runyard/mia | runyard user create mia --admin --password-stdin",
        exit_codes="0 success    1 refused    2 usage error",
    )
)
@click.argument("name")
@click.option("--admin", "is_admin", is_flag=True, help="Grant the admin role: all permissions, in every project.")
@click.option("--no-password", is_flag=True, help="Create an account that can sign in by token only.")
@_STDIN
@add_no_input
@add_settings(DATABASE)
def create(name: str, is_admin: bool, no_password: bool, password_stdin: bool, **flags: Any) -> None:  # noqa: FBT001
    """Create the account NAME. Prompts for the password."""
    if no_password and password_stdin:
        raise click.UsageError("--no-password and --password-stdin exclude each other")
    _call("create", flags, name=name, is_admin=is_admin, has_password=not no_password, is_password_piped=password_stdin)


@click.command(
    name="list",
    epilog=format_epilog(
        "runyard user list",
        "runyard user list -o json",
    ),
)
@add_listing("name", "role", "state", "created")
@add_settings(DATABASE)
def list_users(listing: Any, **flags: Any) -> None:
    """List all accounts."""
    _call("print_list", flags, listing=listing)


@click.command(epilog=format_epilog("runyard user disable bob", exit_codes="0 success    1 refused    2 usage error"))
@click.argument("name")
@add_settings(DATABASE)
def disable(name: str, **flags: Any) -> None:
    """Disable the account NAME: its password and tokens stop working. Nothing is deleted."""
    _call("set_disabled", flags, name=name, is_disabled=True)


@click.command(epilog=format_epilog("runyard user enable bob", exit_codes="0 success    1 refused    2 usage error"))
@click.argument("name")
@add_settings(DATABASE)
def enable(name: str, **flags: Any) -> None:
    """Enable the disabled account NAME."""
    _call("set_disabled", flags, name=name, is_disabled=False)


@click.command(
    epilog=format_epilog("runyard user delete bob --yes", exit_codes="0 success    1 refused    2 usage error")
)
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@add_no_input
@add_settings(DATABASE)
def delete(name: str, yes: bool, **flags: Any) -> None:  # noqa: FBT001
    """Delete the account NAME with its tokens and memberships."""
    if not yes:
        confirm(f"Delete the account {name}?")
    _call("delete", flags, name=name)


@click.command(
    epilog=format_epilog(
        "pass show runyard/bob | runyard user password bob --password-stdin",
        exit_codes="0 success    1 refused    2 usage error",
    )
)
@click.argument("name")
@click.option("--keep-tokens", is_flag=True, help="Do not revoke personal access tokens.")
@_STDIN
@add_no_input
@add_settings(DATABASE)
def password(name: str, keep_tokens: bool, password_stdin: bool, **flags: Any) -> None:  # noqa: FBT001
    """Set the password of the account NAME. Prompts for it.

    Ends all sessions of NAME and revokes its personal access tokens, unless --keep-tokens is set.
    """
    _call("set_password", flags, name=name, is_password_piped=password_stdin, keeps_tokens=keep_tokens)


@click.command(
    epilog=format_epilog(
        "runyard user admin bob",
        "runyard user admin bob --no",
        exit_codes="0 success    1 refused    2 usage error",
    )
)
@click.argument("name")
@click.option("--no", "is_no", is_flag=True, help="Remove the role instead.")
@add_settings(DATABASE)
def admin(name: str, is_no: bool, **flags: Any) -> None:  # noqa: FBT001
    """Grant the admin role to the account NAME: all permissions, in every project."""
    _call("set_admin", flags, name=name, is_admin=not is_no)


@click.command(
    epilog=format_epilog(
        "runyard user token ada --name laptop --scope write --life 90d",
        exit_codes="0 success    1 refused    2 usage error",
    )
)
@click.argument("name")
@click.option("--name", "label", default="", metavar="TEXT", help="Label of the token.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="Scope: read, write or admin. Repeatable.")
@click.option("--life", metavar="DURATION", help="Lifetime, such as 90d.  [default: --personal-token-life]")
@add_settings((*DATABASE, "personal_token_life"))
def token(name: str, label: str, scopes: tuple[str, ...], life: str | None, **flags: Any) -> None:
    """Create a personal access token for the account NAME and print it. It cannot be shown again."""
    _call("print_token", flags, module="user_tokens", name=name, label=label, scopes=scopes, life=life)


@click.command(
    epilog=format_epilog(
        "runyard user tokens ada",
        "runyard user tokens ada -o json",
        exit_codes="0 success    1 refused    2 usage error",
    )
)
@click.argument("name")
@add_listing("id", "name", "scopes", "ends", "last-used")
@add_settings(DATABASE)
def tokens(name: str, listing: Any, **flags: Any) -> None:
    """List the personal access tokens of the account NAME: label, scopes, expiry, last use."""
    _call("print_tokens", flags, module="user_tokens", name=name, listing=listing)


@click.command(
    epilog=format_epilog("runyard user revoke ada --all", exit_codes="0 success    1 refused    2 usage error")
)
@click.argument("name")
@click.argument("token_id", metavar="[ID]", required=False)
@click.option("--all", "is_all", is_flag=True, help="Revoke all personal access tokens of NAME.")
@add_settings(DATABASE)
def revoke(name: str, token_id: str | None, is_all: bool, **flags: Any) -> None:  # noqa: FBT001
    """Revoke the personal access token ID of the account NAME, or all, and end the sessions started with them."""
    if (token_id is None) is not is_all:
        raise click.UsageError("set either the ID of a token (see `runyard user tokens`) or --all")
    _call("revoke", flags, module="user_tokens", name=name, token_id=token_id)


def _call(function: str, flags: dict[str, Any], *, module: str = "users", **more: Any) -> None:
    require_server()
    load(f"runyard.cli.{module}:{function}")(flags, **more)
