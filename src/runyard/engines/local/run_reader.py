"""Reads everything that is known of a run from its folder, and remembers it as long as its files do not change."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from runyard.app.engine import Observation
from runyard.engines.local.folders.place import PlaceFolder, is_file_name
from runyard.engines.local.folders.place_files import Unreadable
from runyard.engines.local.folders.run_folders import ReleaseRecord, RunFolder, has_begun
from runyard.engines.local.observations import RunFiles, Waiting, find_failed_step, observe_run
from runyard.procs import STATE_FILE, State, is_supervised, log_path, read_state

MOST_LISTED_RUNS = 200_000
"""How many run folders of a place are listed; a list of more is not complete."""
LARGEST_STEP_LOG_BYTES = 8192
"""How much of the log of a step that failed is read for the run's message."""
RACY_NANOSECONDS = 100_000_000
"""A file that was changed so recently is read again: its time may be that of another change."""
Signature = tuple[tuple[int, int, int], tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run as its files were read."""

    files: RunFiles
    observation: Observation
    signature: Signature | None
    """Of the files; None if they may change without it."""


class RunReader:
    """Reads runs of one place. Thread-safe: what is remembered is replaced as a whole."""

    def __init__(self, place: PlaceFolder) -> None:
        self._place = place
        self._ended: dict[str, ReadRun] = {}
        """Runs that have ended, whose files need not be read again."""

    def open_folder(self, run_uid: str) -> RunFolder | None:
        """The folder of a run, whether it is there or not; None if no run can have this uid."""
        path = self._place.find_run_folder(run_uid)
        return None if path is None else RunFolder(path)

    def read(self, run_uid: str, *, waiting: Waiting | None = None) -> ReadRun | None:
        """What is known of a run; None if there is no anchor of ours. Small file operations. Raises OSError."""
        folder = self.open_folder(run_uid)
        if folder is None:
            return None
        known = self._ended.get(run_uid)
        if known is not None and waiting is None and known.signature == _sign(folder, known.files.wish.release):
            return known
        files = self._read_files(folder, run_uid, waiting)
        if files is None:
            self._ended.pop(run_uid, None)
            return None
        is_ended = files.state is not None and files.state.is_ended and waiting is None
        signature = _sign(folder, files.wish.release) if is_ended else None
        if signature is not None and not _is_old(signature):
            signature = None
        found = ReadRun(files, observe_run(files), signature)
        if signature is not None:
            self._ended[run_uid] = found
        return found

    def forget(self, run_uid: str) -> None:
        """The run is gone."""
        self._ended.pop(run_uid, None)

    def _read_files(self, folder: RunFolder, run_uid: str, waiting: Waiting | None) -> RunFiles | None:
        try:
            anchor = folder.read_anchor()
            wish = folder.read_wish()
        except Unreadable:
            return None
        if anchor is None or wish is None or (anchor.place, anchor.run_uid) != (self._place.uid, run_uid):
            return None
        if wish.release == 0:
            return RunFiles(anchor=anchor, wish=wish, waiting=waiting)
        supervision = folder.get_supervision_path(wish.release)
        # First whether it is supervised: a state that is read later cannot be older than the end.
        is_alive = is_supervised(supervision)
        state = read_state(supervision)
        return RunFiles(
            anchor=anchor,
            wish=wish,
            release=_read_release(folder, wish.release),
            state=state if is_alive or (state is not None and has_begun(state)) else None,
            is_supervised=is_alive,
            waiting=waiting,
            step_log=_read_step_log(supervision, state),
        )

    def list_run_uids(self) -> tuple[list[str], bool]:
        """The names of all run folders, and whether these are all. Blocks for milliseconds: call it in a thread."""
        names = [name for name in os.listdir(self._place.runs) if is_file_name(name)]
        return names[:MOST_LISTED_RUNS], len(names) <= MOST_LISTED_RUNS


def _read_step_log(supervision: Path, state: State | None) -> bytes:
    """The end of the log of a step that failed."""
    step = None if state is None else find_failed_step(state)
    if step is None:
        return b""
    path = log_path(supervision, step.command, step.instance)
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LARGEST_STEP_LOG_BYTES))
            return file.read(LARGEST_STEP_LOG_BYTES)
    except OSError:
        return b""


def _read_release(folder: RunFolder, number: int) -> ReleaseRecord | None:
    try:
        return folder.read_release(number)
    except Unreadable:
        return None


def _sign(folder: RunFolder, release: int) -> Signature | None:
    """What changes with the files; None if one is gone."""
    try:
        return _stat(folder.wish_path), _stat(folder.get_supervision_path(release) / STATE_FILE)
    except OSError:
        return None


def _is_old(signature: Signature) -> bool:
    """Whether a later change cannot have the same signature: the clock of a file system is coarse (racy timestamps)."""
    return max(changed_at for _, changed_at, _ in signature) < time.time_ns() - RACY_NANOSECONDS


def _stat(path: Path) -> tuple[int, int, int]:
    found = os.stat(path, follow_symlinks=False)
    return found.st_ino, found.st_mtime_ns, found.st_size
