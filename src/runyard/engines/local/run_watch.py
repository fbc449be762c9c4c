"""Watches the runs of a place: hears of changes, tells subscribers, and does what follows the end of a run.

News come from supervisors and from other engines of the place, by datagrams; the death of a supervisor is news too.
Folders that somebody deleted are found by looking at the folder of runs, twice a second.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from signal import SIGTERM
from threading import Event
from typing import ParamSpec, TypeVar
from weakref import WeakSet

from runyard.app.engine import Observation
from runyard.app.event_waits import wait_at_most
from runyard.domain.outcomes import Seen
from runyard.engines.local.folders.place import PlaceFolder, is_file_name, is_leftover
from runyard.engines.local.folders.place_files import lock_file, remove_tree
from runyard.engines.local.folders.run_folders import RunFolder
from runyard.engines.local.observations import Waiting, choose_newer, is_live
from runyard.engines.local.run_reader import ReadRun, RunReader
from runyard.engines.subscriber import Subscriber
from runyard.procs import (
    Listener,
    end_leftovers,
    find_start_time,
    iter_orphans,
    request_stop,
    send_signal,
    tell_listeners,
)

P = ParamSpec("P")
T = TypeVar("T")

TICK_SECONDS = 0.5
"""How often the folder of runs is looked at."""
THREADS = 4
REMOVING_THREADS = 2
"""Threads that delete files: a run may have left millions, and nothing else waits for them."""
LEFT_SECONDS = 3600
"""After this time nobody works on what is half made or half removed; and how often it is looked for."""
MOST_LEFTOVERS = 10_000
"""How many entries of a folder are looked at for them."""
READ_AT_ONCE = 20
"""How many runs are read before others get a turn."""

_log = logging.getLogger(__name__)


Work = Callable[[], Awaitable[None]]
"""What a task does. Not a coroutine: a task that is cancelled before its first step would never await it."""


class RunWatch:
    """One engine's watch. Opened in the event loop that it belongs to."""

    def __init__(self, place: PlaceFolder, *, on_end: Callable[[str], Awaitable[None]]) -> None:
        """`on_end` is awaited when a run that was live has ended or is gone."""
        self.place = place
        self.reader = RunReader(place)
        self.waiting: dict[str, Waiting] = {}
        """Runs that were released to this engine and cannot start yet."""
        self._on_end = on_end
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="local-engine")
        self._removing = ThreadPoolExecutor(REMOVING_THREADS, thread_name_prefix="local-engine-removals")
        self._is_closed = Event()
        self._subscribers: WeakSet[Subscriber] = WeakSet()
        self._told: dict[str, Observation] = {}
        """The newest observation of each run that is there."""
        self._live: dict[str, tuple[int | None, int | None]] = {}
        """Runs that live, with pid and start time of the supervisor."""
        self._orphans: dict[str, tuple[int, int | None]] = {}
        """Supervisors whose folder somebody deleted, and that are being ended."""
        self._expiries: dict[str, float] = {}
        self._events: dict[str, asyncio.Event] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}
        """Work on a run that must not be begun twice."""
        self._turns = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen_at = -1
        self._listener: Listener | None = None

    async def open(self) -> None:
        """Read what is there, and begin to watch."""
        self._listener = Listener(self.place.listeners)
        await self.look_at_all()
        self._begin(partial(self._listen, self._listener))
        self._begin(self._tick)
        self._begin(self._end_orphans)
        self._begin(self._remove_leftovers)

    async def close(self) -> None:
        """Stop watching. Runs continue."""
        for task in [*self._tasks, *self._busy.values()]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._busy.values(), return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._is_closed.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._removing.shutdown(wait=False, cancel_futures=True)

    async def take_turn(self) -> None:
        """Wait until this task may do some milliseconds of work: one such task per turn of the event loop."""
        async with self._turns:
            await asyncio.sleep(0)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something that blocks, in a thread of the engine."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *args, **kwargs))

    def begin_removal(self, path: Path) -> None:
        """Delete something that was moved away, later. What a crash leaves of it is deleted by `_remove_leftovers`."""
        self._begin(partial(self._remove_tree, path))

    async def _remove_tree(self, path: Path) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._removing, partial(remove_tree, path, is_over=self._is_closed.is_set))

    def subscribe(self) -> AsyncIterator[Sequence[Observation]]:
        """Every change from now on."""
        subscriber = Subscriber(choose_newer)
        self._subscribers.add(subscriber)
        return subscriber.iterate()

    def read(self, run_uid: str) -> ReadRun | None:
        """What is known of a run now; None if it has no anchor."""
        return self.reader.read(run_uid, waiting=self.waiting.get(run_uid))

    def find_told(self, run_uid: str) -> Observation | None:
        """The newest observation that was made of a run that is there."""
        return self._told.get(run_uid)

    def has_orphan(self, run_uid: str) -> bool:
        """Whether processes are left of a run whose folder somebody deleted; they are being ended."""
        pid, start_time = self._orphans.get(run_uid, (None, None))
        if pid is not None and find_start_time(pid) == start_time:
            return True
        self._orphans.pop(run_uid, None)
        return False

    def watch_supervisor(self, supervision: Path, pid: int) -> None:
        """Hear of the death of a supervisor that was just started."""
        if self._listener is not None:
            self._listener.watch(supervision, pid=pid)

    async def wait(self, run_uid: str, seconds: float) -> None:
        """Wait that long, or until something happens to the run."""
        event = self._events.setdefault(run_uid, asyncio.Event())
        await wait_at_most(event, seconds)

    def note(self, run_uid: str) -> None:
        """Something of a run was changed by this engine: read it, tell subscribers and the other engines."""
        self._handle(run_uid)
        if (path := self.place.find_run_folder(run_uid)) is not None:
            tell_listeners(self.place.listeners, path, but=None if self._listener is None else self._listener.name)

    async def look_at_all(self) -> None:
        """Read every run, and those that were there before."""
        names, _ = await self.call(self.reader.list_run_uids)
        for number, run_uid in enumerate({*names, *self._told}, start=1):
            self._handle(run_uid)
            if number % READ_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _handle(self, run_uid: str) -> None:
        """Read a run, tell what is new, and begin what follows from it. A failure concerns this run only."""
        try:
            found = self.read(run_uid)
            if found is None:
                self._handle_absence(run_uid)
            else:
                self._tell(found.observation)
                self._follow_up(run_uid, found)
        except Exception:  # noqa: BLE001 - whatever is wrong with one run must not end the watch over the others
            _log.exception("a run of the local engine cannot be read", extra={"run_uid": run_uid})
        if (event := self._events.pop(run_uid, None)) is not None:
            event.set()

    def _tell(self, observation: Observation) -> None:
        known = self._told.get(observation.run_uid)
        if known is not None and choose_newer(known, observation) is known:
            return
        self._told[observation.run_uid] = observation
        if known == observation:
            return
        for subscriber in list(self._subscribers):
            subscriber.tell(observation)

    def _handle_absence(self, run_uid: str) -> None:
        """Tell it once. A supervisor whose folder was deleted is ended: nobody can observe or stop it anymore."""
        self.reader.forget(run_uid)
        self._expiries.pop(run_uid, None)
        self.waiting.pop(run_uid, None)
        known = self._told.pop(run_uid, None)
        if known is not None:
            absence = Observation(run_uid=run_uid, uid=known.uid, seen=Seen.ABSENT, ends=known.ends)
            for subscriber in list(self._subscribers):
                subscriber.tell(absence)
        pid, start_time = self._live.pop(run_uid, (None, None))
        if pid is not None and send_signal(pid, SIGTERM, start_time=start_time):
            self._orphans[run_uid] = (pid, start_time)
        if known is not None:
            self._begin(partial(self._on_end, run_uid))

    def _follow_up(self, run_uid: str, found: ReadRun) -> None:
        files, folder = found.files, self.reader.open_folder(run_uid)
        if folder is None:
            return
        if is_live(files):
            state = files.state
            self._live[run_uid] = (None, None) if state is None else (state.supervisor_pid, state.supervisor_start_time)
            supervision = folder.get_supervision_path(files.wish.release)
            if not files.is_supervised:
                self._begin_once(run_uid, partial(self._end_leftovers, run_uid, supervision))
            elif self._listener is not None:
                self._listener.watch(supervision)
            is_told = state is not None and state.is_stop_requested
            if files.wish.wish in ("stop", "remove") and files.is_supervised and not is_told:
                # Whoever wrote the wish may have been killed before it told the supervisor.
                request_stop(supervision)
            return
        if self._live.pop(run_uid, None) is not None:
            self._begin(partial(self._on_end, run_uid))
        if files.wish.wish == "remove":
            self._begin_once(run_uid, partial(self._remove, run_uid, folder))
        elif files.wish.expires_at is not None:
            self._expiries[run_uid] = files.wish.expires_at

    async def _end_leftovers(self, run_uid: str, supervision: Path) -> None:
        """A supervisor was killed: end what is left of its processes, and say so."""
        await self.call(end_leftovers, supervision)
        self._busy.pop(run_uid, None)
        self.note(run_uid)

    async def _remove(self, run_uid: str, folder: RunFolder) -> None:
        """Delete a folder whose run has ended."""
        removed = None
        async with lock_file(folder.lock_path) as is_there:
            found = self.read(run_uid) if is_there else None
            if found is not None and found.files.wish.wish == "remove" and not is_live(found.files):
                removed = folder.move_away()
        self._busy.pop(run_uid, None)
        if removed is not None:
            self.note(run_uid)
            self.begin_removal(removed)

    async def _listen(self, listener: Listener) -> None:
        async for folder in listener:
            if folder is None:
                await _contain(self.look_at_all)
                continue
            # Whoever reaches the socket may send anything, also the folder of all runs itself.
            with suppress(ValueError, IndexError):
                self._handle(folder.relative_to(self.place.runs).parts[0])
            # A listener with much news does not wait: others get a turn after each.
            await asyncio.sleep(0)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            await _contain(self._look_at_names)
            await _contain(self._expire)

    async def _look_at_names(self) -> None:
        """Find folders that appeared or were deleted without news. A folder's time changes with its entries."""
        changed_at = os.stat(self.place.runs).st_mtime_ns
        if changed_at == self._seen_at:
            return
        names, is_complete = await self.call(self.reader.list_run_uids)
        present = set(names)
        self._seen_at = changed_at
        gone = self._told.keys() - present if is_complete else set()
        for run_uid in (present - self._told.keys()) | gone:
            self._handle(run_uid)

    async def _expire(self) -> None:
        now = time.time()
        for run_uid in [run_uid for run_uid, at in self._expiries.items() if at <= now]:
            self._expiries.pop(run_uid, None)
            folder = self.reader.open_folder(run_uid)
            if folder is not None:
                await self.mark_removed(run_uid, folder, is_expiry=True)

    async def mark_removed(
        self, run_uid: str, folder: RunFolder, *, uid: str | None = None, is_expiry: bool = False
    ) -> ReadRun | None:
        """Note that a run is to be removed; `uid` names the anchor. Returns what was read, None if it is not there."""
        async with lock_file(folder.lock_path) as is_there:
            found = self.read(run_uid) if is_there else None
            if found is None or (uid is not None and found.files.anchor.uid != uid):
                return None
            wish = found.files.wish
            if wish.wish != "remove" and not (is_expiry and (wish.expires_at is None or is_live(found.files))):
                folder.write_wish(wish.change(wish="remove"))
        self.note(run_uid)
        return found

    async def _end_orphans(self) -> None:
        """End supervisors whose folder was deleted while no engine was open."""
        for pid, start_time in await self.call(list, iter_orphans(self.place.runs)):
            _log.warning("a supervisor without its folder is ended", extra={"pid": pid})
            send_signal(pid, SIGTERM, start_time=start_time)

    async def _remove_leftovers(self) -> None:
        """Delete what a crash left half made or half removed, when nobody has touched it for a while."""
        while True:
            for path in await self.call(_list_leftovers, self.place):
                await _contain(partial(self._remove_tree, path))
            await asyncio.sleep(LEFT_SECONDS)

    def _begin(self, work: Work) -> None:
        task = asyncio.create_task(_contain(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin_once(self, run_uid: str, work: Work) -> None:
        """Begin work on a run, unless other such work has begun."""
        if run_uid in self._busy:
            return
        task = asyncio.create_task(_contain(work))
        self._busy[run_uid] = task
        task.add_done_callback(partial(self._finish, run_uid))

    def _finish(self, run_uid: str, task: asyncio.Task[None]) -> None:
        if self._busy.get(run_uid) is task:
            del self._busy[run_uid]


async def _contain(work: Work) -> None:
    try:
        await work()
    except Exception:  # noqa: BLE001 - the failure of one run must not end the watch over the others
        _log.exception("work of the local engine failed")


def _list_leftovers(place: PlaceFolder) -> list[Path]:
    """What was left among the runs, the projects and the volumes of each project, a bounded part of it."""
    projects = [path / "volumes" for path in _list_folder(place.projects) if is_file_name(path.name)]
    found = [path for folder in (place.runs, place.projects, *projects) for path in _list_folder(folder)]
    return [path for path in found if is_leftover(path.name) and _is_old(path)]


def _list_folder(folder: Path) -> list[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [folder / entry.name for entry in islice(entries, MOST_LEFTOVERS)]
    return []


def _is_old(path: Path) -> bool:
    with suppress(OSError):
        return os.lstat(path).st_mtime < time.time() - LEFT_SECONDS
    return False
