"""`runyard token`."""

from typing import Any

import click

from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.listings import add_listing
from runyard.cli.questions import add_yes
from runyard.cli.server_options import add_server_options

_HERE = "runyard.cli.commands.token"
ENTRIES = {
    "ls": Entry(f"{_HERE}:token_ls", "List your tokens."),
    "create": Entry(f"{_HERE}:token_create", "Create a token, and print it once."),
    "revoke": Entry(f"{_HERE}:token_revoke", "Revoke tokens."),
}
SCOPES = ("read", "write", "admin")


@click.group(
    cls=LazyGroup,
    entries=ENTRIES,
    epilog=format_epilog("runyard token create ci --scope write --days 30", "runyard token ls"),
)
def token() -> None:
    """Manage your personal access tokens at the server.

    Admins manage those of other accounts on the server's machine, with `runyard user`.
    """


@click.command(
    name="ls",
    epilog=format_epilog("runyard token ls", "runyard token ls --columns name,last-used"),
)
@add_listing("id", "name", "scopes", "expires", "last-used", more=("created",))
@add_server_options
def token_ls(listing: Any, **flags: Any) -> None:
    """List your personal access tokens, newest first. Their texts are not kept anywhere."""
    _call("print_tokens", flags, listing=listing)


@click.command(
    name="create",
    epilog=format_epilog(
        "runyard token create laptop",
        "pass show runyard/ada | runyard token create ci --scope write --days 30 --stdin > token",
        exit_codes="0 created    1 refused    2 usage error",
    ),
)
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    help="Limit it: read; write, which includes read; admin, everything. Repeatable.  [default: no limit]",
)
@click.option("--days", type=click.IntRange(1, 3650), help="Days until it expires.  [default: the server's maximum]")
@click.option("--stdin", "is_piped", is_flag=True, help="Read your password from standard input instead of a prompt.")
@add_server_options
def token_create(name: str, scopes: tuple[str, ...], days: int | None, is_piped: bool, **flags: Any) -> None:  # noqa: FBT001
    """Create the personal access token NAME and print it, alone on standard output. It cannot be shown again.

    It can do what you can do, within its scopes. This asks for your password, because a token cannot create another
    one. RUNYARD_USER and RUNYARD_PASSWORD with RUNYARD_ENDPOINT are used if they are set.
    """
    _call("create_token", flags, name=name, scopes=scopes, days=days, is_piped=is_piped)


@click.command(
    name="revoke",
    epilog=format_epilog(
        "runyard token revoke ci --yes", exit_codes="0 revoked    1 refused, such as unknown    2 usage error"
    ),
)
@click.argument("tokens", metavar="TOKEN...", nargs=-1, required=True)
@add_yes
@add_server_options
def token_revoke(tokens: tuple[str, ...], yes: bool, **flags: Any) -> None:  # noqa: FBT001
    """Revoke your tokens with these names or ids, or the beginning of an id, and end the sessions started with them."""
    _call("revoke_tokens", flags, given=tokens, yes=yes)


def _call(function: str, flags: dict[str, Any], **more: Any) -> None:
    load(f"runyard.cli.tokens:{function}")(flags, **more)
