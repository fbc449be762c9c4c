"""Several reflectors of one resource, one per namespace, that look like one to their subscribers.

For a client that may not list all namespaces: namespaces are added and removed while it runs. A client that may, uses
one `Reflector` without a namespace and with a label selector instead; its writes are namespaced either way.
"""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from runyard.kube.client import Client
from runyard.kube.errors import KubeError
from runyard.kube.objects import Object
from runyard.kube.reflector import Counters, Reflector, Timing
from runyard.kube.resources import Resource, is_namespace_name
from runyard.kube.store import IndexFunction, SharedStore, Store
from runyard.kube.subscription import MAX_PENDING, Fanout, ReflectorStopped, Subscription
from runyard.kube.views import Key, build_lens
from runyard.kube.watch import Wire

V = TypeVar("V")

MOST_NAMESPACES = 2000
"""Namespaces of one group: each has a connection with an open watch."""


class ReflectorGroup(Generic[V]):
    """One store and one stream of changes for the namespaces that were added.

    Use it by `async with`, within one event loop. An object that the store lacks is known to be absent only if its
    namespace `is_synced`. A namespace whose list is refused (403) is asked again now and then, and does not hold up the
    others. An index function that raises ends the whole group, as it ends a reflector.
    """

    @overload
    def __init__(
        self: "ReflectorGroup[Object]",
        client: Client,
        resource: Resource,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexes: Mapping[str, IndexFunction[Object]] | None = None,
        timing: Timing | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        view: type[V],
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexes: Mapping[str, IndexFunction[V]] | None = None,
        timing: Timing | None = None,
    ) -> None: ...

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        view: type[Any] = dict,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexes: Mapping[str, IndexFunction[Any]] | None = None,
        timing: Timing | None = None,
    ) -> None:
        if not resource.namespaced:
            raise ValueError(f"{resource.plural} are not namespaced: use a Reflector")
        self._client = client
        self._resource = resource
        self._options: dict[str, Any] = {
            "view": view,
            "label_selector": label_selector,
            "field_selector": field_selector,
            "timing": timing,
        }
        self._store: SharedStore[V] = SharedStore(build_lens(view, resource=resource), indexes=indexes)
        self._wire: Wire[V] = Wire(view)
        self._fanout: Fanout[V] = Fanout(f"{resource.path()} of several namespaces")
        self._members: dict[str, _Member[V]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._crash: BaseException | None = None
        self._is_open = False

    @property
    def store(self) -> Store[V]:
        """The objects of all namespaces."""
        return self._store

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that were added and not removed."""
        return tuple(self._members)

    @property
    def has_synced(self) -> bool:
        """Whether a complete list of every namespace has been taken."""
        return all(member.has_synced for member in self._members.values())

    @property
    def last_errors(self) -> dict[str, KubeError]:
        """Why the store may be behind, by namespace; none for those whose watch is open."""
        return {name: error for name, member in self._members.items() if (error := member.last_error) is not None}

    @property
    def counters(self) -> Counters:
        """Counts of what the reflectors of the present namespaces have done."""
        total = Counters()
        for member in self._members.values():
            total.lists += member.counters.lists
            total.watches += member.counters.watches
            total.events += member.counters.events
            total.bookmarks += member.counters.bookmarks
        return total

    def is_synced(self, namespace: str) -> bool:
        """Whether a complete list of this namespace has been taken since it was added."""
        member = self._members.get(namespace)
        return member is not None and member.has_synced

    async def wait_synced(self, *namespaces: str) -> None:
        """Wait for the first complete list of these namespaces, or of all present ones; no deadline.

        Raises ReflectorStopped where one of them is removed meanwhile, or was never added.
        """
        for namespace in namespaces or self.namespaces:
            member = self._members.get(namespace)
            if member is None:
                raise ReflectorStopped(f"namespace {namespace} is not in the group")
            await member.wait_synced()

    def subscribe(self, *, max_pending: int | None = MAX_PENDING) -> Subscription[V]:
        """Changed keys of all namespaces, also of those added later; see `Reflector.subscribe`."""
        return self._fanout.subscribe(tuple(self._store), max_pending=max_pending)

    def add(self, namespace: str) -> None:
        """Begin to watch a namespace; returns at once. Idempotent.

        The namespace need not exist: Kubernetes treats one that does not like an empty one.
        """
        if not self._is_open or self._crash is not None:
            raise RuntimeError("the group is not open: use it inside `async with`")
        if not is_namespace_name(namespace):
            raise ValueError(f"namespace {namespace!r} is not a DNS label")
        if namespace in self._members:
            return
        if len(self._members) >= MOST_NAMESPACES:
            raise ValueError(f"{MOST_NAMESPACES} namespaces are watched already: not added: {namespace}")
        member: _Member[V] = _Member(self._client, self._resource, namespace=namespace, **self._options)
        member.join(namespace, store=self._store, fanout=self._fanout, wire=self._wire)
        task = asyncio.create_task(member.run(), name=f"reflector {self._resource.path(namespace=namespace)}")
        task.add_done_callback(self._note_end)
        self._members[namespace] = member
        self._tasks[namespace] = task

    async def remove(self, namespace: str) -> None:
        """Stop watching a namespace and drop its objects. Idempotent.

        Subscribers are told of the keys. There are no tombstones: nothing says that the objects were deleted.
        """
        task = self._tasks.pop(namespace, None)
        if task is None:
            return
        # Not a member from now on: what is added again meanwhile is a reflector of its own.
        member = self._members.pop(namespace)
        task.cancel()
        await asyncio.wait([task])
        member.end()
        if namespace not in self._members:
            self._fanout.publish(self._store.forget_namespace(namespace))

    async def __aenter__(self) -> Self:
        if self._is_open:
            raise RuntimeError("a group is opened once")
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for member in self._members.values():
            member.end()
        self._fanout.end(self._crash)
        if self._crash is not None:
            raise self._crash

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """A reflector ends only by cancellation or by a bug of an index function, which ends the group."""
        if task.cancelled() or (crash := task.exception()) is None:
            return
        self._crash = self._crash or crash
        self._fanout.end(self._crash)
        for each in self._tasks.values():
            each.cancel()


class _Member(Reflector[V]):
    """The reflector of one namespace; its store and its subscribers are the group's."""

    def join(self, namespace: str, *, store: SharedStore[V], fanout: Fanout[V], wire: Wire[V]) -> None:
        """Share what the group has; before it runs."""
        self._namespace = namespace
        self._store = self._shared = store
        self._fanout = fanout
        self._wire = wire

    def end(self) -> None:
        """Let go of who waits for the first list; a task that was cancelled before it ran does not."""
        self._settled.set()

    def _replace(self, staged: Mapping[Key, V]) -> list[Key]:
        return self._shared.replace_namespace(self._namespace, staged)

    def _end(self) -> None:
        self.end()  # Not the fanout: it is the group's.
