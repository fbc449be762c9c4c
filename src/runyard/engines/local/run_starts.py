"""Starts runs: admission, the user, the environment, room on the machine, and then a supervisor.

A run that has no room waits in memory, with its assignment and without secrets: they are read when it starts. On disk
it is held back until then, so after a restart the Core releases it again.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from runyard.app.engine import Assignment, EngineError, EngineUnavailable
from runyard.domain.admission import AdmittedObjects
from runyard.domain.reasons import Reason
from runyard.engines.local.capacity.amounts import read_demand
from runyard.engines.local.capacity.claim_journal import Claim
from runyard.engines.local.capacity.machine import gpu_environment
from runyard.engines.local.capacity.room import Room, Share
from runyard.engines.local.container_runs import ContainerRuns, choose_container_identity
from runyard.engines.local.folders.place_files import lock_file
from runyard.engines.local.folders.project_folders import ProjectFolder, find_project_folder
from runyard.engines.local.folders.run_folders import ReleaseRecord, RunFolder, WishRecord
from runyard.engines.local.folders.volume_folders import find_volume
from runyard.engines.local.local_settings import LocalSettings
from runyard.engines.local.observations import RunFiles, Waiting, is_live
from runyard.engines.local.pod_plans import (
    AdmittedRun,
    Owner,
    Paths,
    PlanInputs,
    Preparation,
    choose_identity,
    describe_service,
    find_memory_limit,
    find_not_enforced,
    list_kept_claims,
    make_plan,
)
from runyard.engines.local.run_objects import admit_run, parse_admitted
from runyard.engines.local.run_watch import RunWatch
from runyard.engines.local.user_numbers import read_accounts
from runyard.manifests.identity import PlatformInputs
from runyard.manifests.workloads import get_replicas
from runyard.procs import Identity, Plan, start
from runyard.spec.kinds.registry import get_kind

RETRY_SECONDS = 5.0
"""How often runs that wait are tried again although nothing ended here: runs of other engines end too."""
MOST_WAITING = 10_000
"""How many runs wait in the memory of one server; the Core releases the others again later."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Queued:
    """A run that waits for room."""

    assignment: Assignment
    uid: str
    claim: Claim


