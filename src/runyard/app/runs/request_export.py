"""Export stored requests for a rehearsal elsewhere: what each run asked for, with its task and function. Only reads.

A request contains the names of secrets, never their values: those are sealed, in tables of their own.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime

from runyard.app.list_query import Query
from runyard.app.model import Json, Run
from runyard.app.ports import Store
from runyard.app.runs.entity_cache import EntityCache
from runyard.app.runs.run_requests import read_run_request
from runyard.spec.problems import Refused
from runyard.spec.recorded_requests import write_recorded_request

SLICE = 50
"""Runs that are read at once. Memory is bounded by their size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFilter:
    """Which runs to export, by project and by the time of their submission."""

    project: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(slots=True)
class RequestExport:
    """Reads the stored requests, oldest first. `counts` is complete once the iteration has ended."""

    store: Store
    wanted: RequestFilter
    counts: Counter[str] = field(default_factory=Counter)
    """Runs by what became of them: `exported`, `local` (executed by their client), `unreadable`."""

    async def iter_documents(self) -> AsyncIterator[Json]:
        """Yield one document per run that the platform was to execute."""
        async for runs in self._iter_slices():
            async with self.store.begin(is_read_only=True) as unit:
                entities = EntityCache(unit.entities)
                documents = [await self._make_document(entities, run) for run in runs]
            for document in documents:
                if document is not None:
                    yield document

    async def _iter_slices(self) -> AsyncIterator[list[Run]]:
        """Yield all runs. Continues after the last one instead of counting pages, which new runs would shift."""
        since, at_since = self.wanted.since, set[str]()
        while True:
            query = Query(
                type="run",
                project=self.wanted.project,
                created=(since, self.wanted.until),
                sort=(("created", "asc"),),
                # Greater than zero only if whole slices were created at the same time.
                page=len(at_since) // SLICE,
                size=SLICE,
            )
            async with self.store.begin(is_read_only=True) as unit:
                found = [run for run in (await unit.runs.find_page(query)).content if isinstance(run, Run)]
            fresh = [run for run in found if run.uid not in at_since]
            if not fresh:
                return
            yield fresh
            last = found[-1].created_at
            same = {run.uid for run in found if run.created_at == last}
            since, at_since = last, at_since | same if last == since else same

    async def _make_document(self, entities: EntityCache, run: Run) -> Json | None:
        # Parsing takes time, and a cache hit does not yield to other tasks.
        await asyncio.sleep(0)
        if run.is_local:
            self.counts["local"] += 1
            return None
        try:
            found = await read_run_request(entities, run.project, run.request)
        except Refused:
            self.counts["unreadable"] += 1
            return None
        if found.function is None:
            self.counts["unreadable"] += 1
            return None
        self.counts["exported"] += 1
        return write_recorded_request(
            run_id=run.id,
            project=run.project,
            created=run.created_at.isoformat(timespec="seconds"),
            run=(found.draft.kind, found.draft.spec),
            task=(found.task.kind, found.task.spec),
            function=(found.function.kind, found.function.spec),
        )
