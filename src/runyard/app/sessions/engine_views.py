"""What the engine shows on request: the objects of a run, its usage, and the place where runs are executed."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.engine import (
    LARGEST_DESCRIPTION_BYTES,
    MOST_USAGES,
    EngineError,
    EngineUnavailable,
    Metered,
    Usage,
)
from runyard.app.engine_calls import call_engine
from runyard.app.errors import NotPossible
from runyard.app.model import Json, Run
from runyard.app.runs import get_run
from runyard.app.sessions.run_anchors import cannot, find_anchor, find_capabilities, get_engine, get_running_anchor
from runyard.domain.reasons import Reason
from runyard.pods.snapshot import Snapshot, sum_allocatable
from runyard.spec.figures import format_bytes

VIEW_SECONDS = 5.0
"""How long a request waits for the engine's view."""
SNAPSHOT_SECONDS = 5.0
"""How long a summary of the snapshot is shown again."""
VIEWS_AT_ONCE = 8
"""Views that are asked of the engine at a time; other requests wait, within their `VIEW_SECONDS`."""
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
        unseen=tuple({"what": one.what, "missing": one.missing} for one in snapshot.unseen[:MOST_UNSEEN]),
    )


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
