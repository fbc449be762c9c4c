"""`LocalProvider`: the pods of the virtual node as supervised processes of this machine."""

import asyncio
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from runyard.node.providers.change_feed import ChangeFeed
from runyard.node.providers.local.container_logs import find_log, iter_log
from runyard.node.providers.local.container_plans import container_plans
from runyard.node.providers.local.exec_tunnel import open_exec, read_request
from runyard.node.providers.local.pod_folder import (
    PodFolder,
    PodRecord,
    ensure_identity,
    iter_pod_folders,
    pod_folder,
    utc_now,
)
from runyard.node.providers.local.pod_status import is_over, render_status
from runyard.node.providers.local.rules import check_workload
from runyard.node.providers.local.volume_files import VolumeFile, volume_contents, write_volume
from runyard.node.providers.provider import (
    Link,
    LogOptions,
    ProviderRefused,
    ProviderUnavailable,
    RemotePod,
    RemotePodMissing,
    StreamKind,
    Tunnel,
    Workload,
)
from runyard.pods.demand import pod_requests
from runyard.procs import (
    InvalidPlan,
    Listener,
    Plan,
    State,
    end_leftovers,
    is_supervised,
    read_state,
    request_stop,
    start,
)
from runyard.spec.kubernetes.quantity import Quantity

REMOVAL_SECONDS = 1.0
"""How long a stopped pod is still shown after its end, so that its exit codes are seen."""
LONGEST_END_SECONDS = 10.0
"""How long a supervisor may take to end everything at once."""

MOST_EXECS = 64
"""At once, over all pods."""

_log = logging.getLogger(__name__)


