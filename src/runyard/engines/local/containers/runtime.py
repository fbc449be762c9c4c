"""Finds podman or docker on this machine, and what each needs to work here. Asked once, for the first container.

`find_runtime` is the one function to call. Podman is preferred: it can keep secrets off the disk, and needs no daemon.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from runyard.engines.local.containers.memory_folder import ensure_memory_folder, is_in_memory
from runyard.engines.local.containers.private_store import PrivateStore, StoreUnusable, ensure_private_store, shorten

PROGRAMS = ("podman", "docker")
"""The runtimes that are looked for, in this order."""
PROBE_SECONDS = 30.0
"""How long a runtime may take to say what it is."""
OLDEST_PODMAN = (4, 0)
OLDEST_KEEP_ID = (4, 3)
"""Since when a container without root can have a user of its own choice (`keep-id:uid=`)."""
PLACE_LABEL = "io.runyard.place"
"""Marks containers of ours; its value is the uid of the place. Nothing without it is ever removed."""

_CGROUPS = Path("/sys/fs/cgroup")
_TUN = Path("/dev/net/tun")
_KEPT_VARIABLES = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|XDG_RUNTIME_DIR|XDG_CONFIG_HOME|XDG_DATA_HOME|DBUS_SESSION_BUS_ADDRESS|TMPDIR"
    r"|REGISTRY_AUTH_FILE|CONTAINERS_[A-Z_]+|DOCKER_(?:HOST|CONFIG|CONTEXT|CERT_PATH|TLS_VERIFY)|SSL_CERT_(?:FILE|DIR)"
)
"""Variables of the server that a runtime needs. None may be a secret: they are stored on disk."""
_PULL_VARIABLES = re.compile(r"(?:https?|no|all)_proxy|(?:HTTPS?|NO|ALL)_PROXY")
"""Further ones for pulling images. They may hold passwords."""


class RuntimeMissing(Exception):
    """The machine has no container runtime that works. The message says what was tried."""


class _Unusable(Exception):
    """A runtime is installed and does not work. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRuntime:
    """A container runtime of this machine, and how it must be called here."""

    program: Literal["podman", "docker"]
    path: str
    version: str
    place_uid: str
    is_rootless: bool = False
    """Whether it runs without root: containers then have the user of the server, under a number of their choice."""
    options: tuple[str, ...] = ()
    """Options before the subcommand, for everything about containers."""
    copies_images: bool = False
    """Whether images are pulled into a store of ours, or copied into it. If not, it reads the usual one."""
    run_options: tuple[str, ...] = ()
    """Options of `run` that this machine needs for every container."""
    env: Mapping[str, str] = field(default_factory=dict)
    usual_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for calling the program without `options`, as a person would, with those of proxies."""
    memory: Path
    """The place's folder in memory (tmpfs), for secrets."""
    exposure: str | None = None
    """Why variables of containers would be written to disk in clear. None: they stay in memory."""
    has_cgroup: bool = False
    """Whether each container gets a cgroup of ours, from which its peak memory is read."""
    has_limits: bool = True
    """Whether limits of memory, CPU and processes are enforced."""
    has_port_mapping: bool = True
    """Whether ports can be published. If not, containers with ports have the network of the machine."""
    has_chosen_user: bool = True
    """Whether a container can have a user of its own choice."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its options, up to the subcommand."""
        return (self.path, *self.options)

    def __str__(self) -> str:
        return f"{self.program} {self.version}" + (" without root" if self.is_rootless else "")


def find_runtime(
    folder: Path,
    *,
    place_uid: str,
    programs: Sequence[str] = PROGRAMS,
    environ: Mapping[str, str] = os.environ,
) -> ContainerRuntime:
    """The container runtime of this machine; `folder` is where podman may keep its containers on disk.

    Blocks for about a second. Raises `RuntimeMissing` with one sentence that a user can act on.
    """
    env = {name: value for name, value in environ.items() if _KEPT_VARIABLES.fullmatch(name)}
    proxies = {name: value for name, value in environ.items() if _PULL_VARIABLES.fullmatch(name)}
    reasons = []
    for program in programs:
        path = shutil.which(program, path=env.get("PATH", os.defpath))
        if path is None:
            reasons.append(f"{program} is not installed")
            continue
        probe = _probe_podman if program == "podman" else _probe_docker
        try:
            return probe(path, folder, place_uid=place_uid, env=env, proxies=proxies)
        except (_Unusable, OSError) as error:
            reasons.append(f"{program} is installed, but {error}")
        except subprocess.TimeoutExpired:
            reasons.append(f"{program} is installed, but did not answer within {PROBE_SECONDS:g} s")
    raise RuntimeMissing(f"this machine has no container runtime that works: {'; '.join(reasons)}")


