"""Personal tokens of other users, for admins: list them, and revoke stolen ones."""

from collections.abc import Sequence
from dataclasses import replace

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.errors import Missing
from runyard.app.identity.access import authorize
from runyard.app.identity.accounts import lock_accounts
from runyard.app.model import Principal, Token
from runyard.app.ports import UnitOfWork
from runyard.domain.access import Permission


async def list_account_tokens(core: Core, who: Principal, name: str) -> Sequence[Token]:
    """The personal tokens of an account, newest first, without their hashes. Raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        await authorize(unit, who, Permission.ADMINISTER)
        return [replace(token, hash="") for token in await _list_personal(unit, name)]


async def revoke_account_tokens(
    core: Core, who: Principal, name: str, *, token_id: str | None = None
) -> Sequence[Token]:
    """Revoke one personal token of an account, or all, with the refresh tokens issued for them. Raises `Missing`."""
    async with core.store.begin() as unit:
        await authorize(unit, who, Permission.ADMINISTER)
        await lock_accounts(unit)
        held = await _list_personal(unit, name)
        revoked = [token for token in held if token_id is None or token.id == token_id]
        if token_id is not None and not revoked:
            raise Missing("token", token_id)
        await _delete(unit, name, revoked)
        for token in revoked:
            details = {"name": token.name, "user": name}
            await note_act(core, unit, who, "token.revoke", of=("token", token.id), details=details)
        await unit.commit()
    return [replace(token, hash="") for token in revoked]


async def _delete(unit: UnitOfWork, name: str, revoked: Sequence[Token]) -> None:
    """Also deletes the refresh tokens issued for them."""
    hashes = {token.hash for token in revoked}
    for token in await unit.accounts.list_tokens(name):
        if token.hash in hashes or (token.kind == "refresh" and token.name in hashes):
            await unit.accounts.delete_token(token.id, user=name)


async def _list_personal(unit: UnitOfWork, name: str) -> list[Token]:
    if await unit.accounts.find(name) is None:
        raise Missing("account", name)
    return [token for token in await unit.accounts.list_tokens(name) if token.kind == "personal"]
