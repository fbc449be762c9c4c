"""The program that a supervisor starts in place of `podman run` or `docker run`: `python -S -I container_process.py`.

`run` takes an order on its standard input, because the order holds secrets: it writes them into a folder in memory,
and becomes the runtime. `image` makes sure that the image is there. `stop`, `inspect` and `cleanup` are the hooks of
the supervision; cleanup also runs after a supervisor was killed. Standard library only, and nothing of ours.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

CALL_SECONDS = 60
"""How long one call of the runtime may take, besides a pull and the grace of a stop."""
APPEARANCE_SECONDS = 10.0
"""How long `stop` waits for a container that is still being created."""
PLACEHOLDER = "$(RUNYARD_PORT_"
CGROUPS = Path("/sys/fs/cgroup")
CGROUP_PARENT = "runyard-containers"
"""The cgroup below which every container gets a cgroup of its own, from which its peak memory is read."""
REMOVAL_SECONDS = 20.0
"""How long `cleanup` tries to remove a container."""
EMPTY_SECONDS = 2.0
"""How long `cleanup` waits for the cgroup of a container to be empty."""
FILES = "files"
"""The folder, in the container's folder in memory, of its secrets, configuration and environment."""
STARTED_FILE = "started"
"""The file, in the container's folder in memory, that the runtime writes when it starts the container."""
OOM_FILE = "oom"
"""What conmon, which podman starts from the container's folder, leaves there if the container was out of memory."""
FULL_SHARE = 0.98
"""A container killed at a peak of this share of its limit is out of memory, where the runtime cannot tell."""
BIND = "bind-"
"""Begins the names of folders below volumes that are mounted in the container's folder."""
_FATAL_SIGNALS = frozenset(
    (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV)
)
_MS_BIND, _MNT_DETACH = 4096, 2
_RESOLVE_BENEATH, _RESOLVE_NO_SYMLINKS, _SYS_OPENAT2 = 0x08, 0x04, 437

Handle = Mapping[str, Any]
"""Names the container, how to call the runtime, and the container's folder in memory. Holds no secrets."""


def main(argv: Sequence[str]) -> int:
    """Run one command of this program."""
    action, encoded, *rest = argv
    handle: Handle = json.loads(encoded)
    if action == "stop":
        return stop(handle, grace_seconds=int(rest[0]))
    if action == "run":
        run(handle, json.load(sys.stdin), ports=dict(text.split("=", 1) for text in rest))
    actions: dict[str, Callable[[Handle], int]] = {
        "image": ensure_image,
        "inspect": inspect,
        "cleanup": cleanup,
    }
    return actions[action](handle)


def run(handle: Handle, order: Mapping[str, Any], *, ports: Mapping[str, str]) -> None:
    """Write files and mounts of the order into the folder in memory, then become the runtime. Does not return."""
    taken = [port for port, host_port in ports.items() if port != host_port and order["has_host_ports"]]
    if taken:
        sys.exit(
            f"port {', '.join(taken)} of this machine is taken, and the container runtime cannot publish another one"
        )
    folder = Path(handle["folder"])
    if folder.exists():
        cleanup(handle)
    (folder / FILES).mkdir(mode=0o755, parents=True)
    for file in order["files"]:
        _write_file(folder / FILES, file)
    for number, bind in enumerate(order["binds"]):
        _bind_sub_path(Path(bind["source"]), bind["sub_path"], target=folder / f"{BIND}{number}")
    image = next(
        (name for name in order["images"][:-1] if _call(handle, "image", "inspect", name)), order["images"][-1]
    )
    argv = [image if part == order["image_mark"] else part for part in order["argv"]]
    for port, host_port in ports.items():
        argv = [part.replace(f"{PLACEHOLDER}{port})", host_port) for part in argv]
    if order["termination_path"] is not None:
        # The container's user writes to it; nobody else can reach it.
        Path(order["termination_path"]).chmod(0o666)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    mark = {name: os.environ[name] for name in ("RUNYARD_SUPERVISION",) if name in os.environ}
    os.execve(argv[0], argv, {**handle["env"], **order["env"], **mark})