class RunStarts:
    """Starts the runs of one engine."""

    def __init__(
        self,
        watch: RunWatch,
        room: Room,
        settings: LocalSettings,
        platform: PlatformInputs,
        *,
        prepare: Callable[[Assignment, AdmittedRun, ProjectFolder], Awaitable[Preparation]],
        containers: ContainerRuns,
    ) -> None:
        self._watch = watch
        self._room = room
        self._settings = settings
        self._platform = platform
        self._prepare = prepare
        self._containers = containers
        self._queue: dict[str, _Queued] = {}
        self._is_retrying = self._is_asked = False

    async def start(self, assignment: Assignment, uid: str) -> None:
        """Start a run, or let it wait for room. Raises `EngineRefusal` and `EngineUnavailable`."""
        folder = self._watch.reader.open_folder(assignment.run_uid)
        found = self._watch.read(assignment.run_uid)
        if folder is None or found is None or found.files.anchor.uid != uid:
            return
        if not is_due(found.files, assignment):
            await self._obey(assignment, uid, folder)
            return
        await self._watch.take_turn()
        admitted = await admit_run(assignment, uid, self._platform)
        run = parse_admitted(admitted)
        claim = Claim(
            run_uid=assignment.run_uid,
            sequence=found.files.anchor.sequence,
            demand=read_demand(run.pod, list(run.claims.values())),
            supervision=folder.get_supervision_path(found.files.wish.release + 1),
        )
        if is_live(found.files):
            await self._wait(assignment, uid, claim, Waiting(Reason.ENGINE_RELEASED, "waits until it has stopped"))
            return
        prepared = await self._make_plan(assignment, run, folder, claim, share=Share(assignment.run_uid))
        share = await self._watch.call(self._room.take, claim)
        if isinstance(share, Share):
            if share.gpus:
                prepared = await self._make_plan(assignment, run, folder, claim, share=share)
            await self._start_or_give_back(assignment, uid, admitted, claim, prepared)
            return
        reason = Reason.RESOURCES_IMPOSSIBLE if share.is_impossible else Reason.RESOURCES_WAITING
        await self._wait(assignment, uid, claim, Waiting(reason, str(share)))

    def drop(self, run_uid: str) -> None:
        """The run waits no longer."""
        self._queue.pop(run_uid, None)
        self._watch.waiting.pop(run_uid, None)

    async def end(self, run_uid: str) -> None:
        """A run has ended: its room is free for others."""
        await self._watch.call(self._room.give_back, run_uid)
        if (queued := self._queue.get(run_uid)) is not None:
            await self._start_contained(queued)
        await self.retry()

    async def run(self) -> None:
        """Try again from time to time, and say anew what runs wait for; until it is cancelled."""
        while True:
            await asyncio.sleep(RETRY_SECONDS)
            try:
                await self.retry()
                await self._explain()
            except Exception:  # noqa: BLE001 - whatever it is, runs that wait are tried again
                _log.exception("runs that wait cannot be started now")

    async def retry(self) -> None:
        """Start the runs that have room now, in the order of their anchors."""
        self._is_asked = True
        if self._is_retrying:
            return  # whoever is at it looks once more
        self._is_retrying = True
        try:
            while self._is_asked and self._queue:
                self._is_asked = False
                for share in await self._watch.call(self._room.retry):
                    queued = self._queue.get(share.run_uid)
                    if queued is None:
                        await self._watch.call(self._room.give_back, share.run_uid)
                    else:
                        await self._start_contained(queued)
        finally:
            self._is_retrying = False

    async def _explain(self) -> None:
        """Say anew what the first runs wait for. Not all, and not at each end: every change is a write of the Core."""
        if not self._queue:
            return
        for run_uid, shortage in (await self._watch.call(self._room.list_shortages)).items():
            if run_uid in self._queue:
                self._set_waiting(run_uid, Waiting(Reason.RESOURCES_WAITING, str(shortage)))

    async def _start_contained(self, queued: _Queued) -> None:
        """Start a run that waited. If that fails, its anchor is held back again, and the Core releases it again."""
        run_uid = queued.assignment.run_uid
        self.drop(run_uid)
        try:
            await self.start(queued.assignment, queued.uid)
        except Exception as error:  # noqa: BLE001 - one run's failure must not keep the others waiting
            is_known = isinstance(error, EngineError)
            _log.warning(
                "a run that waited cannot be started: %s", error, extra={"run_uid": run_uid}, exc_info=not is_known
            )
        found = self._watch.read(run_uid)
        if run_uid not in self._queue and (found is None or not is_live(found.files)):
            # It has its room since `retry`, and may also have been stopped by another engine meanwhile.
            await self._watch.call(self._room.give_back, run_uid)
            self._watch.note(run_uid)

    def _set_waiting(self, run_uid: str, waiting: Waiting) -> None:
        if self._watch.waiting.get(run_uid) != waiting:
            self._watch.waiting[run_uid] = waiting
            self._watch.note(run_uid)

    async def _wait(self, assignment: Assignment, uid: str, claim: Claim, waiting: Waiting) -> None:
        """Queue it, and note on disk that it obeyed this generation; unless it was told something newer."""
        folder = self._watch.reader.open_folder(assignment.run_uid)
        if folder is None:
            return
        if len(self._queue) >= MOST_WAITING and assignment.run_uid not in self._queue:
            raise EngineUnavailable(waiting.reason, f"{waiting.message}; {MOST_WAITING} others wait already")
        async with lock_file(folder.lock_path) as is_there:
            found = self._watch.read(assignment.run_uid) if is_there else None
            if found is None or found.files.anchor.uid != uid or not is_due(found.files, assignment):
                return
            wish = found.files.wish
            if (wish.generation, wish.wish) != (assignment.generation, "hold"):
                folder.write_wish(wish.change(generation=assignment.generation, wish="hold", **_UNSETTLED))
            self._queue[assignment.run_uid] = _Queued(assignment, uid, claim)
        self._set_waiting(assignment.run_uid, waiting)
        # What it waits for may have happened meanwhile.
        found = self._watch.read(assignment.run_uid)
        if found is not None and not is_live(found.files) and waiting.reason == Reason.ENGINE_RELEASED:
            await self.end(assignment.run_uid)

    async def _obey(self, assignment: Assignment, uid: str, folder: RunFolder) -> None:
        """Nothing is to be started; only the generation is noted."""
        async with lock_file(folder.lock_path) as is_there:
            found = self._watch.read(assignment.run_uid) if is_there else None
            if found is None or found.files.anchor.uid != uid:
                return
            wish = found.files.wish
            if assignment.generation <= wish.generation or is_due(found.files, assignment):
                return
            folder.write_wish(wish.change(generation=assignment.generation))
        self._watch.note(assignment.run_uid)

    async def _make_plan(
        self, assignment: Assignment, run: AdmittedRun, folder: RunFolder, claim: Claim, *, share: Share
    ) -> "_Prepared":
        """Everything that may be refused, before room is taken."""
        project = find_project_folder(self._watch.place, assignment.project)
        if project is None:
            raise EngineUnavailable(Reason.ENGINE_FAILED, f"project {assignment.project} is not prepared here")
        is_container = not get_kind(assignment.effective.kind).needs_launcher
        owner = _read_owner(project, is_container=is_container)
        identity = choose_container_identity(run, owner) if is_container else choose_identity(run, owner)
        claims = list_kept_claims(run)
        self._check_claims(assignment.project, claims)
        release = claim.supervision.parent
        paths = _name_paths(release, folder, project)
        preparation = Preparation() if is_container else await self._prepare(assignment, run, project)
        inputs = PlanInputs(
            run=run,
            identity=identity,
            paths=paths,
            preparation=preparation,
            variables=gpu_environment(share.gpus),
            log_bytes=self._settings.largest_log_bytes,
            processes=self._settings.most_processes,
        )
        not_enforced = find_not_enforced(run, replicas=get_replicas(assignment.effective), is_container=is_container)
        if is_container:
            plan, warnings = await self._watch.call(
                self._containers.plan, inputs, run_uid=assignment.run_uid, release=int(release.name), gpus=share.gpus
            )
            not_enforced += warnings
        else:
            plan = make_plan(inputs)
        record = ReleaseRecord(
            claims=tuple(claims),
            demand=claim.demand,
            memory_limit_bytes=find_memory_limit(run),
            is_container=is_container,
            environment=preparation.environment,
            service=describe_service(run),
            not_enforced=tuple(not_enforced),
        )
        return _Prepared(plan, record, paths, identity if owner.is_root else None, run)

    def _check_claims(self, project: str, claims: list[str]) -> None:
        for claim in claims:
            volume = find_volume(self._watch.place, project=project, claim=claim, mounts={})
            if volume is None:
                raise EngineUnavailable(Reason.VOLUME_LOST, f"claim {claim} is not there")
            if volume.phase == "removing":
                raise EngineUnavailable(Reason.VOLUME_REMOVING, f"claim {claim} is being removed")

    async def _start_or_give_back(
        self, assignment: Assignment, uid: str, admitted: AdmittedObjects, claim: Claim, prepared: "_Prepared"
    ) -> None:
        is_started = False
        try:
            is_started = await self._start(assignment, uid, admitted, claim, prepared)
        finally:
            if not is_started:
                found = self._watch.read(assignment.run_uid)
                if found is None or not is_live(found.files):
                    await self._watch.call(self._room.give_back, assignment.run_uid)

    async def _start(
        self, assignment: Assignment, uid: str, admitted: AdmittedObjects, claim: Claim, prepared: "_Prepared"
    ) -> bool:
        """Start its supervisor under the lock, unless it was told something newer; returns whether it did."""
        run_uid = assignment.run_uid
        folder = self._watch.reader.open_folder(run_uid)
        if folder is None:
            return False
        await self._watch.take_turn()
        async with lock_file(folder.lock_path) as is_there:
            found = self._watch.read(run_uid) if is_there else None
            if found is None or found.files.anchor.uid != uid or not is_due(found.files, assignment):
                return False
            number = int(claim.supervision.parent.name)
            if is_live(found.files) or number != found.files.wish.release + 1:
                return False
            folder.create_release(number, prepared.record)
            folder.write_objects(admitted)
            prepared.make_folders()
            claim.supervision.mkdir(mode=0o700)
            # First the wish: if the server is killed in between, the run is seen held back, and is released again.
            folder.write_wish(_next_wish(found.files, assignment, number))
            self.drop(run_uid)
            pid = start(claim.supervision, prepared.plan, listeners=self._watch.place.listeners)
        self._watch.watch_supervisor(claim.supervision, pid)
        self._watch.note(run_uid)
        await self._watch.call(self._room.confirm, run_uid)
        return True


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A release that can be started."""

    plan: Plan
    record: ReleaseRecord
    paths: Paths
    identity: Identity | None
    """Whom the folders belong to; None: the server's own user."""
    run: AdmittedRun

    def make_folders(self) -> None:
        """Make the folders of the release. Those above are the server's own, so nobody can put a link there."""
        paths = self.paths
        paths.termination.mkdir(mode=0o711)
        paths.volumes.mkdir(mode=0o711)
        for path in (paths.work, paths.temporary):
            path.mkdir(mode=0o700)
            self._give(path)
        for volume in self.run.pod.get("volumes") or ():
            is_on_disk = "emptyDir" in volume and volume["emptyDir"].get("medium") != "Memory"
            if "ephemeral" in volume or is_on_disk:
                self._make_shared(paths.volumes / str(volume["name"]))
        for name in self.run.claims:
            self._make_shared(paths.run_claims / name)

    def _make_shared(self, path: Path) -> None:
        """Make the folder of a volume; only the run reaches it."""
        if path.exists():
            return
        path.mkdir()
        path.chmod(0o777)
        self._give(path)

    def _give(self, path: Path) -> None:
        if self.identity is not None:
            groups = self.identity.groups
            os.chown(path, self.identity.uid, groups[0] if groups else self.identity.gid)


