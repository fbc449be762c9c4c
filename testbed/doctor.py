"""Checks whether a machine can run a testbed, and says how to install what is missing."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed import build
from testbed.cgroups import CGROUP_MOUNT
from testbed.errors import TestbedError
from testbed.gobuild import installed_go, release_of
from testbed.images import find_busybox
from testbed.node import CNI_PLUGINS, find_cni_folder
from testbed.site import state_folder

FREE_BYTES = 2 * 1024**3
REQUIRED_VARIABLE = "RUNYARD_TESTBED_REQUIRED"

# Program → the Debian package that brings it.
_PLANE_PROGRAMS = {"ip": "iproute2", "nsenter": "util-linux", "mount": "mount"}
_NODE_PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "busybox": "busybox-static",  # the static one: it goes into images
}
_CNI_PACKAGE = "containernetworking-plugins"
_TEST_PROGRAMS = {
    "podman": "container functions of the local engine",
    "zsh": "its completion of commands",
    "fish": "its completion of commands",
}


@dataclass(frozen=True)
class Finding:
    """One requirement of the testbed."""

    what: str
    is_there: bool
    remedy: str
    package: str | None = None


def examine(*, node: bool = True) -> list[Finding]:
    """Check everything that a cluster needs at run time, in the order in which to fix it."""
    return [
        Finding("Linux on x86-64 or arm64", _is_supported_platform(), "use a Linux machine"),
        Finding("root", os.geteuid() == 0, "run as root, for example with sudo"),
        Finding(
            "network, mount and process namespaces",
            _can_unshare(),
            "run outside of an unprivileged container: CAP_SYS_ADMIN is needed",
        ),
        *_programs(node=node),
        *(_node_findings() if node else ()),
        Finding(
            f"{FREE_BYTES // 1024**3} GiB free under {state_folder()}",
            _free_bytes() >= FREE_BYTES,
            "free some space, or set RUNYARD_TESTBED_STATE to a folder on another disk",
        ),
    ]


def examine_build() -> list[Finding]:
    """Check what compiling Kubernetes needs; irrelevant once it is in the cache."""
    needed = build.required_go()
    found = installed_go()
    is_enough = found is not None and release_of(found) >= release_of(needed)
    remedy = f"it is {found.removeprefix('go')}: update it" if found else "install it"
    return [Finding(f"Go {needed} or newer", is_enough, remedy)]


def examine_tests() -> list[Finding]:
    """Check what tests need that no cluster needs. Each program is in the Debian package of its name."""
    return [
        Finding(f"{program}, for {purpose}", shutil.which(program) is not None, f"apt-get install {program}", program)
        for program, purpose in _TEST_PROGRAMS.items()
    ]


def missing(*, node: bool, kubernetes: str) -> list[Finding]:
    """Return everything that this machine lacks for a cluster of that version."""
    return [*_lacking(examine(node=node)), *(_lacking(examine_build()) if not build.is_cached(kubernetes) else ())]


def require(*, node: bool) -> None:
    """Raise one line that names everything missing and its remedy."""
    lacking = _lacking(examine(node=node))
    if lacking:
        raise TestbedError(
            "this machine cannot run a cluster yet: "
            + "; ".join(f"missing {finding.what} ({finding.remedy})" for finding in lacking)
        )


def _lacking(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if not finding.is_there]


def install_packages() -> None:
    """Install missing Debian packages. Does nothing if none is missing, or without root."""
    findings = [*examine(), *examine_tests()]
    packages = sorted({finding.package for finding in findings if finding.package and not finding.is_there})
    if not packages or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    print(f"testbed: installing Debian packages {' '.join(packages)}", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    done = subprocess.run(install, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        subprocess.run(["apt-get", "update"], env=environment, capture_output=True, check=False)
        done = subprocess.run(install, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise TestbedError(f"`{' '.join(install)}` failed: {lines[-1] if lines else 'no output'}")


def _programs(*, node: bool) -> Iterator[Finding]:
    programs = _PLANE_PROGRAMS | (_NODE_PROGRAMS if node else {})
    for program, package in programs.items():
        there = find_busybox() is not None if program == "busybox" else shutil.which(program) is not None
        yield Finding(f"the program `{program}`", there, f"apt-get install {package}", package)


def _node_findings() -> Iterator[Finding]:
    yield Finding(
        f"the CNI plug-ins {', '.join(CNI_PLUGINS)}",
        find_cni_folder() is not None,
        f"apt-get install {_CNI_PACKAGE}",
        _CNI_PACKAGE,
    )
    yield Finding(
        "a writable cgroup hierarchy",
        os.access(CGROUP_MOUNT, os.W_OK) and any(CGROUP_MOUNT.iterdir()),
        f"mount cgroups at {CGROUP_MOUNT}",
    )


def _is_supported_platform() -> bool:
    return sys.platform == "linux" and os.uname().machine in {"x86_64", "aarch64"}


def _can_unshare() -> bool:
    """Whether a child process may create the namespaces."""
    if shutil.which("unshare") is None:
        return False
    argv = ["unshare", "--mount", "--pid", "--net", "--fork", "true"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def _free_bytes() -> int:
    folder = state_folder()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def cgroup_version() -> int:
    """1 or 2, for the report."""
    return 2 if Path(CGROUP_MOUNT / "cgroup.controllers").exists() else 1
