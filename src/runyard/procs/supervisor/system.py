"""System calls that Python 3.11 has no function for, through libc. Each raises OSError."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

RLIMIT_RTTIME = 15

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_NOATIME = 1024
MS_NODIRATIME = 2048
MS_BIND = 4096
MS_REC = 16384
MS_SLAVE = 1 << 19
MS_RELATIME = 1 << 21
MNT_DETACH = 2

_PIVOT_ROOT_NUMBERS = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}


def prctl(option: int, value: int) -> None:
    """Change a property of this process."""
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero))


def set_limit(resource: int, value: int) -> None:
    """Set a resource limit of this process and of all that it will start, soft and hard."""
    _check(_libc.setrlimit(resource, (ctypes.c_uint64 * 2)(value, value)))


def unshare(flags: int) -> None:
    """Give this process namespaces of its own."""
    _check(_libc.unshare(flags))


def mount(source: str, target: str, *, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount, bind, or change a mount."""
    arguments = [os.fsencode(each) or None for each in (source, target, kind, data)]
    _check(_libc.mount(*arguments[:3], ctypes.c_ulong(flags), arguments[3]), target)


def unmount(target: str) -> None:
    """Detach a mount; what is open in it stays usable."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), target)


def pivot_root(new_root: str, old_root: str) -> None:
    """Make a mount the root of this mount namespace; the old root is then at `old_root`, a folder in the new one."""
    number = _PIVOT_ROOT_NUMBERS[os.uname().machine]
    _check(_libc.syscall(ctypes.c_long(number), os.fsencode(new_root), os.fsencode(old_root)), new_root)
    os.chdir("/")


def _check(result: int, path: str | None = None) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
