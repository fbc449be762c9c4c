"""The program that builds a virtual environment, before the run that needs it. Standard library only, Python >= 3.10.

It runs as the project's user, because building a source distribution executes code of strangers. `environments.py`
starts it with `python -c`, in the interpreter that the environment is for. Everything it prints is the run's progress.

A lock per environment lets one process build and the others wait. uv inherits the lock: it stays held until uv has
ended too, even if this program is killed. Without the file `READY` an environment is incomplete and is built anew.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

READY = ".runyard-ready.json"
"""Its modification time is the last use of the environment."""
IDLE_SECONDS = 600.0
"""An environment that was used since then is not removed: a run may be about to start with it."""
CACHE_LOCK_SECONDS = "5"
"""How long the cache is waited for before it is pruned; it is left as it is while others install from it."""

_KEY = re.compile("[0-9a-f]{64}")


def main(arguments: list[str]) -> int:
    """Build the environment that the options describe; returns the exit code."""
    options, requirements = json.loads(arguments[0]), arguments[1:]
    folder = Path(options["folder"])
    target = folder / options["key"]
    os.umask(0o022)
    folder.chmod(0o755)  # a run may have another user than the project's
    Path(os.environ["HOME"]).mkdir(parents=True, exist_ok=True)
    lock = wait_for_lock(target)
    if (target / READY).exists():
        say("the environment is ready")
        return 0
    code = build(target, options, requirements, lock)
    if code != 0:
        shutil.rmtree(target, ignore_errors=True)
        return code
    mark_ready(target)
    os.close(lock)
    if remove_unused(folder, options, keep={target.name, *options["keep"]}):
        prune = [options["uv"], "cache", "prune", "--quiet", "--ci"]
        subprocess.run(prune, env={**os.environ, "UV_LOCK_TIMEOUT": CACHE_LOCK_SECONDS}, check=False)
    return 0


def build(target: Path, options: dict[str, str], requirements: list[str], lock: int) -> int:
    """Make the environment with uv; returns its exit code."""
    if target.is_symlink() or target.exists():
        say("removing what an interrupted build left")
        remove_tree(target)
    say(f"creating a virtual environment with Python {options['version']}")
    uv, python = options["uv"], options["interpreter"]
    code = run([uv, "venv", "--quiet", "--no-project", "--python", python, str(target)], lock)
    if code == 0 and requirements:
        say(f"installing {len(requirements)} requirement{'s' * (len(requirements) != 1)}")
        install = [uv, "pip", "install", "--compile-bytecode", "--python", str(target / "bin/python"), "--"]
        code = run(install + requirements, lock)
    return code


def run(command: list[str], lock: int) -> int:
    """Run uv with the lock, with its output as ours."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, pass_fds=(lock,), check=False)
    return 1 if done.returncode < 0 else done.returncode


def wait_for_lock(target: Path) -> int:
    """The descriptor of the lock of an environment."""
    lock = find_lock(target)
    if lock is None:
        say("waiting for another run that builds the same environment")
    while lock is None:
        lock = find_lock(target, flags=fcntl.LOCK_EX)
    return lock


def find_lock(target: Path, *, flags: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> int | None:
    """The descriptor of the lock; None if another process holds it, or removed it with its environment meanwhile."""
    path = get_lock_path(target)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, flags)
        if os.path.samestat(os.fstat(lock), path.stat()):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock)
    return None


def get_lock_path(target: Path) -> Path:
    """The file beside an environment that its builder locks."""
    return target.with_name(f"{target.name}.lock")


def mark_ready(target: Path) -> None:
    """Say that the environment is complete, and how large it is."""
    size = 0
    for folder, _, names in os.walk(target):
        size += sum(os.lstat(os.path.join(folder, name)).st_blocks * 512 for name in names)
    written = target / f"{READY}.new"
    written.write_text(json.dumps({"bytes": size}))
    written.rename(target / READY)


def remove_unused(folder: Path, options: dict[str, int], *, keep: set[str]) -> bool:
    """Remove interrupted builds, and the least recently used environments beyond the count and size that are kept.

    Returns whether one was removed. One that cannot be removed is left.
    """
    found = sorted((entry for entry in folder.iterdir() if _KEY.fullmatch(entry.name)), key=last_use)
    sizes = {entry: read_size(entry) for entry in found}
    for entry in found:
        is_room = len(sizes) <= options["most"] and sum(sizes.values()) <= options["most_bytes"]
        if (is_room and (entry / READY).exists()) or entry.name in keep:
            continue
        if time.time() - last_use(entry) >= IDLE_SECONDS and remove_environment(entry):
            del sizes[entry]
    return len(sizes) < len(found)


def remove_environment(entry: Path) -> bool:
    """Remove an environment that nobody builds now; returns whether it is gone."""
    try:
        lock = find_lock(entry)
        if lock is None:
            return False
        remove_tree(entry)
        get_lock_path(entry).unlink(missing_ok=True)
        os.close(lock)
    except OSError as error:
        say(f"cannot remove an old environment: {error}")
        return False
    return True


def last_use(entry: Path) -> float:
    """When an environment was last used; when it was made, if its build was interrupted."""
    for path in (entry / READY, entry):
        try:
            return path.lstat().st_mtime
        except OSError:
            continue
    return time.time()


def read_size(entry: Path) -> int:
    """How large an environment said that it is."""
    try:
        return int(json.loads((entry / READY).read_text())["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def remove_tree(path: Path) -> None:
    """Remove it, whatever it is."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
    else:
        (path / READY).unlink(missing_ok=True)
        shutil.rmtree(path)


def say(line: str) -> None:
    """Print a line of progress."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
