"""Accounts of users. Only admins create them. The last admin cannot be removed."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.errors import Forbidden, Missing, NotPossible
from runyard.app.identity.access import authorize
from runyard.app.list_query import Query
from runyard.app.locks import ACCOUNTS
from runyard.app.model import Account, Principal
from runyard.app.ports import Duplicate, UnitOfWork
from runyard.domain.access import Permission
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused

LEAST_CHARACTERS = 12
MOST_PASSWORD_CHARACTERS = 1024
RESERVED = frozenset({"anonymous", "files", "nobody", "runyard", "system"})
"""Names that the audit uses for other actors, or that look like them."""
MOST_NAMED = 5
REVOKED_FAMILY = ".revoked"
"""Ends the id of the entry of a revoked family of refresh tokens. The entry outlives the sessions of the account:
without it, access tokens of the family would be valid again."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,126}")
_NAME_RULE = "lower-case letters, digits and `.`, `_`, `@`, `+`, `-`, beginning with a letter or digit, at most 127"


class PasswordHasher(Protocol):
    """Hashes passwords. Slow on purpose; never call it inside a unit of work."""

    async def hash(self, password: str) -> str:
        """The hash to store."""


async def create_account(
    core: Core, who: Principal, hasher: PasswordHasher, *, name: str, password: str | None, is_admin: bool = False
) -> Account:
    """Create an account. Without a password, the user needs a token from an admin. Raises `Duplicate`."""
    _check_account(name, password)
    password_hash = None if password is None else await hasher.hash(password)
    async with core.store.begin() as unit:
        await authorize(unit, who, Permission.ADMINISTER)
        await lock_accounts(unit)
        account = await _add(
            core,
            unit,
            who,
            Account(name=name, password_hash=password_hash, is_admin=is_admin, created_at=core.clock.now()),
        )
        await unit.commit()
    return account


async def list_accounts(core: Core, who: Principal) -> Sequence[Account]:
    """All accounts by name, without password hashes."""
    async with core.store.begin(is_read_only=True) as unit:
        await authorize(unit, who, Permission.ADMINISTER)
        return [replace(account, password_hash=None) for account in await unit.accounts.list_accounts()]


async def set_password(
    core: Core, who: Principal, hasher: PasswordHasher, *, name: str, password: str, keeps_tokens: bool = False
) -> None:
    """Set one's own password when signed in by password, or anyone's as an admin.

    Ends all sessions, and revokes personal tokens unless `keeps_tokens`.
    """
    _check_account(name, password)
    password_hash = await hasher.hash(password)
    async with core.store.begin() as unit:
        if name != who.name or who.via != "password":
            await _require_admin_for_password(unit, who)
        await lock_accounts(unit)
        account = await _require(unit, name)
        await unit.accounts.put(replace(account, password_hash=password_hash))
        await _end_sessions(unit, name, keeps_tokens=keeps_tokens)
        details = {"keeps_tokens": keeps_tokens}
        await note_act(core, unit, who, "account.set_password", of=("account", name), details=details)
        await unit.commit()


async def set_disabled(core: Core, who: Principal, name: str, *, is_disabled: bool) -> Account:
    """Disable or enable an account. Password and tokens of a disabled one are refused from now on."""
    async with core.store.begin() as unit:
        await authorize(unit, who, Permission.ADMINISTER)
        await lock_accounts(unit)
        account = await _require(unit, name)
        if is_disabled:
            await _check_not_last(unit, account, act="disabled")
            await _end_sessions(unit, name, keeps_tokens=True)
        changed = replace(account, is_disabled=is_disabled)
        await unit.accounts.put(changed)
        action = "account.disable" if is_disabled else "account.enable"
        await note_act(core, unit, who, action, of=("account", name))
        await unit.commit()
    return replace(changed, password_hash=None)


async def set_admin(core: Core, who: Principal, name: str, *, is_admin: bool) -> Account:
    """Grant or take away the role of a platform admin."""
    async with core.store.begin() as unit:
        await authorize(unit, who, Permission.ADMINISTER)
        await lock_accounts(unit)
        account = await _require(unit, name)
        if not is_admin:
            await _check_not_last(unit, account, act="made an ordinary user")
        changed = replace(account, is_admin=is_admin)
        await unit.accounts.put(changed)
        details = {"is_admin": is_admin}
        await note_act(core, unit, who, "account.set_admin", of=("account", name), details=details)
        await unit.commit()
    return replace(changed, password_hash=None)


