"""Implements `runyard user`: account use cases, run on the database directly, as the system principal."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import click

from runyard.app import identity
from runyard.app.core import Core, Options
from runyard.app.errors import Duplicate, Missing
from runyard.app.model import Principal
from runyard.app.times import SystemClock
from runyard.cli.files import get_stdin
from runyard.cli.lazy_commands import load
from runyard.cli.listings import Listing
from runyard.cli.output import clean, print_note
from runyard.cli.questions import ask_hidden, can_ask, is_input_allowed
from runyard.cli.setting_options import DATABASE, load_settings, run_async
from runyard.cli.tables import print_listing
from runyard.settings import Settings
from runyard.spec.problems import find_nearest

Flags = Mapping[str, Any]
MOST_PASSWORD_BYTES = 8192
WHO = Principal(name="system", is_admin=True, via="system", address="command line")


def create(flags: Flags, *, name: str, is_admin: bool, has_password: bool, is_password_piped: bool) -> None:
    """Create an account."""
    settings = _load(flags)
    password = _ask_password(is_piped=is_password_piped) if has_password else None

    async def work() -> bool:
        async with open_core(settings) as core, _open_passwords() as hasher:
            try:
                await identity.create_account(core, WHO, hasher, name=name, password=password, is_admin=is_admin)
            except Duplicate:
                raise click.ClickException(f"account {clean(name)} already exists") from None
            return any(account.is_admin for account in await identity.list_accounts(core, WHO))

    has_admin = run_async(work())
    click.echo(f"created: {clean(name)}{' (admin)' if is_admin else ''}")
    if not has_admin:
        print_note("there is no admin yet: create one with `runyard user create NAME --admin`")


def print_list(flags: Flags, *, listing: Listing) -> None:
    """List all accounts."""
    settings = _load(flags)

    async def work() -> Any:
        async with open_core(settings) as core:
            return await identity.list_accounts(core, WHO)

    rows = [
        {
            "name": account.name,
            "role": "admin" if account.is_admin else "user",
            "state": "disabled" if account.is_disabled else "enabled",
            "created": account.created_at.isoformat(timespec="seconds"),
        }
        for account in run_async(work())
    ]
    print_listing(listing, rows, data=rows, optional=("created",))


def set_disabled(flags: Flags, *, name: str, is_disabled: bool) -> None:
    """Disable or enable an account."""
    _change(flags, lambda core: identity.set_disabled(core, WHO, name, is_disabled=is_disabled))
    click.echo(f"{'disabled' if is_disabled else 'enabled'}: {clean(name)}")


def delete(flags: Flags, *, name: str) -> None:
    """Delete an account with its tokens and memberships."""
    _change(flags, lambda core: identity.delete_account(core, WHO, name))
    click.echo(f"deleted: {clean(name)}")


def set_password(flags: Flags, *, name: str, is_password_piped: bool, keeps_tokens: bool) -> None:
    """Set a password; sessions that signed in with the old one end."""
    settings = _load(flags)
    password = _ask_password(is_piped=is_password_piped)

    async def work() -> None:
        async with open_core(settings) as core, _open_passwords() as hasher, suggest_account(core):
            await identity.set_password(core, WHO, hasher, name=name, password=password, keeps_tokens=keeps_tokens)

    run_async(work())
    click.echo(f"password set: {clean(name)}")


def set_admin(flags: Flags, *, name: str, is_admin: bool) -> None:
    """Grant or remove the admin role."""
    _change(flags, lambda core: identity.set_admin(core, WHO, name, is_admin=is_admin))
    click.echo(f"{'admin' if is_admin else 'no longer admin'}: {clean(name)}")


def _change(flags: Flags, act: Callable[[Core], Awaitable[object]]) -> None:
    settings = _load(flags)

    async def work() -> None:
        async with open_core(settings) as core, suggest_account(core):
            await act(core)

    run_async(work())


def _load(flags: Flags) -> Settings:
    return load_settings(flags, only=DATABASE).settings


@asynccontextmanager
async def open_core(settings: Settings) -> AsyncIterator[Core]:
    """Open a Core for work on the database only, without vault and logs."""
    if settings.database.startswith("sqlite"):
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = await load("runyard.store:open_store")(settings.database)
    nothing: Any = None
    try:
        options = Options(personal_token_life=settings.personal_token_life)
        yield Core(store=store, vault=nothing, logs=nothing, clock=SystemClock(), options=options)
    finally:
        await store.close()


@asynccontextmanager
async def _open_passwords() -> AsyncIterator[Any]:
    passwords = load("runyard.auth:Passwords")()
    try:
        yield passwords
    finally:
        passwords.close()


@asynccontextmanager
async def suggest_account(core: Core) -> AsyncIterator[None]:
    """Turn an unknown account into an error that suggests the nearest name."""
    try:
        yield
    except Missing as missing:
        if missing.type != "account":
            raise
        near = find_nearest(missing.id, [account.name for account in await identity.list_accounts(core, WHO)])
        meant = f"; did you mean {near}?" if near else ""
        raise click.ClickException(f"unknown account {clean(missing.id)}{meant}") from None


def _ask_password(*, is_piped: bool) -> str:
    """Read a password from a prompt without echo, or from the first line of standard input; never from an argument."""
    if is_piped:
        line = get_stdin().buffer.readline(MOST_PASSWORD_BYTES).rstrip(b"\r\n")
        try:
            return line.decode()
        except UnicodeDecodeError:
            raise click.UsageError("the password on standard input is not UTF-8") from None
    if not can_ask():
        cause = "no terminal to prompt" if is_input_allowed() else "--no-input leaves no prompt"
        raise click.UsageError(f"{cause} for the password: use --password-stdin")
    return ask_hidden("Password", is_repeated=True)
