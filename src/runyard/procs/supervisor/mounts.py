"""Mounts of a command, in a mount namespace of its own: as root, or in a user namespace as somebody else.

Called in the forked child, before privileges are dropped. Nothing is created on the machine's own file system: where a
mount point does not exist, its nearest existing folder is covered by a tmpfs in which the entries are mounted again.
"""

from __future__ import annotations

import errno
import os
import stat

from runyard.procs.supervisor import system
from runyard.procs.supervisor.failures import MOUNT_IMPOSSIBLE, Failed
from runyard.procs.supervisor.light import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Identity = dict[str, Any]

MOST_ENTRIES = 1000
"""Entries of a folder that can be covered to make a mount point in it."""
MOST_LEVELS = 64
"""Levels of a path that are created for a mount point, or followed in a `sub_path`."""

_OURS, _VOLUME, _MACHINE = "ours", "volume", "machine"
_SAFE = system.MS_NOSUID | system.MS_NODEV
_COVER_OPTIONS = "mode=0755,size=16m"
_KEPT_FLAGS = {
    os.ST_RDONLY: system.MS_RDONLY,
    os.ST_NOSUID: system.MS_NOSUID,
    os.ST_NODEV: system.MS_NODEV,
    os.ST_NOEXEC: system.MS_NOEXEC,
    os.ST_NOATIME: system.MS_NOATIME,
    os.ST_NODIRATIME: system.MS_NODIRATIME,
    os.ST_RELATIME: system.MS_RELATIME,
}
_SCRATCH_FOLDERS = ("/tmp", "/run", "/mnt", "/var", "/dev")  # noqa: S108  # covered for a moment, in our namespace
_OLD_ROOT = "/.runyard-old-root"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # covered, never written to
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
"""Nothing is mounted over them: what the child does as root goes through them."""


def enter_mounts(plan: dict[str, Any], identity: Identity | None) -> str | None:
    """Give this process the plan's view of the file system; return how, None if it asks for nothing."""
    unsearchable = _list_unsearchable(plan["reachable"], identity)
    if not (plan["mounts"] or plan["hidden"] or unsearchable):
        return None
    is_optional = not (plan["mounts"] or unsearchable)
    if is_optional and not _can_enter_namespace():
        return "no"
    try:
        how = _enter_namespace()
    except OSError as error:
        reason = "only root or a user namespace can mount, and this machine allows neither"
        detail = "no user namespaces are left" if error.errno == errno.ENOSPC else error.strerror
        raise Failed(MOUNT_IMPOSSIBLE, f"cannot mount {_name_first(plan)}: {reason} ({detail})") from error
    _View(identity).build(plan, covered=[*plan["hidden"], *unsearchable])
    return how


def _name_first(plan: dict[str, Any]) -> str:
    return str(plan["mounts"][0]["target"] if plan["mounts"] else plan["reachable"][0])


def _list_unsearchable(paths: list[str], identity: Identity | None) -> list[str]:
    """Return the topmost folder above each path that the identity may not search."""
    if identity is None:
        return []
    found = [act_as(identity, partial(_find_unsearchable, os.path.realpath(path))) for path in paths]
    return [each for each in found if each is not None]


def _find_unsearchable(path: str) -> str | None:
    for ancestor in _list_ancestors(path):
        try:
            os.stat(f"{ancestor}/.")
        except OSError:
            return ancestor
    return None