async def delete_account(core: Core, who: Principal, name: str) -> None:
    """Delete an account with its tokens and shares. Not while it owns projects: a later user of that name would."""
    async with core.store.begin() as unit:
        await authorize(unit, who, Permission.ADMINISTER)
        await lock_accounts(unit)
        account = await _require(unit, name)
        await _check_not_last(unit, account, act="deleted")
        owned = await unit.entities.find_page(Query(type="project", user=name, size=MOST_NAMED))
        if owned.total:
            names = ", ".join(project.name for project in owned.content) + ("" if owned.total <= MOST_NAMED else " …")
            message = f"{name} owns {owned.total} project(s) ({names}): delete those first, or disable the account"
            raise NotPossible(Code.ACCOUNT_OWNS_PROJECTS, message)
        await unit.accounts.delete(name)
        await note_act(core, unit, who, "account.delete", of=("account", name))
        await unit.commit()


async def lock_accounts(unit: UnitOfWork) -> None:
    """Serialize changes of accounts and tokens. Otherwise two requests could remove the last two admins."""
    await unit.lock(ACCOUNTS)


async def _add(core: Core, unit: UnitOfWork, who: Principal, account: Account) -> Account:
    if await unit.accounts.find(account.name) is not None:
        raise Duplicate(f"Duplicated entity account:{account.name}.")
    await unit.accounts.put(account)
    details = {"is_admin": account.is_admin, "has_password": account.password_hash is not None}
    await note_act(core, unit, who, "account.create", of=("account", account.name), details=details)
    return replace(account, password_hash=None)


async def _require(unit: UnitOfWork, name: str) -> Account:
    account = await unit.accounts.find(name)
    if account is None:
        raise Missing("account", name)
    return account


async def _require_admin_for_password(unit: UnitOfWork, who: Principal) -> None:
    try:
        await authorize(unit, who, Permission.ADMINISTER)
    except Forbidden:
        message = "to set a password, sign in with the current password instead of a token, or ask an admin"
        raise Forbidden(message) from None


async def _check_not_last(unit: UnitOfWork, account: Account, *, act: str) -> None:
    others = [
        other
        for other in await unit.accounts.list_accounts()
        if other.is_admin and not other.is_disabled and other.name != account.name
    ]
    if account.is_admin and not account.is_disabled and not others:
        message = f"{account.name} is the last admin and cannot be {act}: make somebody else an admin first"
        raise NotPossible(Code.ACCOUNT_LAST_ADMIN, message)


async def _end_sessions(unit: UnitOfWork, name: str, *, keeps_tokens: bool) -> None:
    for token in await unit.accounts.list_tokens(name):
        is_session = token.kind == "refresh" and not token.id.endswith(REVOKED_FAMILY)
        if is_session or (token.kind == "personal" and not keeps_tokens):
            await unit.accounts.delete_token(token.id, user=name)


def _check_account(name: str, password: str | None) -> None:
    problems = []
    if not _NAME.fullmatch(name):
        nearest = name.lower() if _NAME.fullmatch(name.lower()) else None
        message = "not a valid account name"
        problems.append(
            Problem(Code.NAME_INVALID, ("name",), message, value=name, allowed=_NAME_RULE, suggestion=nearest)
        )
    elif name in RESERVED:
        problems.append(Problem(Code.NAME_RESERVED, ("name",), "reserved by the system", value=name))
    # Problems never show a password.
    if password is not None and not LEAST_CHARACTERS <= len(password) <= MOST_PASSWORD_CHARACTERS:
        message = f"has {len(password)} characters"
        allowed = f"{LEAST_CHARACTERS} to {MOST_PASSWORD_CHARACTERS} characters of any kind"
        problems.append(Problem(Code.PASSWORD_LENGTH, ("password",), message, allowed=allowed))
    elif password is not None and len(set(password)) < LEAST_CHARACTERS // 3:
        message = "repeats too few characters to be hard to guess"
        problems.append(Problem(Code.PASSWORD_REPEATS, ("password",), message))
    if problems:
        raise Refused(problems)
