"""A container of a run, and the options of `podman run` or `docker run` that it needs."""

import os
import re
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from runyard.app.engine import EngineRefusal
from runyard.domain.reasons import Reason
from runyard.engines.local.containers import container_process
from runyard.engines.local.containers.runtime import ContainerRuntime
from runyard.procs import Identity, Limits, Mount
from runyard.spec.images import find_image, is_domain

MOST_OPEN_FILES = 1_048_576
MOST_PROCESSES = 32_768
"""Limits (ulimits) that a container gets where the server has no lower ones. Podman's own may be above the server's."""
_TERMINATION_LOG = "/dev/termination-log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What the local engine runs in a container."""

    name: str
    """Unique at the place, and another one for each supervision: letters, digits, `.`, `_` and `-`."""
    image: str
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    command: tuple[str, ...] = ()
    """In place of the image's entrypoint. Empty: the image's own."""
    args: tuple[str, ...] = ()
    working_dir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_variables: frozenset[str] = frozenset()
    """The names in `env` whose values are secrets."""
    mounts: tuple[Mount, ...] = ()
    image_mounts: Mapping[str, str] = field(default_factory=dict)
    """Images to mount read-only, by target."""
    identity: Identity | None = None
    """The user inside; None: that of the server, where it runs without root."""
    drops_capabilities: bool = True
    limits: Limits = field(default_factory=Limits)
    ports: tuple[int, ...] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Addresses by name, for /etc/hosts."""
    gpus: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    termination_path: str | None = None
    """The file on this machine that the container finds as /dev/termination-log."""


def name_images(image: str) -> list[str]:
    """The names under which the image is looked for, the full one first: it is also the one that is pulled."""
    reference = find_image(image)
    if reference is None:
        return [image]
    has_domain = "/" in image and is_domain(image.partition("/")[0])
    return [str(reference)] if has_domain else [str(reference), image]


def render_security(runtime: ContainerRuntime, container: Container) -> list[str]:
    """User, groups and privileges."""
    options = ["--security-opt", "no-new-privileges"]
    if container.drops_capabilities:
        options += ("--cap-drop", "all")
    identity = container.identity
    if runtime.is_rootless:
        if identity is None:
            options += ("--userns", "keep-id")
        elif runtime.has_chosen_user:
            options += ("--userns", f"keep-id:uid={identity.uid},gid={identity.gid}")
        else:
            raise EngineRefusal(
                Reason.USER_IMPOSSIBLE,
                f"run_as_user {identity.uid}: {runtime} cannot give a container another user than the server's; "
                "podman 4.3 or newer can",
            )
    chosen = identity or Identity(uid=os.geteuid(), gid=os.getegid())
    options += ("--user", f"{chosen.uid}:{chosen.gid}")
    for group in chosen.groups:
        options += ("--group-add", str(group))
    return options


def render_limits(runtime: ContainerRuntime, container: Container, warnings: list[str]) -> list[str]:
    """Limits of memory, CPU, processes and open files."""
    limits = container.limits
    options: list[str] = []
    if runtime.program == "podman":
        for name, kind, most in (
            ("nofile", resource.RLIMIT_NOFILE, MOST_OPEN_FILES),
            ("nproc", resource.RLIMIT_NPROC, MOST_PROCESSES),
        ):
            hard = resource.getrlimit(kind)[1]
            allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
            options += ("--ulimit", f"{name}={allowed}:{allowed}")
    if runtime.has_cgroup:
        options += ("--cgroup-parent", f"/{container_process.CGROUP_PARENT}/{container.name}")
    if not runtime.has_limits:
        if limits.cpu_millis is not None:
            warnings.append(f"CPU limit: {runtime} cannot enforce it with this machine's cgroups")
        return options
    if limits.memory_bytes is not None:
        # No swap on top of it, as in Kubernetes.
        options += ("--memory", f"{limits.memory_bytes}b", "--memory-swap", f"{limits.memory_bytes}b")
    if limits.cpu_millis is not None:
        options += ("--cpus", f"{limits.cpu_millis / 1000:.3f}")
    options += ("--pids-limit", str(limits.processes or -1))
    return options


def render_network(runtime: ContainerRuntime, container: Container, warnings: list[str]) -> list[str]:
    """The machine's network for containers without ports, as processes have it: they reach the server's loopback."""
    options = [part for name, address in container.hosts.items() for part in ("--add-host", f"{name}:{address}")]
    for gpu in container.gpus:
        options += ("--device", f"nvidia.com/gpu={gpu}") if runtime.program == "podman" else ("--gpus", f"device={gpu}")
    if not container.ports:
        return [*options, "--network", "host"]
    if not runtime.has_port_mapping:
        numbers = ", ".join(map(str, container.ports))
        warnings.append(
            f"ports {numbers}: {runtime} cannot publish ports on this machine (/dev/net/tun cannot be opened); "
            "the container has the machine's network, and listens on these ports of the machine itself"
        )
        return [*options, "--network", "host"]
    endpoint = container.env.get("RUNYARD_ENDPOINT", "")
    if re.match(r"https?://(localhost|127\.|\[::1\])", endpoint):
        warnings.append(
            f"RUNYARD_ENDPOINT {endpoint}: a container with ports has a network of its own, from which the server's "
            "loopback address cannot be reached"
        )
    for port in container.ports:
        options += ("--publish", f"127.0.0.1:{container_process.PLACEHOLDER}{port}):{port}/tcp")
    return options


def render_mounts(
    runtime: ContainerRuntime,
    container: Container,
    *,
    folder: Path,
    files: list[dict[str, Any]],
    binds: list[dict[str, str]],
) -> list[str]:
    """Mounts; adds to `files` what stands in memory, and to `binds` what must be mounted there before."""
    options: list[str] = []
    owner = _find_owner(container)
    for number, mount in enumerate(container.mounts):
        if mount.kind == "tmpfs":
            size = "" if mount.size_bytes is None else f",size={mount.size_bytes}"
            mode = 0o1777 if mount.mode is None else mount.mode
            options += ("--tmpfs", f"{mount.target}:rw,exec,nosuid,nodev,mode={mode:o}{size}")
            continue
        if mount.kind == "files":
            mode = 0o644 if mount.mode is None else mount.mode
            mode |= 0 if owner is not None else 0o444
            files += [
                render_file(f"{number}/{path}", text, owner=owner, mode=mode) for path, text in mount.contents.items()
            ]
            source = str(folder / container_process.FILES / str(number))
            source += f"/{mount.sub_path}" if mount.sub_path else ""
        else:
            source = _render_source(mount, folder=folder, binds=binds)
        is_read_only = mount.is_read_only or mount.kind == "files"
        options += ("--volume", _render_bind(source, mount.target, is_read_only=is_read_only))
    if container.termination_path is not None:
        options += ("--volume", _render_bind(container.termination_path, _TERMINATION_LOG, is_read_only=False))
    for target, image in container.image_mounts.items():
        if runtime.program != "podman":
            raise EngineRefusal(Reason.MOUNT_IMPOSSIBLE, f"{target}: {runtime} cannot mount an image; podman can")
        options += ("--mount", f"type=image,source={name_images(image)[0]},destination={target},rw=false")
    return options


def _find_owner(container: Container) -> tuple[int, int] | None:
    """Whom the files in memory belong to; None: the server's user, who cannot give files away."""
    if os.geteuid() != 0 or container.identity is None:
        return None
    return container.identity.uid, container.identity.gid


def _render_source(mount: Mount, *, folder: Path, binds: list[dict[str, str]]) -> str:
    source = mount.source or ""
    if not mount.sub_path:
        return source
    if os.geteuid() != 0:
        raise EngineRefusal(
            Reason.MOUNT_IMPOSSIBLE,
            f"{mount.target}: only a server that runs as root can mount a `sub_path` of a volume into a container; "
            "mount the whole volume",
        )
    binds.append({"source": source, "sub_path": mount.sub_path})
    return str(folder / f"{container_process.BIND}{len(binds) - 1}")


def _render_bind(source: str, target: str, *, is_read_only: bool) -> str:
    if ":" in source or ":" in target:
        raise EngineRefusal(
            Reason.MOUNT_IMPOSSIBLE, f"{target}: container runtimes cannot mount a path with a colon: {source}"
        )
    return f"{source}:{target}" + (":ro" if is_read_only else "")


def render_file(path: str, text: str, *, owner: tuple[int, int] | None = None, mode: int = 0o600) -> dict[str, Any]:
    """A file that `container_process.py` writes into the container's folder in memory."""
    return {"path": path, "text": text, "owner": owner, "mode": mode}
