"""`app.engine.Engine` and `Metered` on this machine.

Every call works on the files of the place; several processes may do so.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial, wraps
from typing import Any, ParamSpec, Self, TypeVar
from uuid import uuid4

from runyard.app.engine import (
    LARGEST_DESCRIPTION_BYTES,
    Anchor,
    AnchorList,
    Assignment,
    EngineRefusal,
    EngineUnavailable,
    KeptVolume,
    LogChunk,
    LogGap,
    LogSource,
    Observation,
    Place,
    Usage,
    VolumeState,
)
from runyard.app.model import Json
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.local import log_files
from runyard.engines.local.capacity.machine import read_machine
from runyard.engines.local.capacity.room import Room
from runyard.engines.local.container_runs import ContainerRuns
from runyard.engines.local.folders import volume_folders
from runyard.engines.local.folders.place import ENGINE, PlaceFolder, open_place
from runyard.engines.local.folders.place_files import Unreadable, lock_file, read_record
from runyard.engines.local.folders.project_folders import (
    ProjectFolder,
    ensure_project_folder,
    find_project_folder,
    move_project_away,
)
from runyard.engines.local.folders.run_folders import AnchorRecord, RunFolder, WishRecord, create_run_folder
from runyard.engines.local.local_settings import LocalSettings
from runyard.engines.local.observations import RESUMABLE, is_live, name_pod, observe_absence
from runyard.engines.local.pod_plans import MAIN, AdmittedRun, Preparation
from runyard.engines.local.preparations import Preparations
from runyard.engines.local.process_usage import UsageMeter
from runyard.engines.local.run_objects import admit_anchor, name_run
from runyard.engines.local.run_reader import ReadRun
from runyard.engines.local.run_starts import RunStarts
from runyard.engines.local.run_watch import RunWatch
from runyard.manifests.identity import PlatformInputs
from runyard.pods.snapshot import Snapshot
from runyard.procs import InvalidPlan, is_supervised, request_stop
from runyard.spec.launcher import LAUNCHER_PATH, Launcher

_log = logging.getLogger(__name__)

LAUNCHER = Launcher(
    image="runyard-launcher",
    install=("true",),
    start=("python3", "-u", f"{LAUNCHER_PATH}/launcher.pyz"),
)
"""As objects state it. Nothing is installed: processes start the launcher from the place."""


P = ParamSpec("P")
T = TypeVar("T")


def _reports_failures(method: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Let the user read why something cannot be done now: a full disk, no more processes."""

    @wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except InvalidPlan as error:
            raise EngineRefusal(Reason.START_FAILED, f"the run cannot be started: {error}") from error
        except OSError as error:
            raise _unavailable(error) from error

    return call


