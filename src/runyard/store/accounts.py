"""Users, tokens and shares."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import Table, bindparam, delete, select, update

from runyard.app.model import Account, Share, Token
from runyard.store import tables
from runyard.store.clock import DatabaseNow
from runyard.store.session import Session

_accounts, _tokens, _shares = tables.accounts.c, tables.tokens.c, tables.shares.c
# Used by every request of a server with accounts.
_FIND = select(tables.accounts).where(_accounts.name == bindparam("called"))
_FIND_TOKEN = select(tables.tokens).where(_tokens.hash == bindparam("token_hash"))
_LIST_SHARES = select(tables.shares).order_by(_shares.project, _shares.user)
_LIST_SHARES_OF_PROJECT = _LIST_SHARES.where(_shares.project == bindparam("in_project"))


class SqlAccounts:
    """`app.ports.Accounts`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def put(self, account: Account) -> None:
        """Create or replace by name."""
        await self._upsert(tables.accounts, account, key=("name",))

    async def find(self, name: str) -> Account | None:
        """By name."""
        row = await self._session.fetch_one(_FIND, {"called": name})
        return None if row is None else Account(**row)

    async def list_accounts(self) -> Sequence[Account]:
        """All accounts, by name."""
        rows = await self._session.fetch_all(select(tables.accounts).order_by(_accounts.name))
        return [Account(**row) for row in rows]

    async def delete(self, name: str) -> None:
        """Delete the account with its tokens and shares."""
        await self._session.write(delete(tables.tokens).where(_tokens.user == name))
        await self._session.write(delete(tables.shares).where(_shares.user == name))
        await self._session.write(delete(tables.accounts).where(_accounts.name == name))

    async def put_token(self, token: Token) -> None:
        """Create or replace by id."""
        await self._upsert(tables.tokens, token, key=("id",))

    async def find_token(self, token_hash: str) -> Token | None:
        """By the hash of its text, even if revoked or expired."""
        row = await self._session.fetch_one(_FIND_TOKEN, {"token_hash": token_hash})
        return None if row is None else Token(**row)

    async def list_tokens(self, user: str) -> Sequence[Token]:
        """A user's tokens, newest first."""
        rows = await self._session.fetch_all(
            select(tables.tokens).where(_tokens.user == user).order_by(_tokens.created_at.desc(), _tokens.id.desc())
        )
        return [Token(**row) for row in rows]

    async def use_refresh_token(self, token_hash: str) -> Token | None:
        """Use up a refresh token: the first caller gets it as it was, later ones get None. This revokes it."""
        rows = await self._session.write_returning(
            update(tables.tokens)
            .where(_tokens.hash == token_hash, _tokens.kind == "refresh", _tokens.revoked_at.is_(None))
            .values(revoked_at=DatabaseNow(), last_used_at=DatabaseNow())
            .returning(*tables.tokens.c)
        )
        return replace(Token(**rows[0]), revoked_at=None) if rows else None

    async def delete_token(self, token_id: str, *, user: str) -> bool:
        """Returns whether there was one."""
        return bool(
            await self._session.write(delete(tables.tokens).where(_tokens.id == token_id, _tokens.user == user))
        )

    async def put_share(self, share: Share) -> None:
        """Create or replace by project and user."""
        await self._upsert(tables.shares, share, key=("project", "user"))

    async def list_shares(self, *, project: str | None = None, user: str | None = None) -> Sequence[Share]:
        """The shares of a project or of a user, by project and user."""
        statement = _LIST_SHARES if project is None else _LIST_SHARES_OF_PROJECT
        if user is not None:
            statement = statement.where(_shares.user == user)
        return [Share(**row) for row in await self._session.fetch_all(statement, {"in_project": project})]

    async def delete_share(self, share_id: str, *, project: str) -> bool:
        """Returns whether there was one."""
        return bool(
            await self._session.write(delete(tables.shares).where(_shares.id == share_id, _shares.project == project))
        )

    async def _upsert(self, table: Table, value: Any, *, key: tuple[str, ...]) -> None:
        row = {field.name: getattr(value, field.name) for field in fields(value)}
        others = {name: row[name] for name in row if name not in key}
        await self._session.write(
            self._session.insert_into(table).values(**row).on_conflict_do_update(index_elements=list(key), set_=others)
        )
