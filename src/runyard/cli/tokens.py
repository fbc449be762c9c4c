"""Implements `runyard token`: the personal access tokens of the user, over the API."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from runyard.cli.client_session import RETRY_SECONDS, connect, report_errors
from runyard.cli.humane_times import format_age
from runyard.cli.listings import Listing
from runyard.cli.output import clean, print_note
from runyard.cli.questions import confirm
from runyard.cli.sign_in import ask_secret
from runyard.cli.tables import print_listing
from runyard.sdk.contexts import find_path, load_contexts
from runyard.sdk.records import Token
from runyard.sdk.sync.client import Client
from runyard.spec.problems import find_nearest

Flags = Mapping[str, Any]


def print_tokens(flags: Flags, *, listing: Listing) -> None:
    """List the user's tokens, newest first."""
    with report_errors(), connect(flags) as client:
        found = client.list_tokens()
    now = datetime.now(UTC)
    rows = [_to_row(token, now=now) for token in found]
    optional = ("created", "last-used", "scopes")
    print_listing(listing, rows, data=[dict(token) for token in found], named="id", optional=optional)


def create_token(flags: Flags, *, name: str, scopes: Sequence[str], days: int | None, is_piped: bool) -> None:
    """Create a token, signed in by password, and print its text alone on standard output."""
    with report_errors(), _sign_in(flags, is_piped=is_piped) as client:
        made = client.create_token(name, scopes=scopes, days=days)
    click.echo(made.value)
    print_note(f"the token is shown only once; it expires at {made.expires_at}")


def revoke_tokens(flags: Flags, *, given: Sequence[str], yes: bool) -> None:
    """Revoke tokens, after a question; all of them are looked up before the first is revoked."""
    with report_errors(), connect(flags) as client:
        held = client.list_tokens()
        chosen = {token.id: token for token in (_choose(each, held) for each in given)}
        if not yes:
            confirm(f"Revoke {', '.join(map(_describe, chosen.values()))}?")
        for token in chosen.values():
            client.revoke_token(token.id)
            click.echo(f"revoked: {clean(_describe(token))}")
    contexts = load_contexts(find_path(os.environ))
    for name, context in contexts.by_name.items():
        if context.token_id in chosen:
            print_note(f"context {name} was signed in with it: sign in again with `runyard login`")


def _sign_in(flags: Flags, *, is_piped: bool) -> Client:
    """A client that signs in by password. A server without accounts needs none, and says so itself."""
    with connect(flags) as client:
        known = client.credentials
        methods = client.describe_server().get("dhcore_authentication_methods")
        if known.password is not None or not methods:
            return connect(flags)
        user = known.user or str(client.whoami()["username"])
    password = ask_secret(f"Password of {user}", is_piped=is_piped)
    return Client(known.endpoint, user=user, password=password, retry_seconds=RETRY_SECONDS)


def _choose(given: str, held: Sequence[Token]) -> Token:
    """The token with that id or name, or whose id begins so."""
    found = [token for token in held if token.id == given] or [
        token for token in held if token.name == given or token.id.startswith(given)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(token.id for token in found[:10])
        raise click.ClickException(f"several tokens are named {clean(given)}, or begin so: {listed}")
    nearest = find_nearest(given, [token.name for token in held])
    meant = f"did you mean {clean(nearest)}?" if nearest else "`runyard token ls` lists them"
    raise click.ClickException(f"you have no token {clean(given)}; {meant}")


def _describe(token: Token) -> str:
    return f"{token.name} ({token.id})"


def _to_row(token: Token, *, now: datetime) -> Mapping[str, str]:
    used = token.get("last_used_at")
    return {
        "id": token.id,
        "name": token.name,
        "scopes": ", ".join(token.scopes) or "no limit",
        "expires": str(token.get("expires_at") or "never"),
        "last-used": format_age(str(used), now=now) if used else "never",
        "created": format_age(str(token.get("issued_at", "")), now=now),
    }