def ensure_image(handle: Handle) -> int:
    """Pull the image where its policy says so; prints why it is not there.

    This process has the variables of the usual podman or docker. Those of proxies, which only a pull needs, may hold
    passwords; the handle is stored on disk, and has none of them.
    """
    policy, names = handle["pull_policy"], handle["images"]
    if policy != "Always":
        if has_image(handle):
            return 0
        if handle["copies_images"] and _copy_image(handle):
            return 0
    if policy == "Never":
        sys.stderr.write(f"the image {names[-1]} is not on this machine, and its pull policy is Never\n")
        return 1
    # A name without a registry is one of Docker Hub, as everywhere in Runyard, whatever podman is configured to search.
    puller, env = [handle["usual"]], dict(os.environ)
    if handle["copies_images"]:
        puller, env = handle["runtime"], {**os.environ, **handle["env"]}
    return subprocess.run([*puller, "pull", names[0]], env=env, check=False).returncode


def has_image(handle: Handle) -> bool:
    """Whether the runtime has the image under one of its names."""
    return any(_call(handle, "image", "inspect", name) for name in handle["images"])


def _copy_image(handle: Handle) -> bool:
    """Copy the image from the usual store, whose format ours cannot share; False if it is not there."""
    usual = handle["usual"]
    for name in handle["images"]:
        found = subprocess.run([usual, "image", "inspect", name], capture_output=True, check=False)
        if found.returncode != 0:
            continue
        with subprocess.Popen([usual, "save", name], stdout=subprocess.PIPE) as save:
            load = subprocess.run([*handle["runtime"], "load"], stdin=save.stdout, env=handle["env"], check=False)
        return save.returncode == 0 and load.returncode == 0
    return False


def stop(handle: Handle, *, grace_seconds: int) -> int:
    """End the container with grace; waits while it is being created."""
    deadline = time.monotonic() + APPEARANCE_SECONDS
    while not _call(handle, "container", "inspect", handle["name"]):
        if time.monotonic() > deadline:
            return 1
        time.sleep(0.1)
    options = ("--time", str(grace_seconds))
    return 0 if _call(handle, "stop", *options, handle["name"], seconds=grace_seconds + CALL_SECONDS) else 1


def inspect(handle: Handle) -> int:
    """Print how the container ended, as one line of JSON."""
    form = "{{.State.ExitCode}} {{.State.OOMKilled}} {{.State.Status}}"
    done = subprocess.run(
        [*handle["runtime"], "container", "inspect", "--format", form, handle["name"]],
        env=handle["env"],
        capture_output=True,
        text=True,
        timeout=CALL_SECONDS,
        check=False,
    )
    words = done.stdout.split()
    # One that was created and never started, or that still runs, has no exit code of its own.
    has_ended = done.returncode == 0 and len(words) == 3 and words[2] in ("exited", "stopped", "dead")
    exit_code = int(words[0]) if has_ended else None
    peak = _read_peak(handle)
    limit = handle["memory_bytes"]
    is_full = peak is not None and limit is not None and peak >= limit * FULL_SHARE
    is_noticed = words[1:2] == ["true"] or Path(handle["folder"], OOM_FILE).exists()
    is_out_of_memory = has_ended and (is_noticed or (exit_code == 137 and is_full))
    # A runtime tells a signal as an exit code, which a program may also choose itself; hardly one of these.
    # The kernel may have killed one process, and the others ended well: that is out of memory all the same.
    number = signal.SIGKILL if is_out_of_memory else None if exit_code is None else exit_code - 128
    end = {"signal": number} if number in _FATAL_SIGNALS else {"exit_code": exit_code}
    sys.stdout.write(json.dumps({**end, "oom": is_out_of_memory, "peak_bytes": peak}))
    return 0


