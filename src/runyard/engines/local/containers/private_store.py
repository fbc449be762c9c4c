"""A store of podman's containers that keeps in memory what is said about them, environment variables among it.

Podman writes the environment of a container into its database and into the OCI bundle, both below the graph root. This
store has its graph root on disk, with the writable layers of containers, but the database and the bundles are symbolic
links into a tmpfs. Images are read from podman's usual store (an additional image store), so that nothing is pulled
twice. From podman 4.4 on, `--transient-store` does the same for the database wherever it is. A canary, written as an
environment variable and searched on disk, proves it for the podman at hand.
"""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CALL_SECONDS = 60.0
"""How long one call of podman may take while the store is checked."""
LARGEST_CONFIGURATION_BYTES = 1 << 20
"""How much of one file containers.conf is read."""
MOST_CONFIGURATION_FILES = 64
"""How many files of a folder containers.conf.d are read."""
MOST_STORE_FILES = 10_000
"""How many files of the store are searched for the canary; a new store has some twenty."""
DRIVER = "overlay"
_IN_MEMORY = ("libpod", f"{DRIVER}-containers", "secrets")
_TRANSIENT_SINCE = (4, 4)


class StoreUnusable(Exception):
    """Podman cannot keep its containers' environment in memory. The message says why."""


@dataclass(frozen=True, slots=True)
class PrivateStore:
    """Options and variables with which podman uses the store."""

    options: tuple[str, ...]
    env: Mapping[str, str]
    reads_usual_store: bool


def ensure_private_store(
    podman: str,
    *,
    folder: Path,
    memory: Path,
    info: Mapping[str, Any],
    version: tuple[int, ...],
    options: Sequence[str],
    env: Mapping[str, str],
) -> PrivateStore:
    """Make the store in `folder`, on disk, and `memory`, a tmpfs, and prove that it hides a canary.

    `info` is what `podman info` says of the usual store. Blocks. Raises `StoreUnusable` and OSError.
    """
    with _hold_lock(memory / "lock"):
        if not (memory / _IN_MEMORY[0]).is_dir():
            _remove_store(podman, folder, env=env)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in _IN_MEMORY:
            (memory / name).mkdir(mode=0o700, exist_ok=True)
            _ensure_link(folder / name, target=memory / name)
    configuration = memory / "containers.conf"
    _write(configuration, _render_toml(_read_configuration(env)))
    usual = info.get("store", {})
    is_shared = usual.get("graphDriverName") == DRIVER
    store_options = [
        *("--root", str(folder), "--runroot", str(memory / "run"), "--tmpdir", str(memory / "tmp")),
        *("--storage-driver", DRIVER),
        *(("--storage-opt", f"additionalimagestore={usual['graphRoot']}") if is_shared else ()),
        *(("--transient-store",) if version >= _TRANSIENT_SINCE else ()),
        *options,
    ]
    store = PrivateStore(tuple(store_options), {**env, "CONTAINERS_CONF": str(configuration)}, is_shared)
    _prove_privacy(podman, store, folder=folder, memory=memory)
    return store