class LocalEngine:
    """`app.engine.Engine`. Made by `open_engine`, in the event loop that it belongs to."""

    def __init__(self, settings: LocalSettings, place: PlaceFolder, room: Room) -> None:
        self.place = Place(ENGINE, place.uid)
        self.platform = PlatformInputs(endpoint=settings.endpoint, has_token=True, launcher=LAUNCHER)
        self._settings = settings
        self._folder = place
        self._room = room
        self._watch = RunWatch(place, on_end=self._end)
        self._containers = ContainerRuns(place)
        self._starts = RunStarts(
            self._watch, room, settings, self.platform, prepare=self._prepare, containers=self._containers
        )
        self._preparations = Preparations(place)
        self._meter = UsageMeter()
        self._retrying: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, settings: LocalSettings) -> Self:
        """The engine at a place, which is made if it is not there. Raises OSError and `Unreadable`."""
        place = await asyncio.to_thread(open_place, settings.folder)
        machine = await asyncio.to_thread(read_machine, place.root)
        room = Room(place.root / "room", machine, is_supervised=is_supervised)
        await asyncio.to_thread(room.open)
        engine = cls(settings, place, room)
        await engine._watch.open()
        engine._retrying = asyncio.create_task(engine._starts.run())
        engine._sweeping = asyncio.create_task(engine._remove_stray_containers())
        return engine

    async def close(self) -> None:
        """Stop watching. Runs continue. Idempotent."""
        if self._retrying is None or self._sweeping is None:
            return
        self._retrying.cancel()
        self._sweeping.cancel()
        await asyncio.gather(self._retrying, self._sweeping, return_exceptions=True)
        self._retrying = self._sweeping = None
        await self._watch.close()
        await asyncio.to_thread(self._room.close)

    async def find_anchor(self, assignment: Assignment) -> str | None:
        """By the place itself."""
        found = self._read(assignment.run_uid)
        return None if found is None else found.files.anchor.uid

    @_reports_failures
    async def ensure_anchor(self, assignment: Assignment) -> str:
        """Make the folder of the run, whole or not at all."""
        await self._watch.take_turn()
        admitted = await admit_anchor(assignment, self.platform)
        await self._watch.take_turn()
        if find_project_folder(self._folder, assignment.project) is None:
            raise EngineUnavailable(Reason.ENGINE_FAILED, f"project {assignment.project} is not prepared at this place")
        if self._folder.find_run_folder(assignment.run_uid) is None:
            raise EngineRefusal(Reason.ANCHOR_TAKEN, "no folder can have the name of this run")
        if (found := self._read(assignment.run_uid)) is not None:
            return found.files.anchor.uid
        record = AnchorRecord(
            place=self._folder.uid,
            uid=uuid4().hex,
            run_uid=assignment.run_uid,
            run_id=assignment.run_id,
            project=assignment.project,
            action=assignment.effective.action,
            name=name_run(assignment, self.platform),
            sequence=time.time_ns(),
        )
        create_run_folder(self._folder, record, WishRecord(generation=assignment.generation), admitted)
        self._watch.note(assignment.run_uid)
        found = self._read(assignment.run_uid)
        if found is None:
            message = "a folder that Runyard did not make has the name of the run's anchor"
            raise EngineRefusal(Reason.ANCHOR_TAKEN, message)
        return found.files.anchor.uid

    @_reports_failures
    async def release(self, assignment: Assignment, uid: str) -> None:
        """Start it, or let it wait for room."""
        await self._starts.start(assignment, uid)

    async def observe(self, anchor: Anchor) -> Observation:
        """By the place itself."""
        found = self._read(anchor.run_uid)
        if found is not None and found.files.anchor.uid == anchor.uid:
            if is_live(found.files) and not found.files.is_supervised:
                self._watch.note(anchor.run_uid)
            return found.observation
        known = self._watch.find_told(anchor.run_uid)
        ends = () if known is None or known.uid != anchor.uid else known.ends
        self._watch.note(anchor.run_uid)
        return observe_absence(anchor, ends)

    async def describe(self, anchor: Anchor) -> Json:
        """The admitted objects of the run without Secrets, and what its supervisor wrote."""
        found, folder = self._read(anchor.run_uid), self._watch.reader.open_folder(anchor.run_uid)
        if found is None or folder is None or found.files.anchor.uid != anchor.uid:
            return {}
        objects = [json.loads(body) for body in folder.read_objects(most_bytes=LARGEST_DESCRIPTION_BYTES // 2)]
        state = found.files.state
        described: Json = {
            "folder": str(folder.path),
            "wish": found.files.wish.wish,
            "generation": found.files.wish.generation,
            "release": found.files.wish.release,
            "objects": objects,
        }
        if state is not None:
            described["supervisor"] = {
                "phase": state.phase,
                "pid": state.supervisor_pid,
                "is_alive": found.files.is_supervised,
                "ports": {str(port): host for port, host in state.ports.items()},
                "enforced": dict(state.enforced),
            }
        return described

    @_reports_failures
    async def stop(self, assignment: Assignment, uid: str) -> None:
        """Ask its supervisor to end it; one that has not started never will."""
        folder = self._watch.reader.open_folder(assignment.run_uid)
        if folder is None:
            return
        async with lock_file(folder.lock_path) as is_there:
            found = self._read(assignment.run_uid) if is_there else None
            if found is None or not _is_obeyed(found, assignment, uid):
                return
            files = found.files
            has_ended = files.state is not None and files.state.is_ended and files.wish.wish != "hold"
            wish = files.wish.wish if has_ended or files.wish.wish == "remove" else "stop"
            if (wish, assignment.generation) != (files.wish.wish, files.wish.generation):
                folder.write_wish(files.wish.change(generation=assignment.generation, wish=wish))
            self._starts.drop(assignment.run_uid)
            if is_live(files):
                request_stop(folder.get_supervision_path(files.wish.release))
        self._watch.note(assignment.run_uid)
        if not is_live(files):
            await self._end(assignment.run_uid)

    @_reports_failures
    async def settle(self, assignment: Assignment, uid: str) -> bool:
        """Note when its folder goes; now if it never ran, or is a service that cannot be resumed.

        Values of secrets are nowhere on disk.
        """
        folder = self._watch.reader.open_folder(assignment.run_uid)
        if folder is None:
            return True
        async with lock_file(folder.lock_path) as is_there:
            found = self._read(assignment.run_uid) if is_there else None
            if found is None or found.files.anchor.uid != uid:
                self._watch.note(assignment.run_uid)
                return not self._watch.has_orphan(assignment.run_uid)
            if not _is_obeyed(found, assignment, uid) or found.files.wish.wish == "remove":
                return False
            if found.observation.seen in (Seen.PENDING, Seen.RUNNING) or is_live(found.files):
                return False
            is_service = found.observation.seen is Seen.STOPPED and found.files.anchor.action in RESUMABLE
            is_kept = is_service and assignment.can_be_resumed
            is_unused = not is_kept and (is_service or not _has_run(found, folder))
            wish = "remove" if is_unused else found.files.wish.wish
            if not found.files.wish.is_settled or wish == "remove":
                ttl = None if is_kept else assignment.effective.ttl_seconds
                folder.write_wish(
                    found.files.wish.change(
                        generation=assignment.generation,
                        wish=wish,
                        is_settled=True,
                        expires_at=None if ttl is None else time.time() + ttl,
                    )
                )
        self._watch.note(assignment.run_uid)
        removed = await self._watch.call(folder.move_work_away, found.files.wish.release)
        if removed is not None:
            self._watch.begin_removal(removed)
        return True

    @_reports_failures
    async def remove(self, anchor: Anchor) -> None:
        """Ask its supervisor to end it; the folder goes when nothing of it runs."""
        folder = self._watch.reader.open_folder(anchor.run_uid)
        if folder is None:
            return
        self._starts.drop(anchor.run_uid)
        found = await self._watch.mark_removed(anchor.run_uid, folder, uid=anchor.uid)
        if found is not None and is_live(found.files):
            request_stop(folder.get_supervision_path(found.files.wish.release))

    async def list_anchors(self) -> AnchorList:
        """Every folder of ours."""
        try:
            return await self._watch.call(self._list_anchors)
        except OSError as error:
            raise _unavailable(error) from error

    def _list_anchors(self) -> AnchorList:
        names, is_complete = self._watch.reader.list_run_uids()
        listed: list[tuple[Anchor, Observation]] = []
        for run_uid in names:
            try:
                found = self._watch.read(run_uid)
            except OSError:
                is_complete = False
                continue
            if found is not None:
                listed.append((found.files.anchor.anchor, found.observation))
        return AnchorList(observations=listed, is_complete=is_complete)

    def changes(self) -> AsyncIterator[Sequence[Observation]]:
        """As they come."""
        return self._watch.subscribe()

    async def list_log_sources(self, anchor: Anchor) -> Sequence[LogSource]:
        """The log files of all its releases."""
        found, folder = self._read(anchor.run_uid), self._watch.reader.open_folder(anchor.run_uid)
        if found is None or folder is None or found.files.anchor.uid != anchor.uid:
            return []
        return log_files.list_sources(folder, found.files.anchor, found.files.wish.release)

    async def follow_log(self, source: LogSource, *, after: str | None = None) -> AsyncIterator[LogChunk | LogGap]:
        """From the file; it is looked at again and again while its process runs."""
        folder = self._watch.reader.open_folder(source.run_uid)
        release = source.pod.rpartition("-")[2]
        if folder is None or not release.isdecimal():
            return
        items = log_files.follow(
            folder.get_supervision_path(int(release)),
            source,
            after=after,
            wait=partial(self._watch.wait, source.run_uid),
            get_news=partial(self._watch.find_told, source.run_uid),
        )
        async for item in items:
            yield item

    async def ensure_project(self, project: str, rules: AdminRules) -> None:  # noqa: ARG002 - admission checks them
        """Make its folder, and as root its user. The rules are checked by admission only."""
        await self._ensure_project(project)

    async def _ensure_project(self, project: str) -> None:
        try:
            await ensure_project_folder(self._folder, project)
        except OSError as error:
            raise _unavailable(error) from error

    async def remove_project(self, project: str) -> bool:
        """Remove its folder with everything in it, when none of its runs lives."""
        listed = await self.list_anchors()
        own = [(anchor, seen) for anchor, seen in listed.observations if anchor.project == project]
        if any(seen.seen in (Seen.PENDING, Seen.RUNNING) for _, seen in own):
            return False
        removed = move_project_away(self._folder, project)
        if removed is not None:
            self._watch.begin_removal(removed)
        return True

    @_reports_failures
    async def ensure_volume(self, volume: KeptVolume) -> VolumeState:
        """Make its folder, or find it."""
        await self._ensure_project(volume.project)
        project = find_project_folder(self._folder, volume.project)
        if project is None:
            raise EngineUnavailable(Reason.ENGINE_FAILED, f"project {volume.project} is not prepared at this place")
        volume_folders.create_volume(self._folder, project, volume)
        found = self._find_volume(volume, await self._list_mounts())
        if found is None:
            raise EngineUnavailable(Reason.VOLUME_LOST, f"claim {volume.claim} was removed at the same time")
        return found

    @_reports_failures
    async def remove_volume(self, volume: KeptVolume) -> bool:
        """Remove its folder, or note that it goes when no run has it mounted."""
        project = find_project_folder(self._folder, volume.project)
        found = self._find_volume(volume, {})
        if project is None or found is None or found.volume_id != volume.volume_id:
            return True
        volume_folders.mark_removing(project, volume.claim)
        # After the mark: no other run mounts it from now on.
        if (volume.project, volume.claim) in await self._list_mounts():
            return False
        removed = volume_folders.move_volume_away(project, volume.claim)
        if removed is not None:
            self._watch.begin_removal(removed)
        return True

    async def list_volumes(self) -> Sequence[VolumeState]:
        """The folders of all projects."""
        return await self._watch.call(volume_folders.list_volumes, self._folder, await self._list_mounts())

    async def snapshot(self) -> Snapshot:
        """This machine, and the runs that have room."""
        return await self._watch.call(self._room.snapshot)

    async def sum_disk_bytes(self, anchor: Anchor) -> int:  # noqa: ARG002 - see below
        """Folders have no size of their own."""
        return 0

    async def list_usage(self, anchor: Anchor) -> Sequence[Usage]:
        """Of the processes that run now; `app.engine.Metered`."""
        found = self._read(anchor.run_uid)
        if found is None or found.files.anchor.uid != anchor.uid or not found.files.is_supervised:
            return []
        files = found.files
        if files.state is None or files.state.is_ended:
            return []
        # The processes of a container may be a daemon's: what they use is not known here.
        is_container = files.release is not None and files.release.is_container
        used = None if is_container else await self._watch.call(self._meter.measure, files.state)
        usage = Usage(
            at=datetime.now(UTC),
            pod=name_pod(files.anchor, files.wish.release),
            container=files.state.instances[-1].command if files.state.instances else MAIN,
            cpu_cores=None if used is None else used.cpu_cores,
            memory_bytes=None if used is None else used.memory_bytes,
        )
        return [usage]

    def _find_volume(self, volume: KeptVolume, mounts: volume_folders.Mounts) -> VolumeState | None:
        return volume_folders.find_volume(self._folder, project=volume.project, claim=volume.claim, mounts=mounts)

    async def _list_mounts(self) -> volume_folders.Mounts:
        return await self._watch.call(self._read_mounts)

    def _read_mounts(self) -> volume_folders.Mounts:
        found: dict[tuple[str, str], tuple[str, ...]] = {}
        for run in self._iter_live():
            for claim in () if run.files.release is None else run.files.release.claims:
                key = (run.files.anchor.project, claim)
                found[key] = (*found.get(key, ()), run.files.anchor.run_uid)
        return found

    async def _prepare(self, assignment: Assignment, run: AdmittedRun, project: ProjectFolder) -> Preparation:
        list_in_use = partial(self._list_environments, assignment.project)
        return await self._watch.call(self._preparations.prepare, assignment, run, project, list_in_use=list_in_use)

    async def _remove_stray_containers(self) -> None:
        """Remove containers that lost their supervisor while no engine was open, as in a restart of the machine."""
        try:
            removed = await self._watch.call(self._containers.remove_strays, is_kept=self._has_supervisor)
        except OSError:
            _log.exception("containers without a supervisor cannot be removed now")
            return
        if removed:
            _log.warning("removed containers without a supervisor", extra={"containers": removed})

    def _has_supervisor(self, run_uid: str, release: int) -> bool:
        folder = self._watch.reader.open_folder(run_uid)
        return folder is not None and is_supervised(folder.get_supervision_path(release))

    def _list_environments(self, project: str) -> set[str]:
        """The environments in which runs of a project execute. Blocks."""
        live = [run.files for run in self._iter_live() if run.files.anchor.project == project]
        return {files.release.environment for files in live if files.release and files.release.environment}

    def _iter_live(self) -> Iterator[ReadRun]:
        for run_uid in self._watch.reader.list_run_uids()[0]:
            with suppress(OSError):
                run = self._watch.read(run_uid)
                if run is not None and is_live(run.files):
                    yield run

    async def _end(self, run_uid: str) -> None:
        await self._starts.end(run_uid)

    def _read(self, run_uid: str) -> ReadRun | None:
        """What is known of a run. Absence is believed only while the place itself can be read."""
        try:
            found = self._watch.read(run_uid)
            if found is None:
                self._check_place()
        except OSError as error:
            raise _unavailable(error) from error
        return found

    def _check_place(self) -> None:
        try:
            record = read_record(self._folder.root / "place.json")
        except Unreadable:
            record = None
        if record is None or record.get("uid") != self._folder.uid:
            raise EngineUnavailable(Reason.ENGINE_FAILED, f"the folder {self._folder.root} is not this place anymore")


def _is_obeyed(found: ReadRun, assignment: Assignment, uid: str) -> bool:
    return found.files.anchor.uid == uid and assignment.generation >= found.files.wish.generation


def _has_run(found: ReadRun, folder: RunFolder) -> bool:
    return found.files.state is not None or folder.has_started(found.files.wish.release)


def _unavailable(error: OSError) -> EngineUnavailable:
    return EngineUnavailable(
        Reason.ENGINE_FAILED, f"the machine or its folder {ENGINE} fails: {error.strerror or error}"
    )
