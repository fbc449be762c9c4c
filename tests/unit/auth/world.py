"""A Core on a real SQLite file with accounts, quick hashes of passwords, and a clock that tests turn."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from argon2 import PasswordHasher

from runyard.app.core import Core, Options
from runyard.app.identity.accounts import create_account
from runyard.app.identity.personal_tokens import CreatedToken, create_personal_token
from runyard.app.log_store import LogStore
from runyard.app.model import Account, AuditEntry, Principal, Share
from runyard.auth import Authenticator, FailureLimiter, Issuer, Passwords
from runyard.store import SqlStore, open_store
from runyard.vault import FileVault, open_vault
from tests.contract.store.builders import make_entity
from tests.sqlite_databases import create_sqlite

ENDPOINT = "https://runyard.example"
ADDRESS = "192.0.2.7"
PASSWORD = "correct horse battery staple"
SYSTEM = Principal(name="system", is_admin=True, via="system")
START = datetime.now(UTC).replace(microsecond=0)
"""About now: the database's own clock cannot be turned."""


class CountingHasher(PasswordHasher):
    """Quick argon2; notes which hashes it was really computed for."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.verified: list[str] = []
        self.begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def verify(self, hash: str | bytes, password: str | bytes) -> Any:  # noqa: A002 - the name of argon2's argument
        self.verified.append(str(hash))
        self._loop.call_soon_threadsafe(self.begun.set)
        return super().verify(hash, password)


@dataclass
class World:
    """What a test of accounts needs; it is also the clock."""

    store: SqlStore
    vault: FileVault
    at: datetime = START
    hasher: CountingHasher = field(default_factory=CountingHasher)

    def __post_init__(self) -> None:
        self.passwords = Passwords(hasher=self.hasher)
        self.core = Core(
            store=self.store,
            vault=self.vault,
            logs=cast("LogStore", None),
            clock=self,
            options=Options(endpoint=ENDPOINT),
        )
        self.issuer = Issuer(self.core)
        self.limiter = FailureLimiter(now=self.read_seconds)
        self.authenticator = self.make_authenticator()

    def now(self) -> datetime:
        return self.at

    def read_seconds(self) -> float:
        return self.at.timestamp()

    def turn(self, **span: float) -> None:
        """Let time pass."""
        self.at += timedelta(**span)

    def make_authenticator(self, **fields: Any) -> Authenticator:
        """Another one, as of another process."""
        return Authenticator(
            self.core, **{"issuer": self.issuer, "passwords": self.passwords, "limiter": self.limiter, **fields}
        )

    async def add_account(self, name: str, *, is_admin: bool = False, password: str | None = PASSWORD) -> Account:
        """An account with the usual password."""
        return await create_account(self.core, SYSTEM, self.passwords, name=name, password=password, is_admin=is_admin)

    async def add_project(self, name: str, *, user: str, shares: Sequence[tuple[str, str]] = ()) -> None:
        """A project of that user, shared as said."""
        async with self.store.begin() as unit:
            await unit.entities.add(
                make_entity(name, type="project", project=name, name=name, kind="project", user=user)
            )
            for member, role in shares:
                await unit.accounts.put_share(
                    Share(id=f"{name}-{member}", project=name, user=member, role=cast("Any", role))
                )
            await unit.commit()

    async def add_token(self, user: str, **fields: Any) -> CreatedToken:
        """A personal token."""
        return await create_personal_token(self.core, Principal(name=user, via="password"), **fields)

    async def sign_in(self, name: str, password: str = PASSWORD, *, address: str | None = ADDRESS) -> Principal:
        """By HTTP Basic."""
        return await self.authenticator.authenticate(make_basic(name, password), address=address)

    async def send(self, token: str) -> Principal:
        """A request with a token."""
        return await self.authenticator.authenticate(f"Bearer {token}", address=ADDRESS)

    async def list_audit(self) -> list[AuditEntry]:
        """All, oldest first."""
        async with self.store.begin(is_read_only=True) as unit:
            return [entry for _, entry in reversed(await unit.audit.list_entries(limit=1000))]


@asynccontextmanager
async def open_world(folder: Path) -> AsyncIterator[World]:
    """Everything in a folder of the test's own."""
    store = await open_store(await create_sqlite(folder / "runyard.db"))
    vault = open_vault(folder / "keys")
    assert isinstance(vault, FileVault)
    world = World(store, vault)
    yield world
    world.passwords.close()
    await store.close()


def make_basic(name: str, password: str) -> str:
    """The header."""
    return f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"
