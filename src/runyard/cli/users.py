"""What `runyard user` does: the use cases of accounts, on the database itself, as the system."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import click

from runyard.app import identity
from runyard.app.core import Core, Options
from runyard.app.errors import Duplicate, Missing
from runyard.app.model import Principal
from runyard.app.times import SystemClock
from runyard.cli.lazy_commands import load
from runyard.cli.output import clean, print_data, print_note
from runyard.cli.setting_options import DATABASE, load_settings, run_async
from runyard.cli.tables import print_table
from runyard.settings import Settings
from runyard.spec.problems import find_nearest

Flags = Mapping[str, Any]
MOST_PASSWORD_BYTES = 8192
WHO = Principal(name="system", is_admin=True, via="system", address="command line")


def create(flags: Flags, *, name: str, is_admin: bool, has_password: bool, is_password_piped: bool) -> None:
    """Make an account."""
    settings = _load(flags)
    password = _ask_password(is_piped=is_password_piped) if has_password else None

    async def work() -> bool:
        async with open_core(settings) as core, _open_passwords() as hasher:
            try:
                await identity.create_account(core, WHO, hasher, name=name, password=password, is_admin=is_admin)
            except Duplicate:
                raise click.ClickException(f"there is an account {clean(name)} already") from None
            return any(account.is_admin for account in await identity.list_accounts(core, WHO))

    has_admin = run_async(work())
    click.echo(f"created: {clean(name)}{' (admin)' if is_admin else ''}")
    if not has_admin:
        print_note("there is no admin yet: `runyard user create NAME --admin` makes one")


def print_list(flags: Flags, *, output: str) -> None:
    """All accounts."""
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
    if output != "table":
        print_data(rows, output=output)
        return
    print_table(("name", "role", "state", "created"), [tuple(row.values()) for row in rows])


def set_disabled(flags: Flags, *, name: str, is_disabled: bool) -> None:
    """Let somebody in, or no more."""
    _change(flags, lambda core: identity.set_disabled(core, WHO, name, is_disabled=is_disabled))
    click.echo(f"{'disabled' if is_disabled else 'enabled'}: {clean(name)}")


def delete(flags: Flags, *, name: str) -> None:
    """An account with its tokens and memberships."""
    _change(flags, lambda core: identity.delete_account(core, WHO, name))
    click.echo(f"deleted: {clean(name)}")


def set_password(flags: Flags, *, name: str, is_password_piped: bool, keeps_tokens: bool) -> None:
    """Another password; what was signed in with the old one ends."""
    settings = _load(flags)
    password = _ask_password(is_piped=is_password_piped)

    async def work() -> None:
        async with open_core(settings) as core, _open_passwords() as hasher, naming_near(core):
            await identity.set_password(core, WHO, hasher, name=name, password=password, keeps_tokens=keeps_tokens)

    run_async(work())
    click.echo(f"password set: {clean(name)}")


def set_admin(flags: Flags, *, name: str, is_admin: bool) -> None:
    """Make somebody an admin, or an ordinary user."""
    _change(flags, lambda core: identity.set_admin(core, WHO, name, is_admin=is_admin))
    click.echo(f"{'admin' if is_admin else 'no admin'}: {clean(name)}")


def _change(flags: Flags, act: Callable[[Core], Awaitable[object]]) -> None:
    settings = _load(flags)

    async def work() -> None:
        async with open_core(settings) as core, naming_near(core):
            await act(core)

    run_async(work())


def _load(flags: Flags) -> Settings:
    return load_settings(flags, only=DATABASE).settings


@asynccontextmanager
async def open_core(settings: Settings) -> AsyncIterator[Core]:
    """A Core for work on the database alone: it has no vault and no logs, and none is made for it."""
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
async def naming_near(core: Core) -> AsyncIterator[None]:
    """What is missing is told with the name that was probably meant."""
    try:
        yield
    except Missing as missing:
        if missing.type != "account":
            raise
        near = find_nearest(missing.id, [account.name for account in await identity.list_accounts(core, WHO)])
        meant = f"; did you mean {near}?" if near else ""
        raise click.ClickException(f"there is no account {clean(missing.id)}{meant}") from None


def _ask_password(*, is_piped: bool) -> str:
    """From a prompt without echo, or the first line of standard input; never from a command line, which others see."""
    if is_piped:
        line = sys.stdin.buffer.readline(MOST_PASSWORD_BYTES).rstrip(b"\r\n")
        try:
            return line.decode()
        except UnicodeDecodeError:
            raise click.UsageError("the password on standard input is not UTF-8") from None
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask for the password: use --password-stdin")
    asked: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return asked
