"""The commands with which a supervisor runs a container.

A container is what is left of an admitted pod once its claims, secrets and config maps are paths and values. It becomes
a step that looks for the image, a main command (`container_process.py`), and hooks. Secrets stand only in the plan,
which is never on disk, and from there in a folder in memory.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runyard.engines.local.containers import container_process
from runyard.engines.local.containers.container_environment import choose_variables, split_environment
from runyard.engines.local.containers.run_options import (
    Container,
    name_images,
    render_file,
    render_limits,
    render_mounts,
    render_network,
    render_security,
)
from runyard.engines.local.containers.runtime import PLACE_LABEL, ContainerRuntime
from runyard.procs import Command, Hooks, Limits

CONTAINERS_FOLDER = "containers"
"""The folder, in the place's folder in memory, with one folder per container."""
IMAGE_STEP = "image"
"""The step that pulls the image; if it fails, the image is missing."""
RUNTIME_BYTES = 64 << 20
"""Memory of podman's own processes, which the watchdog of a supervisor counts with the container's."""
_ENV_FILE = "env"
_IMAGE = "$(RUNYARD_IMAGE)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """The pieces of a plan of `procs` that run a container. The plan itself has no mounts."""

    steps: tuple[Command, ...]
    main: Command
    hooks: Hooks
    limits: Limits
    """Of the plan's main command: those that the runtime does not enforce."""
    ports: Mapping[int, int | None]
    warnings: tuple[str, ...]
    """What this machine does not give the container, one sentence each."""


def plan_container(runtime: ContainerRuntime, container: Container, *, is_image_there: bool = False) -> ContainerPlan:
    """The commands that run the container. Pure. Raises `EngineRefusal` if this runtime cannot run it.

    If the image is there, no step looks for it.
    """
    warnings: list[str] = []
    kept = choose_variables(
        container.env, secret_names=container.secret_variables, exposure=runtime.exposure, warnings=warnings
    )
    environment = split_environment(kept, secret_names=container.secret_variables)
    files: list[dict[str, Any]] = [render_file(_ENV_FILE, "".join(f"{line}\n" for line in environment.lines))]
    binds: list[dict[str, str]] = []
    folder = runtime.memory / CONTAINERS_FOLDER / container.name
    started_path = str(folder / container_process.STARTED_FILE)
    images = name_images(container.image)
    handle = make_handle(runtime, container.name, container)
    arguments = [
        *(*runtime.argv, "run", "--name", container.name, "--pull", "never"),
        *("--label", f"{PLACE_LABEL}={runtime.place_uid}"),
        *(part for key, value in container.labels.items() for part in ("--label", f"{key}={value}")),
        *runtime.run_options,
        *("--pidfile" if runtime.program == "podman" else "--cidfile", started_path),
        *render_security(runtime, container),
        *render_limits(runtime, container, warnings),
        *render_network(runtime, container, warnings),
        *("--env-file", str(folder / container_process.FILES / _ENV_FILE)),
        *environment.arguments,
        *render_mounts(runtime, container, folder=folder, files=files, binds=binds),
        *(("--workdir", container.working_dir) if container.working_dir else ()),
        *(("--entrypoint", container.command[0]) if container.command else ()),
        *(_IMAGE, *container.command[1:], *container.args),
    ]
    order = {
        "argv": arguments,
        "image_mark": _IMAGE,
        "images": images,
        "files": files,
        "binds": binds,
        "env": environment.inherited,
        "termination_path": container.termination_path,
        "has_host_ports": not runtime.has_port_mapping,
    }
    ports = {port: None if runtime.has_port_mapping else port for port in container.ports}
    program = (sys.executable, "-S", "-I", container_process.__file__)
    encoded = json.dumps(handle)
    look_for_image = Command(
        name=IMAGE_STEP,
        argv=(*program, "image", encoded),
        env=runtime.usual_env,
        message=f"looking for the image {container.image}",
        has_mounts=False,
        no_new_privileges=False,
    )
    return ContainerPlan(
        steps=() if is_image_there else (look_for_image,),
        main=Command(
            name="main",
            argv=(*program, "run", encoded, *(f"{port}=$(PORT_{port})" for port in container.ports)),
            stdin=json.dumps(order),
            has_mounts=False,
            no_new_privileges=False,
        ),
        hooks=Hooks(
            stop=(*program, "stop", encoded, "$(GRACE_SECONDS)"),
            inspect=(*program, "inspect", encoded),
            cleanup=(*program, "cleanup", encoded),
            runtime_bytes=RUNTIME_BYTES,
            started_path=started_path,
        ),
        limits=_find_other_limits(runtime, container.limits),
        ports=ports,
        warnings=tuple(warnings),
    )


def _find_other_limits(runtime: ContainerRuntime, limits: Limits) -> Limits:
    """The limits that the supervisor enforces: memory by its watchdog, which sees the container's processes."""
    return Limits(memory_bytes=None if runtime.has_limits else limits.memory_bytes, log_bytes=limits.log_bytes)


def has_image(runtime: ContainerRuntime, container: Container) -> bool:
    """Whether the container can start without a pull. Blocks for some 50 ms."""
    handle = make_handle(runtime, container.name, container)
    return container.pull_policy != "Always" and container_process.has_image(handle)


def make_handle(runtime: ContainerRuntime, name: str, container: Container | None = None) -> dict[str, Any]:
    """What `container_process.py` must know of a container; without secrets, because it is stored on disk."""
    return {
        "runtime": list(runtime.argv),
        "usual": runtime.path,
        "copies_images": runtime.copies_images,
        "env": dict(runtime.env),
        "name": name,
        "folder": str(runtime.memory / CONTAINERS_FOLDER / name),
        "has_cgroup": runtime.has_cgroup,
        "remove_options": ["--volumes", "--ignore", "--time", "0"] if runtime.program == "podman" else ["--volumes"],
        "memory_bytes": None if container is None else container.limits.memory_bytes,
        "images": [] if container is None else name_images(container.image),
        "pull_policy": "Never" if container is None else container.pull_policy,
    }
