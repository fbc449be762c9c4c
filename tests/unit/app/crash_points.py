"""A process that dies after the k-th thing it did to the world, and does nothing more from then on.

To die before a thing is to die after the one before it: these are all the moments that differ.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from runyard.app.ports import UnitOfWork
from runyard.store import SqlStore


class Crash(BaseException):
    """The process is dead."""


class Fate:
    """Counts what was done, and ends it at its time."""

    def __init__(self, dies_after: int | None) -> None:
        self._left = dies_after

    async def pass_point(self, name: str) -> None:
        """Raises `Crash` once the time has come, and ever after. Names of things that were done end in `done`."""
        if self._left is None:
            return
        if self._left <= 0:
            raise Crash
        if name.endswith("done"):
            self._left -= 1
            await self.pass_point("")


class MortalStore:
    """`app.ports.Store` with a point before and after everything that lasts."""

    def __init__(self, store: SqlStore, fate: Fate) -> None:
        self._store = store
        self._fate = fate

    @property
    def is_shared(self) -> bool:
        return self._store.is_shared

    async def find_free_bytes(self) -> int | None:
        return await self._store.find_free_bytes()

    @asynccontextmanager
    async def begin(self, *, is_read_only: bool = False, is_urgent: bool = False) -> AsyncIterator[UnitOfWork]:
        await self._fate.pass_point("begin")
        async with self._store.begin(is_read_only=is_read_only, is_urgent=is_urgent) as unit:
            commit = unit.commit

            async def commit_at_risk(*, meanwhile: Callable[[], None] | None = None) -> None:
                await self._fate.pass_point("commit")
                await commit(meanwhile=meanwhile)
                await self._fate.pass_point("commit done")

            unit.commit = commit_at_risk  # type: ignore[method-assign]
            yield unit

    def listen(self) -> AsyncIterator[Sequence[str]]:
        return self._store.listen()

    async def close(self) -> None:
        await self._store.close()


class MortalLogs:
    """`app.log_store.LogStore` with a point before and after everything that lasts."""

    def __init__(self, logs: Any, fate: Fate) -> None:
        self._logs = logs
        self._fate = fate

    async def delete(self, run_uid: str) -> None:
        await self._act(self._logs.delete(run_uid))

    async def append(self, *arguments: Any, **options: Any) -> Any:
        return await self._act(self._logs.append(*arguments, **options))

    async def finish(self, *arguments: Any, **options: Any) -> Any:
        return await self._act(self._logs.finish(*arguments, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logs, name)

    async def _act(self, act: Awaitable[Any]) -> Any:
        try:
            await self._fate.pass_point("logs")
        except Crash:
            act.close()  # type: ignore[attr-defined]
            raise
        answer = await act
        await self._fate.pass_point("logs done")
        return answer