def _probe_podman(
    path: str, folder: Path, *, place_uid: str, env: Mapping[str, str], proxies: Mapping[str, str]
) -> ContainerRuntime:
    memory = _get_memory_folder(place_uid, env=env)
    is_rootless = os.geteuid() != 0
    info = _call_json([path, "info", "--format", "json"], env=env)
    version_text = _text(info, "version", "Version")
    version = _parse_version(version_text)
    if version < OLDEST_PODMAN:
        raise _Unusable(f"is {version_text}; at least {'.'.join(map(str, OLDEST_PODMAN))} is needed")
    host = info.get("host", {})
    if is_rootless and _mapped_users(host) < 2:
        raise _Unusable(
            "this user has no range of user numbers: add one to /etc/subuid and /etc/subgid (usermod --add-subuids), "
            "and install newuidmap (Debian's package uidmap)"
        )
    is_v1 = host.get("cgroupVersion") == "v1"
    has_cgroup = not is_rootless and _can_make_cgroups(is_v1=is_v1)
    options: list[str] = []
    runtime = _text(host, "ociRuntime", "name")
    if is_v1 and runtime == "crun" and shutil.which("runc", path=env.get("PATH")):
        runtime = "runc"  # crun refuses hybrid cgroups
        options += ("--runtime", runtime)
    if has_cgroup:
        options += ("--cgroup-manager", "cgroupfs")
    store, exposure = _find_private_store(
        path, folder, memory=memory, info=info, version=version, options=options, env=env, runtime=runtime
    )
    return ContainerRuntime(
        program="podman",
        path=path,
        version=version_text,
        place_uid=place_uid,
        is_rootless=is_rootless,
        options=tuple(options) if store is None else store.options,
        copies_images=store is not None and not store.reads_usual_store,
        run_options=(
            *("--cgroups", "no-conmon", "--http-proxy=false", "--systemd", "false", "--log-driver", "passthrough"),
            # With cgroup v2, all processes of a container end if one is out of memory, as in Kubernetes.
            *(() if is_v1 else ("--cgroup-conf", "memory.oom.group=1")),
            *(("--security-opt", "label=disable") if host.get("security", {}).get("selinuxEnabled") else ()),
        ),
        env=env if store is None else store.env,
        usual_env={**env, **proxies},
        memory=memory,
        exposure=exposure,
        has_cgroup=has_cgroup,
        has_limits=not (is_rootless and (is_v1 or "memory" not in host.get("cgroupControllers", []))),
        has_port_mapping=not is_rootless or _can_open(_TUN),
        has_chosen_user=not is_rootless or version >= OLDEST_KEEP_ID,
    )


def _find_private_store(
    path: str,
    folder: Path,
    *,
    memory: Path,
    info: Mapping[str, Any],
    version: tuple[int, ...],
    options: Sequence[str],
    env: Mapping[str, str],
    runtime: str,
) -> tuple[PrivateStore | None, str | None]:
    """The store that keeps variables in memory, or why there is none."""
    if runtime != "runc" and os.geteuid() == 0 and not is_in_memory(Path("/run")):
        return None, f"{runtime} keeps them in /run, which is on disk on this machine; runc does not"
    if os.geteuid() != 0:
        # The OCI runtime keeps its state below this folder. The usual one may be on disk, or be missing.
        env = {**env, "XDG_RUNTIME_DIR": str(memory)}
    try:
        store = ensure_private_store(
            path, folder=folder, memory=memory, info=info, version=version, options=options, env=env
        )
    except StoreUnusable as error:
        return None, str(error)
    return store, None


def _probe_docker(
    path: str, folder: Path, *, place_uid: str, env: Mapping[str, str], proxies: Mapping[str, str]
) -> ContainerRuntime:
    del folder  # the daemon has its own
    done = _call([path, "version", "--format", "{{json .}}"], env=env)
    # The client prints its own version even if the daemon does not answer.
    try:
        server = json.loads(done.stdout).get("Server") if done.stdout.strip() else None
    except ValueError:
        server = None
    if not server:
        raise _Unusable(f"its daemon does not answer: {shorten(done.stderr)}")
    return ContainerRuntime(
        program="docker",
        path=path,
        version=str(server.get("Version", "of unknown version")),
        place_uid=place_uid,
        run_options=("--log-driver", "none"),
        env=env,
        usual_env={**env, **proxies},
        memory=_get_memory_folder(place_uid, env=env),
        exposure="docker's daemon writes them to its disk",
    )


def _get_memory_folder(place_uid: str, *, env: Mapping[str, str]) -> Path:
    memory = ensure_memory_folder(place_uid, environ=env)
    if memory is None:
        raise _Unusable("there is no tmpfs for the secrets of its containers: neither /run nor /dev/shm is one")
    return memory


def _call(argv: Sequence[str], *, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        argv, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_SECONDS, check=False
    )


def _call_json(argv: Sequence[str], *, env: Mapping[str, str]) -> dict[str, Any]:
    done = _call(argv, env=env)
    if done.returncode != 0:
        raise _Unusable(f"`{Path(argv[0]).name} {argv[1]}` fails: {shorten(done.stderr)}")
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise _Unusable(f"`{Path(argv[0]).name} {argv[1]}` prints no JSON")
    return document


def _text(document: Mapping[str, Any], *path: str) -> str:
    value: Any = document
    for key in path:
        value = value.get(key, {}) if isinstance(value, dict) else {}
    return value if isinstance(value, str) else ""


def _parse_version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]{1,6}", text)[:2])


def _mapped_users(host: Mapping[str, Any]) -> int:
    """How many user numbers a user namespace of this user has."""
    mappings = (host.get("idMappings") or {}).get("uidmap") or []
    return sum(mapping.get("size", 0) for mapping in mappings if isinstance(mapping, dict))


def _can_make_cgroups(*, is_v1: bool) -> bool:
    """Whether the OCI runtime will be able to make cgroups below the root of the hierarchy."""
    if is_v1:
        return os.access(_CGROUPS / "memory", os.W_OK)
    try:
        with (_CGROUPS / "cgroup.subtree_control").open("w") as file:
            file.write("+memory")
    except OSError:
        return False  # the root of a container that has no cgroups of its own to give
    return True


def _can_open(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True