def _read_owner(project: ProjectFolder, *, is_container: bool) -> Owner:
    """Who executes runs of a project on this machine."""
    return Owner(
        user=os.geteuid(),
        groups=frozenset({os.getegid(), *os.getgroups()}),
        project_user=project.user,
        # A container has files and processes of its own, whatever its user's number means outside.
        accounts={} if is_container else read_accounts(),
        account_groups={} if is_container else read_accounts(Path("/etc/group")),
    )


def _name_paths(release: Path, folder: RunFolder, project: ProjectFolder) -> Paths:
    return Paths(
        work=release / "work",
        temporary=release / "tmp",
        termination=release / "termination",
        volumes=release / "volumes",
        run_claims=folder.path / "claims",
        kept_volumes=project.volumes,
    )


_UNSETTLED = {"is_settled": False, "expires_at": None}


def is_due(files: RunFiles, assignment: Assignment) -> bool:
    """Whether a release of this generation starts the run: it is held back, or was stopped before."""
    wish = files.wish
    if assignment.generation < wish.generation or wish.wish == "remove":
        return False
    if wish.wish == "hold":
        return True
    if wish.wish == "run":
        return files.state is None and not files.is_supervised
    is_newer = assignment.generation > wish.generation
    return is_newer and (files.state is None or not files.state.is_ended or files.state.is_stop_requested)


def _next_wish(files: RunFiles, assignment: Assignment, number: int) -> WishRecord:
    before = 0 if files.state is None else files.state.version
    wish = files.wish
    return wish.change(
        version=wish.version + before + 1,
        generation=assignment.generation,
        wish="run",
        release=number,
        **_UNSETTLED,
    )
