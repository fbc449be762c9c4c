"""The asynchronous informer: keeps a store equal to what the apiserver has, through every failure it can survive.

One failure level per function:
  run            for ever: list, then watch; what only a new list or an administrator can cure
  _list          one complete list, page by page; repeats a page that failed in passing
  _watch         watches one after another, resumed where the last one ended; what a new request can cure
  _check_revision   before a watch is resumed: whether the server has what was seen last
  _read_page, _watch_once   one HTTP request; every failure leaves them
"""

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from runyard.kube.backoff import TRANSIENT, LoopBackoff
from runyard.kube.client import Client
from runyard.kube.errors import Gone, KubeError, Stalled
from runyard.kube.objects import Object
from runyard.kube.rate_limiter import Priority
from runyard.kube.resources import Resource
from runyard.kube.store import IndexFunction, Store, StoreLimits, WritableStore, is_older
from runyard.kube.subscription import MAX_PENDING, Fanout, ReflectorStopped, Subscription
from runyard.kube.views import Key, build_lens
from runyard.kube.watch import (
    AnyEvent,
    Bookmark,
    Deleted,
    Failure,
    LineBuffer,
    Page,
    Unreadable,
    Wire,
    failure_to_error,
)

V = TypeVar("V")

# How many paged lists may expire before one is taken whole.
_EXPIRED_LISTS = 2
# How many objects that do not fit the view are logged.
_LOGGED_UNREADABLE = 100

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Every duration of a reflector, and the size of its pages."""

    page_size: int = 500
    request_deadline_seconds: float = 60.0
    watch_seconds: tuple[float, float] = (300.0, 600.0)
    """The server ends a watch after a time drawn from this range, so that reconnections spread."""
    read_deadline_seconds: float = 90.0
    """Above the minute between two bookmarks: a longer silence is a dead connection, or a wholly idle server, which
    sends none before its revision has moved past the start of the watch. Either way the watch is opened anew."""
    healthy_after_seconds: float = 30.0
    """A watch that lasts this long resets all delays."""
    backoff_seconds: tuple[float, float] = (0.5, 30.0)
    denied_backoff_seconds: tuple[float, float] = (1.0, 300.0)
    """Short at first: an apiserver that has just started denies everything until it has read its RBAC rules. A right
    that is missing for good costs ten requests in five minutes."""


@dataclass(slots=True)
class Counters:
    """Counts of what a reflector has done."""

    lists: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    unreadable: int = 0
    """Objects that did not fit the view, in lists and events."""


class Restored(KubeError):
    """The server's resourceVersions have gone back, as after the restore of an etcd: list again."""