def _prove_privacy(podman: str, store: PrivateStore, *, folder: Path, memory: Path) -> None:
    """Create a container with a canary as variable, as far as podman writes its bundle, and search the disk for it."""
    canary = secrets.token_hex(16)
    name = f"runyard-canary-{canary[:8]}"
    root = memory / f"canary-{canary[:8]}"
    root.mkdir(mode=0o700)
    env = {**store.env, "RUNYARD_CANARY": canary}

    def call(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        argv = [podman, *store.options, *arguments]
        return subprocess.run(argv, env=env, capture_output=True, timeout=CALL_SECONDS, check=False)

    create = ("create", "--name", name, "--network", "none", "--env", "RUNYARD_CANARY", "--rootfs", str(root), "true")
    try:
        done = call(*create)
        if done.returncode != 0:
            raise StoreUnusable(f"podman cannot use a store of its own in {folder}: {shorten(done.stderr)}")
        call("init", name)  # fails, because there is no program `true`; by then the bundle is written
        found = next((path for path in _iter_files(folder) if _contains(path, canary.encode())), None)
        if found is not None:
            raise StoreUnusable(f"this podman writes variables of containers to disk: {found.relative_to(folder)}")
    except subprocess.TimeoutExpired:
        raise StoreUnusable(f"podman did not answer within {CALL_SECONDS:g} s") from None
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            call("rm", "--force", name)
        shutil.rmtree(root, ignore_errors=True)


def _iter_files(folder: Path) -> Iterator[Path]:
    """The files of the store on disk, without following the links into memory; at most `MOST_STORE_FILES`."""
    count = 0
    for parent, folders, names in os.walk(folder):
        # Layers hold what containers wrote, which is not podman's to hide.
        folders[:] = [name for name in folders if not (Path(parent) == folder and name == DRIVER)]
        for name in names:
            count += 1
            if count > MOST_STORE_FILES:
                raise StoreUnusable(f"{folder} has more than {MOST_STORE_FILES} files")
            yield Path(parent, name)


def _contains(path: Path, text: bytes) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    return text in path.read_bytes()


@contextlib.contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    """Only one process makes the store at a time."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove_store(podman: str, folder: Path, *, env: Mapping[str, str]) -> None:
    """Remove the store of before a restart of the machine: podman would never remove layers that it does not know."""
    if not folder.exists():
        return
    if os.geteuid() != 0:
        # The files of layers belong to users of a user namespace.
        argv = [podman, "unshare", "rm", "-rf", str(folder)]
        subprocess.run(argv, env=dict(env), capture_output=True, timeout=CALL_SECONDS, check=False)
    shutil.rmtree(folder, ignore_errors=True)


def _ensure_link(path: Path, *, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if path.is_symlink() and path.readlink() == target:
            return
        path.unlink()
    path.symlink_to(target)


def _read_configuration(env: Mapping[str, str]) -> dict[str, Any]:
    """The machine's containers.conf as podman merges it, with file locks.

    Podman's other locks lie in one piece of shared memory for all stores of a user: a second store, when it is used for
    the first time, would free the locks of the first.
    """
    merged: dict[str, Any] = {}
    for path in _iter_configuration_files(env):
        try:
            with path.open("rb") as file:
                text = file.read(LARGEST_CONFIGURATION_BYTES).decode()
            _merge(merged, tomllib.loads(text))
        except (OSError, ValueError) as error:
            raise StoreUnusable(f"{path} cannot be read: {error}") from error
    _merge(merged, {"engine": {"lock_type": "file", "events_logger": "none"}})
    return merged


def _iter_configuration_files(env: Mapping[str, str]) -> Iterator[Path]:
    if chosen := env.get("CONTAINERS_CONF"):
        yield Path(chosen)
        return
    folders = [Path("/usr/share/containers"), Path("/etc/containers")]
    if os.geteuid() != 0:
        home = Path(env.get("HOME", "/"))
        folders.append(Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "containers")
    for folder in folders:
        if (folder / "containers.conf").is_file():
            yield folder / "containers.conf"
        parts = sorted((folder / "containers.conf.d").glob("*.conf"))
        yield from parts[:MOST_CONFIGURATION_FILES]


def _merge(target: dict[str, Any], source: Mapping[str, Any]) -> None:
    for key, value in source.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value


def _render_toml(table: Mapping[str, Any], *, path: tuple[str, ...] = ()) -> str:
    """TOML of tables, texts, numbers, booleans and lists of them; JSON writes each of these as TOML does."""
    lines = [f"{_quote(key)} = {_render_value(value)}" for key, value in table.items() if not isinstance(value, dict)]
    text = "".join(f"{line}\n" for line in lines)
    for key, value in table.items():
        if isinstance(value, dict):
            below = (*path, key)
            text += f"[{'.'.join(map(_quote, below))}]\n{_render_toml(value, path=below)}"
    return text


def _render_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_render_value(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quote(key)} = {_render_value(item)}' for key, item in value.items())}}}"
    return _quote(value) if isinstance(value, str) else json.dumps(value)


def _quote(text: str) -> str:
    # JSON leaves DEL as it is, which TOML forbids.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    temporary.write_text(text)
    temporary.replace(path)


def shorten(output: bytes, *, most: int = 500) -> str:
    """The last line of what a program said, without control characters; at most `most` characters."""
    lines = output.decode(errors="replace").strip().splitlines()
    text = "".join(character if character.isprintable() else " " for character in (lines[-1] if lines else ""))
    return text.removeprefix("Error: ")[:most] or "it said nothing"
