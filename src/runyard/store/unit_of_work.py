"""A unit of work: one transaction with all repositories."""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import select

from runyard.app.ports import Accounts, Audit, Entities, Firings, Metrics, Replicas, Revisions, Runs, Secrets
from runyard.app.stored_files import Files
from runyard.store import tables
from runyard.store.accounts import SqlAccounts
from runyard.store.audit import SqlAudit
from runyard.store.entities import SqlEntities
from runyard.store.files import SqlFiles
from runyard.store.metrics_and_firings import SqlFirings, SqlMetrics
from runyard.store.queue import read_clock
from runyard.store.replicas import SqlReplicas
from runyard.store.revisions import SqlRevisions
from runyard.store.runs import SqlRuns
from runyard.store.secrets import SqlSecrets
from runyard.store.session import Session


class SqlUnitOfWork:
    """`app.ports.UnitOfWork`; unusable after `commit`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.entities: Entities = SqlEntities(session)
        self.runs: Runs = SqlRuns(session)
        self.secrets: Secrets = SqlSecrets(session)
        self.revisions: Revisions = SqlRevisions(session)
        self.accounts: Accounts = SqlAccounts(session)
        self.audit: Audit = SqlAudit(session)
        self.metrics: Metrics = SqlMetrics(session)
        self.files: Files = SqlFiles(session)
        self.firings: Firings = SqlFirings(session)
        self.replicas: Replicas = SqlReplicas(session)

    async def commit(self, *, meanwhile: Callable[[], None] | None = None) -> None:
        """Commit. Once this returns, the writes survive a crash."""
        await self.session.commit(meanwhile=meanwhile)

    async def read_clock(self) -> datetime:
        """The database's clock, on which leases expire."""
        return await read_clock(self.session)

    async def lock(self, name: str) -> None:
        """Take an exclusive lock of that name until the end of this unit of work; waits for all other holders."""
        await self.session.lock(f"app:{name}")

    async def lock_shared(self, name: str) -> None:
        """Take a shared lock of that name until the end of this unit of work; waits for an exclusive holder only."""
        await self.session.lock(f"app:{name}", is_shared=True)

    async def get_meta(self, name: str) -> str | None:
        """A value of the installation."""
        value: str | None = await self.session.fetch_value(
            select(tables.meta.c.value).where(tables.meta.c.name == name)
        )
        return value

    async def put_meta(self, name: str, value: str) -> None:
        """Create or replace."""
        await self.session.write(
            self.session.insert_into(tables.meta)
            .values(name=name, value=value)
            .on_conflict_do_update(index_elements=["name"], set_={"value": value})
        )
