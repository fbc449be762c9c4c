"""Removes containers and folders in memory that no supervisor looks after: its supervisor or the machine went down."""

import subprocess
from collections.abc import Callable
from contextlib import suppress

from runyard.engines.local.containers import container_process
from runyard.engines.local.containers.container_plan import CONTAINERS_FOLDER, make_handle
from runyard.engines.local.containers.runtime import PLACE_LABEL, ContainerRuntime

MOST_STRAYS = 1000
"""How many containers one pass removes; the next pass removes the rest."""
LARGEST_LIST_BYTES = 1 << 20
"""How much of the runtime's list of containers is read."""
LIST_SECONDS = 60.0
"""How long the runtime may take to list containers."""


def remove_strays(runtime: ContainerRuntime, *, is_kept: Callable[[str], bool]) -> list[str]:
    """Remove the containers of this place whose names are not kept, and return their names. Blocks; idempotent.

    `is_kept` is asked after the containers were listed: a container that was started since is not in the list.
    Containers of other places, or without our label, are never touched.
    """
    names = sorted({*_list_containers(runtime), *_list_folders(runtime)})
    strays = [name for name in names if not is_kept(name)][:MOST_STRAYS]
    return [name for name in strays if _remove(runtime, name)]


def _remove(runtime: ContainerRuntime, name: str) -> bool:
    # No item's failure ends the pass over the others.
    with suppress(OSError, subprocess.SubprocessError):
        return container_process.cleanup(make_handle(runtime, name)) == 0
    return False


def _list_containers(runtime: ContainerRuntime) -> list[str]:
    filters = ("--filter", f"label={PLACE_LABEL}={runtime.place_uid}")
    argv = [*runtime.argv, "ps", "--all", *filters, "--format", "{{.Names}}"]
    try:
        done = subprocess.run(
            argv,
            env=dict(runtime.env),
            capture_output=True,
            timeout=LIST_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout[:LARGEST_LIST_BYTES].decode(errors="replace").split() if done.returncode == 0 else []


def _list_folders(runtime: ContainerRuntime) -> list[str]:
    folder = runtime.memory / CONTAINERS_FOLDER
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []
