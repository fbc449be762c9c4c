"""A Core in this process, over a real SQLite store: with accounts or open, driven through the whole application."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
from argon2 import PasswordHasher

from runyard.api.application import Application, add_middleware, make_app
from runyard.api.context import Limits, ServerContext
from runyard.app.blob_store import BlobStore
from runyard.app.core import Core, Options
from runyard.app.engine import Engine
from runyard.app.files_store import FilesStore
from runyard.app.log_store import LogStore
from runyard.app.model import Account, Run
from runyard.app.ports import Clock
from runyard.app.times import SystemClock
from runyard.auth import Authenticator, Issuer, Passwords
from runyard.files import FolderBlobs
from runyard.logs.backends import open_logs
from runyard.store import open_store
from runyard.vault import open_vault
from tests.sqlite_databases import ensure_sqlite

ENDPOINT = "http://localhost:8080"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The application, its Core, and ways to ask it."""

    core: Core
    context: ServerContext
    app: Any
    application: Application
    """Inside of its middleware."""
    passwords: Passwords

    @asynccontextmanager
    async def client(self, user: str | None = None, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
        """A client that signs in by password; the password of a user is their name and `'s password`."""
        auth = None if user is None else (user, password_of(user))
        # Errors of the application are answers, as they are on the wire.
        transport = httpx2.ASGITransport(app=self.app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url=ENDPOINT, auth=auth, **options) as client:
            yield client

    async def add_user(self, name: str, *, is_admin: bool = False) -> None:
        """An account, straight into the store."""
        async with self.core.store.begin() as unit:
            hashed = await self.passwords.hash(password_of(name))
            now = self.core.clock.now()
            await unit.accounts.put(Account(name=name, password_hash=hashed, is_admin=is_admin, created_at=now))
            await unit.commit()

    async def find_run(self, project: str, run_id: str) -> Run:
        """A run as it is stored."""
        async with self.core.store.begin(is_read_only=True) as unit:
            run = await unit.runs.find(run_id, project=project)
        assert run is not None
        return run

    async def issue_run_token(self, project: str, run_id: str) -> str:
        """A token of that run, good for an hour."""
        run = await self.find_run(project, run_id)
        return (await self.context.issuer.issue_run_token(run, timedelta(hours=1))).text


def password_of(user: str) -> str:
    """What a user of these tests signs in with."""
    return f"{user}'s password"


@asynccontextmanager
async def serve(
    folder: Path,
    *,
    is_open: bool = True,
    clock: Clock | None = None,
    limits: Limits | None = None,
    url: str | None = None,
    options: Mapping[str, Any] | None = None,
    wrap_logs: Callable[[LogStore], Any] | None = None,
    engine: Engine | None = None,
    wrap_blobs: Callable[[BlobStore], Any] | None = None,
    files_store: FilesStore | None = None,
) -> AsyncIterator[Server]:
    """A server whose data is in the folder; nothing listens, requests go straight in."""
    store = await open_store(url or await ensure_sqlite(folder / "runyard.db"))
    logs = open_logs(f"database:{folder}/logs.db")
    blobs = FolderBlobs(folder / "files")
    core = Core(
        store=store,
        vault=open_vault(folder / "keys", text=None),
        logs=logs if wrap_logs is None else wrap_logs(logs),
        clock=clock or SystemClock(),
        engine=engine,
        blobs=blobs if wrap_blobs is None else wrap_blobs(blobs),
        files_store=files_store,
        options=Options(endpoint=ENDPOINT, **(options or {})),
    )
    # Real hashing at its least cost: these tests sign in hundreds of times.
    passwords = Passwords(hasher=PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    issuer = Issuer(core)
    context = ServerContext(
        core=core,
        authenticator=Authenticator(core, issuer=issuer, passwords=passwords, is_open=is_open),
        issuer=issuer,
        limits=limits or Limits(),
    )
    try:
        app = make_app(context)
        yield Server(core=core, context=context, app=add_middleware(app), application=app, passwords=passwords)
    finally:
        await core.logs.close()
        await blobs.close()
        await store.close()