class LocalProvider:
    """Implements `Provider`, `Identity`, `Logs` and `Relay` on a folder that belongs to one agent alone."""

    kind = "local"

    def __init__(self, root: Path, *, removal_seconds: float = REMOVAL_SECONDS) -> None:
        self._root = root
        self._removal_seconds = removal_seconds
        self._pods: dict[str, RemotePod] = {}
        self._link = Link(is_up=True, has_listed=False, since=datetime.now(UTC))
        self._identity: str | None = None
        self._feed = ChangeFeed()
        self._execs = 0
        self._looking = asyncio.Lock()
        self._locks: dict[str, asyncio.Lock] = {}
        self._removals: dict[str, asyncio.Task[None]] = {}
        self._listener: Listener | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "LocalProvider":
        (self._root / "pods").mkdir(mode=0o700, parents=True, exist_ok=True)
        self._listener = Listener(self._root / "listeners")
        self._identity = await asyncio.to_thread(ensure_identity, self._root)
        await asyncio.to_thread(_remove_unfinished, self._root)
        await self._look_at_all()
        self._link = Link(is_up=True, has_listed=True, since=self._link.since)
        self._task = asyncio.create_task(self._follow(self._listener), name="local provider")
        return self

    async def __aexit__(self, *error: object) -> None:
        tasks = [task for task in (self._task, *self._removals.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    @property
    def link(self) -> Link:
        """This machine is always there."""
        return self._link

    @property
    def identity(self) -> str | None:
        """Of the folder."""
        return self._identity

    @property
    def pods(self) -> Mapping[str, RemotePod]:
        """All pods whose folder has a record."""
        return self._pods

    def changes(self) -> AsyncIterator[frozenset[str]]:
        """Uids of pods that changed, beginning with all."""
        return self._feed.follow(self._pods)

    async def start(self, workload: Workload) -> None:
        """Start every container, unless the pod was started before."""
        check_workload(workload)
        folder = pod_folder(self._root, workload.uid)
        async with self._lock(workload.uid):
            if workload.uid in self._pods:
                return
            record = PodRecord(
                uid=workload.uid,
                namespace=workload.namespace,
                name=workload.name,
                started_at=utc_now(),
                restart_policy=workload.spec.get("restartPolicy", "Always"),
                images={each["name"]: each.get("image", "") for each in workload.spec["containers"]},
                init_images={each["name"]: each.get("image", "") for each in workload.spec.get("initContainers") or ()},
                requests={name: amount.text for name, amount in pod_requests(workload.spec).items()},
            )
            plans = container_plans(workload, folder, path=os.environ.get("PATH", os.defpath))
            volumes = _plan_volumes(workload)
            try:
                pids = await asyncio.to_thread(self._start_all, folder, record, plans, volumes)
            except InvalidPlan as error:
                await asyncio.to_thread(_remove, folder)
                raise ProviderRefused("InvalidContainer", f"the pod cannot be run: {error}") from error
            except OSError as error:
                await asyncio.to_thread(_remove, folder)
                raise ProviderUnavailable(f"the pod cannot be started on this machine: {error}") from error
            for name, pid in pids.items():
                if self._listener is not None:
                    self._listener.watch(folder.container(name), pid=pid)
            await self._look_at(folder)

    async def update(self, workload: Workload) -> None:
        """Bring the files of ConfigMaps and Secrets up to date. The environment stays, as in Kubernetes."""
        folder = pod_folder(self._root, workload.uid)
        async with self._lock(workload.uid):
            if workload.uid in self._pods:
                try:
                    await asyncio.to_thread(_write_volumes, folder, _plan_volumes(workload))
                except OSError as error:
                    raise ProviderUnavailable(f"volumes cannot be written: {error}") from error

    async def stop(self, uid: str, *, grace_seconds: int) -> None:
        """Ask every supervisor to stop; the pod goes when all have ended."""
        folder = pod_folder(self._root, uid)
        async with self._lock(uid):
            if uid in self._pods:
                await asyncio.to_thread(_stop_all, folder, grace_seconds)
                await self._look_at(folder)

    async def clean_up(self, uid: str) -> None:
        """Remove the folder of a pod that is not shown."""
        folder = pod_folder(self._root, uid)
        async with self._lock(uid):
            if uid not in self._pods:
                await asyncio.to_thread(_remove, folder)
                self._locks.pop(uid, None)

    @asynccontextmanager
    async def read_log(self, uid: str, container: str, options: LogOptions) -> AsyncIterator[AsyncIterator[bytes]]:
        """The log of the newest instance of a container, or of the one before."""
        self._find_pod(uid, container)
        supervision = pod_folder(self._root, uid).container(container)
        path, instance = await asyncio.to_thread(find_log, supervision, container, options)
        yield iter_log(supervision, path, instance, options)

    @asynccontextmanager
    async def open_tunnel(
        self,
        kind: StreamKind,
        uid: str,
        container: str | None,
        *,
        method: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
    ) -> AsyncIterator[Tunnel]:
        """Exec by WebSocket or SPDY; attach and port-forward are refused in words."""
        if kind != "exec" or method not in ("GET", "POST"):
            raise ProviderRefused("NotSupported", f"the provider `local` knows exec only, not {kind} by {method}")
        request = read_request(query, headers)
        pod = self._find_pod(uid, container or "")
        if self._execs >= MOST_EXECS:
            raise ProviderRefused("TooManyExecs", f"{self._execs} commands are being executed; allowed: {MOST_EXECS}")
        self._execs += 1
        try:
            supervision = pod_folder(self._root, uid).container(container or "")
            async with open_exec(supervision, f"{pod.name}/{container}", request) as tunnel:
                yield tunnel
        finally:
            self._execs -= 1

    def _find_pod(self, uid: str, container: str) -> RemotePod:
        pod = self._pods.get(uid)
        if pod is None:
            raise RemotePodMissing(f"there is no pod with the uid {uid}")
        statuses = [*pod.status.get("initContainerStatuses", ()), *pod.status["containerStatuses"]]
        if container not in [status["name"] for status in statuses]:
            raise ProviderRefused("NoContainer", f"pod {pod.name} has no container {container!r:.100}")
        return pod

    def _lock(self, uid: str) -> asyncio.Lock:
        return self._locks.setdefault(uid, asyncio.Lock())

    def _start_all(
        self,
        folder: PodFolder,
        record: PodRecord,
        plans: Mapping[str, Plan],
        volumes: Mapping[str, Mapping[str, VolumeFile] | None],
    ) -> dict[str, int]:
        """The record first: from then on nothing is started twice, whatever happens to the agent."""
        folder.path.mkdir(mode=0o700)
        folder.work.mkdir()
        _write_volumes(folder, volumes)
        for name in plans:
            folder.container(name).mkdir(parents=True)
        folder.write_record(record)
        listeners = self._root / "listeners"
        return {name: start(folder.container(name), plan, listeners=listeners) for name, plan in plans.items()}

    async def _look_at_all(self) -> None:
        for folder in await asyncio.to_thread(lambda: list(iter_pod_folders(self._root))):
            await self._look_at(folder)

    async def _follow(self, listener: Listener) -> None:
        async for changed in listener:
            try:
                if changed is None:
                    await self._look_at_all()
                else:
                    await self._look_at(PodFolder(changed.parent.parent))
            except (OSError, ValueError) as error:
                _log.warning("cannot read the state of %s: %s", changed or "all pods", error)

    async def _look_at(self, folder: PodFolder) -> None:
        """Read what the supervisors of one pod say now; one reader at a time, so that nothing older is kept."""
        async with self._looking:
            await self._read(folder)

    async def _read(self, folder: PodFolder) -> None:
        uid = folder.path.name
        record, states, is_deleted = await asyncio.to_thread(_read_pod, folder)
        if record is None:
            return
        for name, state in states.items():
            is_live = state is not None and not state.is_ended
            if is_live and self._listener is not None and not self._listener.watch(folder.container(name)):
                await asyncio.to_thread(_settle, folder.container(name))
                states[name] = await asyncio.to_thread(read_state, folder.container(name))
        self._pods[uid] = RemotePod(
            uid=uid,
            name=f"{record.namespace}/{record.name}",
            status=render_status(record, states),
            requests={name: Quantity.parse(amount) for name, amount in record.requests.items()},
            is_deleting=is_deleted,
        )
        self._feed.publish([uid])
        if is_deleted and is_over(states, record) and uid not in self._removals:
            self._removals[uid] = asyncio.create_task(self._remove_later(folder))

    async def _remove_later(self, folder: PodFolder) -> None:
        uid = folder.path.name
        await asyncio.sleep(self._removal_seconds)
        async with self._looking:
            with suppress(OSError):
                await asyncio.to_thread(_remove, folder)
            self._pods.pop(uid, None)
        self._removals.pop(uid, None)
        self._locks.pop(uid, None)
        self._feed.publish([uid])


def _plan_volumes(workload: Workload) -> dict[str, dict[str, VolumeFile] | None]:
    return {volume["name"]: volume_contents(workload, volume) for volume in workload.spec.get("volumes") or []}


def _write_volumes(folder: PodFolder, volumes: Mapping[str, Mapping[str, VolumeFile] | None]) -> None:
    for name, files in volumes.items():
        if files is None:
            folder.volume(name).mkdir(parents=True, exist_ok=True)
        else:
            write_volume(folder.volume(name), files)


def _read_pod(folder: PodFolder) -> tuple[PodRecord | None, dict[str, State | None], bool]:
    record = folder.read_record()
    if record is None:
        return None, {}, False
    states = {name: read_state(folder.container(name)) for name in record.containers}
    return record, states, folder.is_deleted


def _settle(supervision: Path) -> None:
    """A supervisor that is gone: what it started is ended, and its state says so."""
    if not is_supervised(supervision):
        with suppress(OSError):
            end_leftovers(supervision)


def _stop_all(folder: PodFolder, grace_seconds: int) -> None:
    folder.mark_deleted()
    record = folder.read_record()
    for name in () if record is None else record.containers:
        request_stop(folder.container(name), grace_seconds=grace_seconds)


def _remove(folder: PodFolder) -> None:
    """End what may still run, then remove the folder."""
    containers = folder.path / "containers"
    for supervision in containers.iterdir() if containers.is_dir() else ():
        _end(supervision)
    shutil.rmtree(folder.path, ignore_errors=True)


def _remove_unfinished(root: Path) -> None:
    """Folders of pods that the agent had begun to make when it ended."""
    for folder in iter_pod_folders(root):
        if folder.read_record() is None:
            _remove(folder)


def _end(supervision: Path) -> None:
    ends_at = time.monotonic() + LONGEST_END_SECONDS
    request_stop(supervision, grace_seconds=0)
    while not end_leftovers(supervision) and time.monotonic() < ends_at:
        time.sleep(0.02)
