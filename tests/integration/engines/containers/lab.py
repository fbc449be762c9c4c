"""Real containers for tests: a podman of the machine, with a store and an image of the tests' own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from runyard.engines.local.containers import (
    Container,
    ContainerRuntime,
    RuntimeMissing,
    find_runtime,
    plan_container,
)
from runyard.procs import Identity, Plan
from testbed import images
from testbed.errors import TestbedError

IMAGE = "busybox:1.36"
USER = Identity(uid=600_100_777, gid=600_100_777) if os.geteuid() == 0 else None
"""The user of containers: an unprivileged one as root, else that of the tests."""


@contextmanager
def open_runtime(folder: Path) -> Iterator[ContainerRuntime]:
    """The machine's podman with the image of busybox, in a place of its own; skips where there is none."""
    try:
        runtime = find_runtime(folder / "store", place_uid=uuid4().hex, programs=["podman"])
        archive = images.ensure_busybox().archive
    except (RuntimeMissing, TestbedError) as error:
        pytest.skip(str(error))
    try:
        call(runtime, "load", "--quiet", "--input", str(archive))
        yield runtime
    finally:
        # Of every place that used it, and also those that a supervisor is about to end.
        call(runtime, "rm", "--all", "--force", "--time", "0", check=False)
        if runtime.is_rootless:
            # The files of layers belong to users of a user namespace; the process that keeps it is ended at last.
            call(runtime, "unshare", "rm", "-rf", str(folder / "store" / "overlay"), check=False)
            call(runtime, "system", "migrate", check=False)
        else:
            # Podman leaves this folder mounted on itself.
            subprocess.run(["umount", folder / "store" / "overlay"], capture_output=True, check=False)
        shutil.rmtree(runtime.memory, ignore_errors=True)


def call(runtime: ContainerRuntime, *arguments: str, check: bool = True) -> str:
    """What podman prints; fails with what it says if it fails."""
    done = subprocess.run(
        [*runtime.argv, *arguments], env=dict(runtime.env), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


def list_names(runtime: ContainerRuntime) -> list[str]:
    """The names of the containers that there are, running or not."""
    return call(runtime, "ps", "--all", "--format", "{{.Names}}").split()


def make_plan(runtime: ContainerRuntime, script: str = "true", **fields: Any) -> Plan:
    """A plan that runs a script in a container; fields of plans go to the plan, the others to the container."""
    of_plan = {name: fields.pop(name) for name in ("is_restarted", "readiness", "grace_seconds") if name in fields}
    chosen: dict[str, Any] = {"image": IMAGE, "command": ("sh", "-c", script), "identity": USER, **fields}
    container = Container(**{"name": f"c-{uuid4().hex[:8]}", **chosen})
    pieces = plan_container(runtime, container)
    return Plan(
        steps=pieces.steps,
        main=pieces.main,
        hooks=pieces.hooks,
        limits=pieces.limits,
        ports=pieces.ports,
        termination_path=container.termination_path,
        **of_plan,
    )