class Reflector(Generic[V]):
    """Lists and watches one resource into `store`, within one event loop.

    Run it once: `async with`, or `run()` as a task of your own. `view` is a subclass of `View`, or nothing for
    whole objects as dictionaries. While the server cannot be asked, or refuses, the store stays as it was.
    """

    @overload
    def __init__(
        self: "Reflector[Object]",
        client: Client,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexes: Mapping[str, IndexFunction[Object]] | None = None,
        limits: StoreLimits[Object] | None = None,
        timing: Timing | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        view: type[V],
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexes: Mapping[str, IndexFunction[V]] | None = None,
        limits: StoreLimits[V] | None = None,
        timing: Timing | None = None,
    ) -> None: ...

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        view: type[Any] = dict,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexes: Mapping[str, IndexFunction[Any]] | None = None,
        limits: StoreLimits[Any] | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._transport = client.transport
        self._priority = Priority.STATUS if client.priority is None else client.priority
        self._path = resource.path(namespace=namespace)
        self._selectors = {
            name: selector
            for name, selector in (("labelSelector", label_selector), ("fieldSelector", field_selector))
            if selector
        }
        self._timing = timing or Timing()
        self._wire: Wire[V] = Wire(view)
        self._store: WritableStore[V] = WritableStore(
            build_lens(view, resource=resource), indexes=indexes, limits=limits
        )
        self._fanout: Fanout[V] = Fanout(self._path)
        self._backoff = LoopBackoff(
            self._path,
            seconds=self._timing.backoff_seconds,
            denied_seconds=self._timing.denied_backoff_seconds,
        )
        self._resource_version = ""
        self._heard_at: datetime | None = None
        self._watching: asyncio.Timeout | None = None
        self._is_past_valid = True
        """Whether an equal resourceVersion proves an equal state: not after a restore, which begins another history."""
        self._expired_lists = 0
        self._has_synced = False
        self._settled = asyncio.Event()
        self._crash: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_run = False
        self.counters = Counters()

    @property
    def store(self) -> Store[V]:
        """The objects held now; complete once `has_synced`."""
        return self._store

    @property
    def has_synced(self) -> bool:
        """Whether a complete list has been taken; stays true from then on."""
        return self._has_synced

    @property
    def last_error(self) -> KubeError | None:
        """Why the store may be behind; None while a watch is open."""
        return self._backoff.last_error

    @property
    def heard_at(self) -> datetime | None:
        """When the server last said something, or opened a watch. None before the first list.

        A watch that works is silent for `read_deadline_seconds` at most, and is then opened again.
        """
        return self._heard_at

    @property
    def resource_version(self) -> str:
        """The resourceVersion that the store has reached; empty before the first list."""
        return self._resource_version

    def relist(self) -> None:
        """List again, because the server was restored. Until then the store stays as it was."""
        self._is_past_valid = False
        if self._watching is not None and not self._watching.expired():
            self._watching.reschedule(asyncio.get_running_loop().time())

    async def wait_synced(self) -> None:
        """Wait for the first complete list, without a deadline: a missing right shows as `last_error` only."""
        await self._settled.wait()
        if not self._has_synced:
            raise ReflectorStopped(f"{self._path}: ended before its first list") from self._crash

    def subscribe(self, *, max_pending: int | None = MAX_PENDING) -> Subscription[V]:
        """Changed keys from now on, beginning with all that are held; see `runyard.kube.subscription`."""
        return self._fanout.subscribe(tuple(self._store), max_pending=max_pending)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run(), name=f"reflector {self._path}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._end()  # Not done by a task that was cancelled before it ever ran.
            if not self._task.cancelled():
                self._task.result()

    async def run(self) -> None:
        """Keep the store up to date until cancelled. Fails only with what an index function raises."""
        if self._has_run:
            raise RuntimeError("a reflector runs once")
        self._has_run = True
        try:
            while True:
                try:
                    await self._list()
                    await self._watch_until_relist()
                except TimeoutError:
                    _log.debug("%s: is listed again, as it was asked for", self._path)
                except KubeError as error:
                    await self._backoff.pause(error)
        except Exception as error:
            self._crash = error
            raise
        finally:
            self._end()

    async def _watch_until_relist(self) -> None:
        """Watch until a new list is needed; TimeoutError if `relist` asked for it."""
        try:
            async with asyncio.timeout(None) as self._watching:
                await self._watch()
        finally:
            self._watching = None  # not only after the pause that may follow: it cannot be rescheduled any more

    def _end(self) -> None:
        self._settled.set()
        self._fanout.end(self._crash)

    async def _list(self) -> None:
        """Take one complete consistent list and make the store equal to it."""
        staged: dict[Key, V] = {}
        version = token = ""
        while True:
            try:
                page, unreadable = await self._read_page(token)
            except TRANSIENT as error:
                await self._backoff.pause(error)
                continue
            except Gone:
                self._expired_lists += 1
                raise
            for view in page.items or ():
                self._store.stage(staged, view, is_past_valid=self._is_past_valid)
            for item in unreadable:
                self._skip(item)
                self._store.keep(staged, Key(item.namespace, item.name))
            version = version or page.metadata.resource_version
            token = page.metadata.continue_token
            if not token:
                break
        changed = self._store.replace(staged)
        self._is_past_valid = True
        self._expired_lists = 0
        self._resource_version = version
        self._heard_at = datetime.now(UTC)
        self.counters.lists += 1
        self._has_synced = True
        self._settled.set()
        self._fanout.publish(changed, self._store.take_tombstones())

    async def _read_page(self, token: str) -> tuple[Page[V], list[Unreadable]]:
        """One page. No resourceVersion: only a consistent list proves that what is absent is gone.

        Where lists expire between pages again and again, a single page is asked for, which cannot.
        """
        params = dict(self._selectors)
        if self._expired_lists < _EXPIRED_LISTS:
            params["limit"] = str(self._timing.page_size)
        if token:
            params["continue"] = token
        return await self._request_page(params)

    async def _request_page(self, params: Mapping[str, str]) -> tuple[Page[V], list[Unreadable]]:
        body = await self._transport.request(
            "GET",
            self._path,
            params=params,
            priority=self._priority,
            deadline_seconds=self._timing.request_deadline_seconds,
        )
        return self._wire.decode_page(body)

    async def _watch(self) -> None:
        """Run one watch after another, each from the last resourceVersion; raises when a new list is needed."""
        await self._fanout.wait_drained()
        is_resumed = False
        while True:
            failure: KubeError | None = None
            try:
                if is_resumed:
                    await self._check_revision()
                is_resumed = True
                await self._watch_once()
            except Stalled as error:
                # Idle timeout. Not a failure yet: an idle server is as silent as a dead one; the next request tells.
                _log.debug("%s: %s", self._path, error)
            except TRANSIENT as error:
                failure = error
            await self._backoff.pause(failure)

    async def _check_revision(self) -> None:
        """Raise `Restored` if the server is behind what was seen.

        A watch from a resourceVersion of the future is silent, without an error, until the server has come as far.
        """
        page, _ = await self._request_page({**self._selectors, "limit": "1"})
        if is_older(page.metadata.resource_version, than=self._resource_version):
            found, self._is_past_valid = page.metadata.resource_version, False
            raise Restored(f"the server is at resourceVersion {found}, and was at {self._resource_version}")

    async def _watch_once(self) -> None:
        """One watch, from the last resourceVersion until the server ends it; an unfinished last line is dropped."""
        lines = LineBuffer()
        watch_seconds = random.uniform(*self._timing.watch_seconds)  # noqa: S311 - spreads reconnections
        params = {
            **self._selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._resource_version,
            "timeoutSeconds": str(max(1, round(watch_seconds))),
        }
        async with self._transport.stream(
            self._path,
            params=params,
            priority=self._priority,
            read_deadline_seconds=self._timing.read_deadline_seconds,
        ) as chunks:
            self.counters.watches += 1
            self._heard_at = datetime.now(UTC)
            with self._backoff.working(healthy_after_seconds=self._timing.healthy_after_seconds):
                async for chunk in chunks:
                    if complete := lines.feed(chunk):
                        self._apply(self._wire.decode_lines(complete))
                        self._heard_at = datetime.now(UTC)
                        await self._fanout.wait_drained()

    def _skip(self, item: Unreadable) -> None:
        """An object that does not fit the view: what was held of it stays, and the others are read."""
        self.counters.unreadable += 1
        if self.counters.unreadable <= _LOGGED_UNREADABLE:
            _log.warning("%s: cannot read %s/%s: %s", self._path, item.namespace, item.name, item.problem)

    def _apply(self, events: list[AnyEvent[V] | Unreadable]) -> None:
        """Apply the events of one chunk to the store; subscribers are told of each key once."""
        changed: dict[Key, None] = {}
        try:
            for event in events:
                if isinstance(event, Failure):
                    raise failure_to_error(event)
                if isinstance(event, Unreadable):
                    self._skip(event)
                    version = event.version
                elif isinstance(event, Bookmark):
                    self.counters.bookmarks += 1
                    version = event.object.metadata.resource_version
                else:
                    self.counters.events += 1
                    write = self._store.remove if isinstance(event, Deleted) else self._store.upsert
                    if (key := write(event.object)) is not None:
                        changed[key] = None
                    version = self._store.lens.version(event.object)
                self._resource_version = version or self._resource_version
                self._backoff.note_progress()
        finally:
            self._fanout.publish(changed, self._store.take_tombstones())