def _list_ancestors(path: str) -> list[str]:
    """Return the folders above a path, the topmost first, without the root."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[:count]) for count in range(1, len(parts))]


def act_as(identity: Identity | None, function: Callable[[], Any]) -> Any:
    """Call a function with the rights of an identity, so that the kernel refuses what the identity may not do."""
    if identity is None:
        return function()
    groups, gid, uid = os.getgroups(), os.getegid(), os.geteuid()
    try:
        os.setgroups(identity["groups"])
        os.setegid(identity["gid"])
        os.seteuid(identity["uid"])
        return function()
    finally:
        os.seteuid(uid)
        os.setegid(gid)
        os.setgroups(groups)


def _can_enter_namespace() -> bool:
    """Try it in a child: a process cannot leave a user namespace in which it then may not mount."""
    pid = os.fork()
    if pid == 0:
        try:
            _enter_namespace()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def _enter_namespace() -> str:
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        # Shared memory of System V too: without an end of its own, it would outlive the command and its limit.
        system.unshare(system.CLONE_NEWNS | system.CLONE_NEWIPC)
        how = "mount namespace"
    else:
        system.unshare(system.CLONE_NEWUSER | system.CLONE_NEWNS | system.CLONE_NEWIPC)
        for name, content in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(content)
        how = "user namespace"
    # What the machine mounts or unmounts later appears here too; nothing of ours appears there.
    system.mount("none", "/", flags=system.MS_REC | system.MS_SLAVE)
    return how


class _View:
    """Builds the view in order of depth, and remembers to whom each part of it belongs."""

    def __init__(self, identity: Identity | None) -> None:
        self._identity = identity
        self._areas = {"/": _MACHINE}

    def build(self, plan: dict[str, Any], *, covered: list[str]) -> None:
        """Cover, bind what is to be reachable, and mount."""
        mounts = [{**mount, "target": _resolve(mount["target"])} for mount in plan["mounts"]]
        if any(_find_deepest(mount["target"]) == "/" for mount in mounts):
            self._attempt("/", self._make_root)
        reachable = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in _list_existing(plan["reachable"])}
        sources = {index: self._open_source(mount) for index, mount in enumerate(mounts) if mount["kind"] == "bind"}
        # At one path: first covered, then reachable, then a mount of the plan.
        steps: list[tuple[str, Callable[[], None]]] = [
            *((path, partial(self._cover, path)) for path in _list_existing(covered)),
            *((path, partial(self._reach, path, source)) for path, source in reachable.items()),
            *((each["target"], partial(self._mount, each, sources.get(index))) for index, each in enumerate(mounts)),
        ]
        for path, step in sorted(steps, key=lambda each: _depth(each[0])):
            self._attempt(path, step)
        for descriptor in [*reachable.values(), *sources.values()]:
            os.close(descriptor)
        if self._identity is not None and self._find_area(_SHARED_MEMORY) == _MACHINE:
            self._attempt(_SHARED_MEMORY, self._own_shared_memory)

    def _own_shared_memory(self) -> None:
        """Give the command a /dev/shm of its own: files that it left in the machine's would be memory of nobody."""
        if os.path.isdir(_SHARED_MEMORY) and not os.path.islink(_SHARED_MEMORY):
            self._mount_tmpfs(_SHARED_MEMORY, size=None, mode=0o1777)

    def _attempt(self, path: str, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            raise Failed(MOUNT_IMPOSSIBLE, f"cannot mount {path}: {error.strerror or error}") from error

    def _make_root(self) -> None:
        """Replace the root by a tmpfs in which everything of the old root is mounted again, and folders can be made."""
        scratch = _find_scratch("/")
        system.mount("tmpfs", scratch, kind="tmpfs", flags=_SAFE, data=_COVER_OPTIONS)
        os.mkdir(scratch + _OLD_ROOT)
        system.pivot_root(scratch, scratch + _OLD_ROOT)
        old_root = os.open(_OLD_ROOT, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for name in _list_entries(_OLD_ROOT):
            _bind_entry(old_root, name, f"/{name}", proc=f"{_OLD_ROOT}/proc")
            self._areas[f"/{name}"] = _MACHINE
        os.close(old_root)
        system.unmount(_OLD_ROOT)
        os.rmdir(_OLD_ROOT)
        self._areas["/"] = _OURS

    def _open_source(self, mount: dict[str, Any]) -> int:
        descriptors: list[int] = []
        self._attempt(
            mount["target"], lambda: descriptors.append(_open_below(mount["source"], mount["sub_path"], self._identity))
        )
        return descriptors[0]

    def _cover(self, path: str) -> None:
        if self._find_area(path) == _MACHINE:
            _cover_with_tmpfs(path, _COVER_OPTIONS)
            self._areas[path] = _OURS

    def _reach(self, path: str, source: int) -> None:
        if self._find_area(path) == _OURS:
            self._bind(source, path, flags=system.MS_NOSUID)
            self._areas[path] = _MACHINE

    def _mount(self, mount: dict[str, Any], source: int | None) -> None:
        if source is not None:
            self._bind(source, mount["target"], flags=_SAFE | (system.MS_RDONLY if mount["is_read_only"] else 0))
            self._areas[mount["target"]] = _VOLUME
        elif mount["kind"] == "files":
            self._mount_files(mount)
        else:
            self._make_target(mount["target"], is_folder=True)
            self._mount_tmpfs(mount["target"], size=mount["size_bytes"], mode=mount["mode"] or 0o1777)
            self._areas[mount["target"]] = _OURS

    def _mount_tmpfs(self, target: str, *, size: int | None, mode: int) -> None:
        options = [f"mode={mode:o}", *([] if size is None else [f"size={size}"])]
        if self._identity is not None:
            options += [f"uid={self._identity['uid']}", f"gid={self._identity['gid']}"]
        _cover_with_tmpfs(target, ",".join(options))

    def _mount_files(self, mount: dict[str, Any]) -> None:
        target, contents = mount["target"], mount["contents"]
        is_single = mount["sub_path"] is not None
        place = _find_scratch(target) if is_single else target
        self._make_target(target, is_folder=not is_single)
        pages = sum(2 + len(text.encode(errors="surrogateescape")) // 4096 for text in contents.values())
        self._mount_tmpfs(place, size=(pages + 64) * 4096, mode=0o755)
        inside = _open_without_links(place)
        for name, text in contents.items():
            self._write_file(f"/proc/self/fd/{inside}/{name}", text, mount["mode"] or 0o644)
        if is_single:
            source = os.open(mount["sub_path"], os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
            self._bind(source, target, flags=_SAFE | system.MS_RDONLY)
            os.close(source)
            system.unmount(place)
        else:
            _remount(target, flags=_SAFE | system.MS_RDONLY)
        os.close(inside)
        self._areas[target] = _VOLUME

    def _write_file(self, path: str, text: str, mode: int) -> None:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(text.encode(errors="surrogateescape"))
            if self._identity is not None:
                os.fchown(descriptor, self._identity["uid"], self._identity["gid"])
            os.fchmod(descriptor, mode)

    def _bind(self, source: int, target: str, *, flags: int) -> None:
        self._make_target(target, is_folder=stat.S_ISDIR(os.fstat(source).st_mode))
        point = _open_without_links(target)
        # Recursive: a user namespace may not show what another mount has covered.
        system.mount(f"/proc/self/fd/{source}", f"/proc/self/fd/{point}", flags=system.MS_BIND | system.MS_REC)
        os.close(point)
        _remount(target, flags=flags)

    def _make_target(self, target: str, *, is_folder: bool) -> None:
        area = self._find_area(target)
        if os.path.lexists(target):
            return
        if area == _MACHINE:
            self._cover_with_entries(_find_deepest(target))
        make = _make_folder if is_folder else _make_file
        act_as(self._identity if area == _VOLUME else None, lambda: make(target))

    def _cover_with_entries(self, folder: str) -> None:
        below = _open_without_links(folder)
        status = os.fstat(below)
        names = _list_entries(folder, opened=f"/proc/self/fd/{below}")
        _cover_with_tmpfs(folder, f"mode={stat.S_IMODE(status.st_mode):o},size=16m")
        cover = _open_without_links(folder)
        if os.geteuid() == 0:
            os.chown(f"/proc/self/fd/{cover}", status.st_uid, status.st_gid)
        for name in names:
            _bind_entry(below, name, f"/proc/self/fd/{cover}/{name}")
            self._areas.setdefault(f"{folder}/{name}", _MACHINE)
        os.close(below)
        os.close(cover)
        self._areas[folder] = _OURS

    def _find_area(self, path: str) -> str:
        """Return to whom the folder belongs in which a path lies, or the path itself where something is mounted."""
        while path not in self._areas:
            path = os.path.dirname(path)
        return self._areas[path]


def _resolve(target: str) -> str:
    if not target.startswith("/") or ".." in target.split("/") or target.strip("/") == "":
        raise Failed(MOUNT_IMPOSSIBLE, f"cannot mount {target}: not an absolute path below the root")
    resolved = os.path.realpath(target)
    for folder in _KERNEL_FOLDERS:
        if resolved == folder or (resolved.startswith(f"{folder}/") and resolved != _SHARED_MEMORY):
            raise Failed(MOUNT_IMPOSSIBLE, f"cannot mount {target}: nothing can be mounted over {folder}")
    return resolved


def _list_existing(paths: list[str]) -> list[str]:
    return sorted({path for path in map(os.path.realpath, paths) if path != "/" and os.path.exists(path)})


def _depth(path: str) -> int:
    return path.count("/")


def _find_deepest(path: str) -> str:
    """Return the deepest folder above a path that exists; the path itself if it does."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _find_scratch(target: str) -> str:
    """Return a folder that can be covered for a moment: one that the target is not in."""
    for folder in _SCRATCH_FOLDERS:
        if os.path.isdir(folder) and not os.path.islink(folder) and not f"{target}/".startswith(f"{folder}/"):
            return folder
    raise OSError(None, f"none of {', '.join(_SCRATCH_FOLDERS)} exists")


def _list_entries(folder: str, *, opened: str | None = None) -> list[str]:
    """Return the names in a folder, which was `opened` under another path."""
    names: list[str] = []
    with os.scandir(opened or folder) as entries:
        for entry in entries:
            if len(names) == MOST_ENTRIES:
                raise OSError(None, f"{folder} has more than {MOST_ENTRIES} entries")
            names.append(entry.name)
    return names


def _bind_entry(folder: int, name: str, target: str, *, proc: str = "/proc") -> None:
    """Show an entry of a covered folder again, at its own path. Its owner may exchange it meanwhile, for a link too."""
    entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = os.fstat(entry).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink("", dir_fd=entry), target)
            return
        make = _make_folder if stat.S_ISDIR(mode) else _make_file
        make(target)
        system.mount(f"{proc}/self/fd/{entry}", target, flags=system.MS_BIND | system.MS_REC)
    finally:
        os.close(entry)


def _cover_with_tmpfs(path: str, options: str) -> None:
    point = _open_without_links(path)
    system.mount("tmpfs", f"/proc/self/fd/{point}", kind="tmpfs", flags=_SAFE, data=options)
    os.close(point)


def _open_without_links(path: str) -> int:
    """Open a path, through what is mounted there. Users own parts of it, and root must not follow their links."""
    descriptor = os.open("/", os.O_PATH | os.O_CLOEXEC)
    for part in path.strip("/").split("/"):
        below = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise OSError(None, f"{part} is a symbolic link in a volume")
    return descriptor


def _make_folder(path: str) -> None:
    if _depth(path) > MOST_LEVELS:
        raise OSError(None, f"more than {MOST_LEVELS} levels")
    os.makedirs(path, 0o755, exist_ok=True)


def _make_file(path: str) -> None:
    _make_folder(os.path.dirname(path))
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))


def _remount(target: str, *, flags: int) -> None:
    """Add flags to a mount. Those that it has are kept: a user namespace may not clear them."""
    mounted = _open_without_links(target)
    current = os.fstatvfs(mounted).f_flag
    kept = sum(flag for bit, flag in _KEPT_FLAGS.items() if current & bit)
    system.mount("none", f"/proc/self/fd/{mounted}", flags=system.MS_BIND | system.MS_REMOUNT | flags | kept)
    os.close(mounted)


def _open_below(source: str, sub_path: str | None, identity: Identity | None) -> int:
    """Open a source without following symbolic links in `sub_path`, which its user may have made."""
    descriptor = os.open(source, os.O_PATH | os.O_CLOEXEC)
    parts = [part for part in (sub_path or "").split("/") if part not in ("", ".")]
    if ".." in parts or len(parts) > MOST_LEVELS:
        raise OSError(None, f"the path {sub_path} in the volume is not allowed")
    for part in parts:
        try:
            below = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
        except FileNotFoundError:
            act_as(identity, partial(os.mkdir, part, 0o755, dir_fd=descriptor))
            below = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
        if stat.S_ISLNK(os.fstat(below).st_mode):
            raise OSError(None, f"the path {sub_path} in the volume holds a symbolic link")
        os.close(descriptor)
        descriptor = below
    return descriptor
