"""A cache of compiled programs and images, outside the work tree.

An entry is a folder, made aside and renamed into place, so that it is whole or absent. Its name carries the hash
of what decides its content.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from testbed.errors import TestbedError

_KEPT_ENTRIES = 2


def cache_dir() -> Path:
    """Return the directory of compiled programs and image archives, shared by all work trees."""
    chosen = os.environ.get("RUNYARD_TESTBED_CACHE")
    if chosen:
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runyard" / "testbed"


def say(text: str) -> None:
    """Print progress to standard error, because standard output is for results."""
    print(f"testbed: {text}", file=sys.stderr, flush=True)


def ensure_entry(kind: str, *, name: str, key: str, holds: str, make: Callable[[Path, int], None]) -> Path:
    """Return the file `holds` of a cache entry. `make` creates it if it is absent, once for all processes.

    `make` fills an empty folder; it is also given the descriptor of the lock, which a child that must not
    outlive the lock may inherit. If it fails or is interrupted, nothing stays behind.
    """
    parent = cache_dir() / kind
    entry = parent / f"{name}-{key}"
    if _is_used_now(entry / holds):
        return entry / holds
    try:
        with _hold_lock(cache_dir() / f"{kind}.lock", purpose=name) as lock:
            if not _is_used_now(entry / holds):
                shutil.rmtree(entry, ignore_errors=True)
                with _staging(parent) as folder:
                    make(folder, lock)
                    folder.rename(entry)
                _prune(parent, name=name)
    except OSError as error:
        raise TestbedError(
            f"cannot make {name} in the cache {cache_dir()}: {error}; RUNYARD_TESTBED_CACHE names another place"
        ) from error
    return entry / holds


def _is_used_now(file: Path) -> bool:
    """Whether the entry's file exists; if so, mark the entry as used, so that it is not pruned."""
    if not file.exists():
        return False
    with contextlib.suppress(OSError):  # somebody else's cache, to be read only
        os.utime(file.parent)
    return True


@contextlib.contextmanager
def _hold_lock(path: Path, *, purpose: str) -> Iterator[int]:
    """Hold a lock between processes. A process that waits says for whom. Yields the lock's descriptor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            say(f"{purpose}: waiting for {lock.read().strip() or 'another process'}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        print(f"pid {os.getpid()} ({purpose})", file=lock, flush=True)
        yield lock.fileno()


@contextlib.contextmanager
def _staging(parent: Path) -> Iterator[Path]:
    """Yield a temporary directory beside the entries; removed afterwards unless it was renamed. Under the lock only.

    What a killed process left behind is removed first.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(".*.part"):
        shutil.rmtree(left, ignore_errors=True)
    folder = parent / f".{os.getpid()}.part"
    folder.mkdir()
    try:
        with _termination_unwinds():
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _termination_unwinds() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that children and directories are cleaned up."""

    def unwind(signum: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _prune(parent: Path, *, name: str) -> None:
    """Delete all but the most recently used entries of a name."""
    pattern = re.compile(re.escape(name) + "-[0-9a-f]+")
    entries = [entry for entry in parent.iterdir() if pattern.fullmatch(entry.name)]
    entries.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    for entry in entries[_KEPT_ENTRIES:]:
        shutil.rmtree(entry, ignore_errors=True)
