"""Implements `runyard user token`, `tokens` and `revoke`: personal access tokens of any account."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import click

from runyard.app import identity
from runyard.app.errors import Missing
from runyard.app.model import Principal, Token
from runyard.cli.listings import Listing
from runyard.cli.output import clean, print_note
from runyard.cli.setting_options import DATABASE, load_settings, run_async
from runyard.cli.tables import print_listing
from runyard.cli.users import WHO, Flags, open_core, suggest_account
from runyard.spec.duration import DurationError, format_duration, parse_duration


def print_token(flags: Flags, *, name: str, label: str, scopes: tuple[str, ...], life: str | None) -> None:
    """Create a token and print its text, alone on standard output, so that it can be piped."""
    settings = load_settings(flags, only=(*DATABASE, "personal_token_life")).settings
    lasting = _read_life(life, most=settings.personal_token_life)

    async def work() -> Any:
        async with open_core(settings) as core, suggest_account(core):
            await identity.list_account_tokens(core, WHO, name)  # raises if the account is unknown
            # Act as the user, so that the token cannot have more rights than they have.
            who = Principal(name=name, via="system", address="command line")
            return await identity.create_personal_token(core, who, name=label, scopes=scopes, life=lasting)

    created = run_async(work())
    click.echo(created.text)
    print_note(f"the token is shown only once; it expires at {created.token.expires_at.isoformat(timespec='seconds')}")


def print_tokens(flags: Flags, *, name: str, listing: Listing) -> None:
    """List the personal access tokens of an account."""
    settings = load_settings(flags, only=DATABASE).settings

    async def work() -> Any:
        async with open_core(settings) as core, suggest_account(core):
            return await identity.list_account_tokens(core, WHO, name)

    held = run_async(work())
    data = [_describe(token) for token in held]
    rows = list(map(_make_row, data))
    print_listing(listing, rows, data=data, named="id", optional=("last-used", "scopes"))


def revoke(flags: Flags, *, name: str, token_id: str | None) -> None:
    """Revoke one token of an account, or all of them."""
    settings = load_settings(flags, only=DATABASE).settings

    async def work() -> Any:
        async with open_core(settings) as core, suggest_account(core):
            try:
                return await identity.revoke_account_tokens(core, WHO, name, token_id=token_id)
            except Missing as missing:
                if missing.type != "token":
                    raise
                message = (
                    f"{clean(name)} has no token {clean(missing.id)}; `runyard user tokens {clean(name)}` lists them"
                )
                raise click.ClickException(message) from None

    revoked = run_async(work())
    for token in revoked:
        click.echo(f"revoked: {token.id}")
    if not revoked:
        print_note(f"{clean(name)} has no personal tokens")


def _describe(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "scopes": list(token.scopes),
        "ends": _show_time(token.expires_at),
        "last_used": _show_time(token.last_used_at),
    }


def _make_row(described: Mapping[str, Any]) -> Mapping[str, str]:
    return {
        "id": described["id"],
        "name": described["name"],
        "scopes": ", ".join(described["scopes"]) or "no limit",
        "ends": described["ends"] or "never",
        "last-used": described["last_used"] or "never",
    }


def _show_time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="seconds")


def _read_life(given: str | None, *, most: timedelta) -> timedelta:
    if given is None:
        return most
    if given.isdecimal():
        raise click.UsageError(f"--life: {given} needs a unit; did you mean {given}d?")
    try:
        life = timedelta(seconds=parse_duration(given))
    except DurationError as error:
        meant = f"; did you mean {error.suggestion}?" if error.suggestion else ""
        raise click.UsageError(f"--life: {error}{meant}") from None
    if life > most:
        longest = format_duration(int(most.total_seconds()))
        raise click.UsageError(f"--life: {given} is longer than the maximum lifetime of {longest}")
    return life
