"""What the engine shows on request: the objects of a run, its usage, and the place where runs are executed."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol, TypeVar

from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.engine import (
    LARGEST_DESCRIPTION_BYTES,
    MOST_USAGES,
    Anchor,
    Engine,
    EngineError,
    EngineRefusal,
    EngineUnavailable,
    Metered,
    Usage,
)
from runyard.app.engine_calls import call_engine
from runyard.app.entities import require_project
from runyard.app.errors import NotPossible
from runyard.app.model import Json, Run
from runyard.app.runs import get_run
from runyard.app.sessions.run_anchors import cannot, find_anchor, find_capabilities, get_engine, get_running_anchor
from runyard.domain.lifecycle import State
from runyard.domain.reasons import Reason
from runyard.pods.snapshot import Snapshot, Unseen, sum_allocatable
from runyard.spec.figures import format_bytes

VIEW_SECONDS = 5.0
"""How long a request waits for the engine's view."""
SNAPSHOT_SECONDS = 5.0
"""How long a summary of the snapshot is shown again."""
VIEWS_AT_ONCE = 8
"""Views that are asked of the engine at a time; other requests wait, within their `VIEW_SECONDS`."""
SUM_SECONDS = 10.0
"""How long a request waits for the usage of all runs that it sums up."""
SUMMED_AT_ONCE = 4
"""Runs that are asked for their usage at a time by one request, so that it leaves turns for others."""
MOST_SUMMED_RUNS = 1000
"""How many runs are asked for their usage at most to sum it up, the newest."""
MOST_UNSEEN = 100
"""How many parts of the cluster that the engine may not see are listed."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The objects of a run as the engine describes them, or why they cannot be shown; neither if there are none."""

    objects: Json | None = None
    error: EngineError | NotPossible | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSummary:
    """What the place of the engine has, for admins."""

    at: str
    nodes: int
    pods: int
    allocatable: Json
    unseen: tuple[Json, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineView:
    """The engine of this server."""

    engine: str | None = None
    place: str | None = None
    capabilities: tuple[str, ...] = ()
    snapshot: SnapshotSummary | None = None
    error: EngineError | None = None
    """Why there is no snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSum:
    """What some runs use together. What was not measured counts as nothing."""

    pods: int
    containers: int
    cpu_cores: float
    memory_bytes: int
    disk_bytes: int
    counted_runs: int
    """The runs that are in the sum."""
    total_runs: int
    """All runs that are to be summed up, those beyond `MOST_SUMMED_RUNS` included."""


class _MeteredEngine(Engine, Metered, Protocol):
    """An engine that measures what runs use."""


class EngineViews:
    """Asks the engine on behalf of requests, few at a time. One per process."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._turns = asyncio.Semaphore(VIEWS_AT_ONCE)
        self._summary: SnapshotSummary | None = None
        self._summed_at = float("-inf")
        self._summing = asyncio.Lock()

    async def describe(self, run: Run) -> Described:
        """The objects of a run. A failure of the engine is part of the answer: the run itself is known."""
        engine = self._core.engine
        try:
            anchor = None if engine is None else find_anchor(engine, run)
            if engine is None or anchor is None:
                return Described()
            objects = await self._ask(lambda: engine.describe(anchor))
            await _check_description(objects)
        except (EngineError, NotPossible) as error:
            return Described(error=error)
        return Described(objects=objects)

    async def list_usage(self, project: str, run_id: str) -> Sequence[Usage]:
        """What the containers of a run use; raises `Missing`, `NotSupported`, `NotPossible` and `EngineError`."""
        run, _ = await get_run(self._core, project, run_id)
        engine = get_engine(self._core)
        if not isinstance(engine, Metered):
            raise cannot(engine, "usage")
        anchor = get_running_anchor(engine, run)
        found = await self._ask(lambda: engine.list_usage(anchor))
        return list(islice(found, MOST_USAGES))

    async def sum_run_usage(self, project: str, run_id: str) -> UsageSum:
        """What a run uses now; nothing if it does not run. Raises as `list_usage` does."""
        engine = self._get_metered()
        run, _ = await get_run(self._core, project, run_id)
        anchor = find_anchor(engine, run) if run.state == State.RUNNING else None
        anchors = [] if anchor is None else [anchor]
        return await self._sum_usage(engine, anchors, total_runs=len(anchors))

    async def sum_project_usage(self, project: str) -> UsageSum:
        """What the runs of a project use now: at most `MOST_SUMMED_RUNS`, the newest. Raises as `list_usage` does."""
        return await self._sum_found(project=project)

    async def sum_user_usage(self, user: str) -> UsageSum:
        """What the runs of a user use now, in all projects; bounded as that of a project, by last change."""
        return await self._sum_found(user=user)

    async def sum_all_usage(self) -> UsageSum:
        """What all runs use now; bounded as that of a project, by last change."""
        return await self._sum_found()

    async def _sum_found(self, *, project: str | None = None, user: str | None = None) -> UsageSum:
        engine = self._get_metered()
        async with self._core.store.begin(is_read_only=True) as unit:
            if project is not None:
                await require_project(unit, project)
            # Without documents: a thousand runs have hundreds of megabytes of them.
            runs, total = await unit.runs.list_running(project=project, user=user, limit=MOST_SUMMED_RUNS)
        found = [find_anchor(engine, run) for run in runs]
        return await self._sum_usage(engine, [anchor for anchor in found if anchor is not None], total_runs=total)

    def _get_metered(self) -> _MeteredEngine:
        """The engine; raises `NotSupported`. Called first, so that a server without one reads nothing."""
        engine = get_engine(self._core)
        if not isinstance(engine, Metered):
            raise cannot(engine, "usage")
        return engine

    async def _sum_usage(self, engine: Metered, anchors: Sequence[Anchor], *, total_runs: int) -> UsageSum:
        left = iter(anchors)
        sums: list[UsageSum] = []

        async def sum_next() -> None:
            while (anchor := next(left, None)) is not None:
                sums.append(await self._sum_anchor(engine, anchor))

        try:
            async with asyncio.timeout(SUM_SECONDS), asyncio.TaskGroup() as group:
                for _ in range(SUMMED_AT_ONCE):
                    group.create_task(sum_next())
        except TimeoutError:
            known = f"the engine told the usage of {len(sums)} of {len(anchors)} runs within {SUM_SECONDS:g} s"
            raise EngineUnavailable(Reason.ENGINE_TIMEOUT, f"{known}; ask for that of single runs") from None
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return UsageSum(
            pods=sum(one.pods for one in sums),
            containers=sum(one.containers for one in sums),
            cpu_cores=sum(one.cpu_cores for one in sums),
            memory_bytes=sum(one.memory_bytes for one in sums),
            disk_bytes=sum(one.disk_bytes for one in sums),
            counted_runs=sum(one.counted_runs for one in sums),
            total_runs=total_runs,
        )

    async def _sum_anchor(self, engine: Metered, anchor: Anchor) -> UsageSum:
        found = await self._list_now(engine, anchor)
        return UsageSum(
            pods=len({usage.pod for usage in found}),
            containers=len(found),
            cpu_cores=sum(usage.cpu_cores or 0.0 for usage in found),
            memory_bytes=sum(usage.memory_bytes or 0 for usage in found),
            disk_bytes=await self._ask(partial(engine.sum_disk_bytes, anchor)),
            counted_runs=1,
            total_runs=1,
        )

    async def _list_now(self, engine: Metered, anchor: Anchor) -> Sequence[Usage]:
        """What a run uses; nothing if it ended in this moment."""
        try:
            found = await self._ask(lambda: engine.list_usage(anchor))
        except EngineRefusal:
            return ()
        return list(islice(found, MOST_USAGES))

    async def show_engine(self, *, with_snapshot: bool) -> EngineView:
        """The engine, its place and capabilities; for admins with a summary of its snapshot."""
        engine = self._core.engine
        if engine is None:
            return EngineView()
        summary, failure = None, None
        if with_snapshot:
            try:
                summary = await self._summarize()
            except EngineError as error:
                failure = error
        return EngineView(
            engine=engine.place.engine,
            place=str(engine.place),
            capabilities=find_capabilities(engine),
            snapshot=summary,
            error=failure,
        )

    async def _summarize(self) -> SnapshotSummary:
        """The summary, at most `SNAPSHOT_SECONDS` old; concurrent requests wait for the same one."""
        async with self._summing:
            if self._summary is None or time.monotonic() - self._summed_at >= SNAPSHOT_SECONDS:
                snapshot = await self._ask(get_engine(self._core).snapshot)
                # On a thread: a cluster may have thousands of nodes.
                self._summary = await asyncio.to_thread(_summarize, snapshot)
                self._summed_at = time.monotonic()
            return self._summary

    async def _ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Wait for a turn and for the engine; every failure is an `EngineError`."""

        async def take_turn() -> T:
            async with self._turns:
                return await call()

        return await call_engine(take_turn(), seconds=VIEW_SECONDS)


def _summarize(snapshot: Snapshot) -> SnapshotSummary:
    return SnapshotSummary(
        at=snapshot.at,
        nodes=len(snapshot.nodes),
        pods=len(snapshot.pods),
        allocatable=sum_allocatable(snapshot),
        unseen=tuple(map(_describe_unseen, snapshot.unseen[:MOST_UNSEEN])),
    )


def _describe_unseen(unseen: Unseen) -> dict[str, str]:
    since = {} if unseen.since is None else {"since": unseen.since}
    return {"what": unseen.what, "missing": unseen.missing, **since}


async def _check_description(objects: Json) -> None:
    """Raise `EngineUnavailable` if a description is too large, or is not JSON."""
    try:
        size = await compute(lambda: _count_bytes(objects), over=objects)
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(error).__name__
        raise EngineUnavailable(Reason.ENGINE_FAILED, f"the description is not JSON: {kind}") from None
    if size > LARGEST_DESCRIPTION_BYTES:
        most = format_bytes(LARGEST_DESCRIPTION_BYTES)
        raise EngineUnavailable(Reason.ENGINE_FAILED, f"the description has more than {most}")


def _count_bytes(objects: Json) -> int:
    """The size of a description as JSON; stops counting above `LARGEST_DESCRIPTION_BYTES`."""
    size = 0
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for part in encoder.iterencode(objects):
        size += len(part.encode())
        if size > LARGEST_DESCRIPTION_BYTES:
            break
    return size