def cleanup(handle: Handle) -> int:
    """Remove the container, its folder in memory and its cgroup. Idempotent."""
    is_gone = _remove_container(handle)
    folder = Path(handle["folder"])
    for path in folder.iterdir() if folder.is_dir() else ():
        _remove(path)
    with suppress(OSError):
        folder.rmdir()
    for cgroup in _iter_cgroups(handle):
        _remove_cgroup(cgroup)
    return 0 if is_gone else 1


def _remove_container(handle: Handle) -> bool:
    """Remove the container, several times if need be: the first removal may only end what killed processes began."""
    deadline = time.monotonic() + REMOVAL_SECONDS
    while True:
        _call(handle, "rm", "--force", *handle["remove_options"], handle["name"])
        if not _call(handle, "container", "inspect", handle["name"]):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)


def _remove(path: Path) -> None:
    """Remove one thing of a container's folder in memory."""
    with suppress(OSError):
        if path.name.startswith(BIND):
            while _libc().umount2(os.fsencode(path), _MNT_DETACH) == 0:
                pass
            # Never a recursive removal: if it were still mounted, that would delete the volume.
            path.rmdir()
        elif path.name == FILES:
            shutil.rmtree(path)
        else:
            path.unlink()


def _call(handle: Handle, *arguments: str, seconds: float = CALL_SECONDS) -> bool:
    try:
        done = subprocess.run(
            [*handle["runtime"], *arguments], env=handle["env"], capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _write_file(folder: Path, file: Mapping[str, Any]) -> None:
    """Write one file below the folder; the container's user can search its parents, once they are mounted."""
    path = folder / file["path"]
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(file["text"].encode())
        if file["owner"] is not None:
            os.fchown(descriptor, *file["owner"])
        os.fchmod(descriptor, file["mode"])


def _bind_sub_path(source: Path, sub_path: str, *, target: Path) -> None:
    """Mount a folder below a volume where nobody can exchange it for a symbolic link, as the kubelet does.

    Runs that have the volume write to it at the same time, so a path that was checked cannot be given to the runtime.
    """
    root = os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    _make_folders(root, sub_path)
    found = _open_beneath(root, sub_path)
    target.mkdir(mode=0o755)
    if _libc().mount(f"/proc/self/fd/{found}".encode(), os.fsencode(target), None, _MS_BIND, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


def _make_folders(root: int, sub_path: str) -> None:
    owner = os.fstat(root)
    current = os.dup(root)
    for name in sub_path.strip("/").split("/"):
        try:
            os.mkdir(name, 0o770, dir_fd=current)
        except FileExistsError:
            pass
        else:
            os.chown(name, owner.st_uid, owner.st_gid, dir_fd=current, follow_symlinks=False)
        following = _open_beneath(current, name)
        os.close(current)
        current = following
    os.close(current)


def _open_beneath(root: int, path: str) -> int:
    """Open a folder below another one without following symbolic links (openat2)."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    how = (ctypes.c_uint64 * 3)(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS)
    found: int = _libc().syscall(_SYS_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return found


def _read_peak(handle: Handle) -> int | None:
    for cgroup in _iter_cgroups(handle):
        for name in ("memory.peak", "memory.max_usage_in_bytes"):
            with suppress(OSError, ValueError):
                return int((cgroup / name).read_text())
    return None


def _iter_cgroups(handle: Handle) -> list[Path]:
    """The container's own cgroup in every hierarchy that has it: one with v2, one per controller with v1."""
    if not handle["has_cgroup"]:
        return []
    below = f"{CGROUP_PARENT}/{handle['name']}"
    return [path for path in (CGROUPS / below, *CGROUPS.glob(f"*/{below}")) if path.is_dir()]


def _remove_cgroup(path: Path) -> None:
    """Remove a cgroup with those below it; waits a moment for processes that were killed."""
    deadline = time.monotonic() + EMPTY_SECONDS
    while True:
        for below in sorted(path.glob("**/"), reverse=True):
            with suppress(OSError):
                below.rmdir()
        if not path.exists() or time.monotonic() > deadline:
            return
        time.sleep(0.05)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
