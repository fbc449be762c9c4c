"""A virtual environment per line of the published SDK, outside the work tree and kept between runs.

`ensure_environment("0.15")` answers with the environment's python. What is installed stands in `requirements-0.15.txt`,
every version pinned; it is made from `requirements-0.15.in` by the command in its first lines. `excluded.txt` names
what the SDK can do without.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

LINES = ("0.13", "0.14", "0.15", "0.16")
INSTALL_SECONDS = 240
_HERE = Path(__file__).parent
_UV = Path(sys.executable).parent / "uv"
_KEPT_ENVIRONMENTS = 2
_NO_NETWORK = re.compile("error sending request|dns error|connect error|timed out|network was disabled", re.IGNORECASE)


class InstallError(Exception):
    """The environment of a line cannot be made here. One line says why."""


class NoNetworkError(InstallError):
    """It cannot be made because no package index can be reached from here."""


def ensure_environment(line: str) -> Path:
    """The python of a line's environment, installed if it is absent, once however many processes ask."""
    return ensure_packages(f"sdk-{line}", _HERE / f"requirements-{line}.txt")


def ensure_packages(name: str, requirements: Path) -> Path:
    """The python of an environment with exactly these pins, kept under that name."""
    environment = cache_folder() / f"{name}-{_digest(requirements)}"
    python = environment / "bin/python"
    if not python.exists():
        cache_folder().mkdir(parents=True, exist_ok=True)
        with (cache_folder() / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not python.exists():
                _install(requirements, into=environment)
                _prune(name, keep=environment)
    os.utime(environment)
    return python


def cache_folder() -> Path:
    """Where the environments are kept, between work trees and between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runyard"


def _digest(requirements: Path) -> str:
    """What decides the content of an environment: the pins, the interpreter, the machine."""
    interpreter = f"{sys.base_prefix} {platform.python_version()} {platform.machine()}"
    return hashlib.sha256(requirements.read_bytes() + interpreter.encode()).hexdigest()[:12]


def _install(requirements: Path, *, into: Path) -> None:
    """Make the environment aside and rename it into place, so that it is whole or absent. Under the lock only."""
    part = into.with_name(f".{into.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        _uv("venv", "--relocatable", "--python", sys.executable, str(part))
        # sync installs the pins and nothing else: what excluded.txt names stays away.
        _uv("pip", "sync", "--compile-bytecode", "--python", str(part / "bin/python"), str(requirements))
        part.rename(into)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _uv(*arguments: str) -> None:
    try:
        done = subprocess.run(
            [_UV, "--quiet", *arguments], capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise NoNetworkError(f"the SDK's packages did not come within {INSTALL_SECONDS} s") from error
    if done.returncode != 0:
        text = " ".join(re.sub(r"https?://\S+", "the package index", done.stderr).split())[-400:]
        kind = NoNetworkError if _NO_NETWORK.search(done.stderr) else InstallError
        raise kind(f"uv {' '.join(arguments[:2])} failed: {text}")


def _prune(name: str, *, keep: Path) -> None:
    """Keep the environments of a line that were used last."""
    found = [path for path in cache_folder().glob(f"{name}-*") if path != keep]
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[_KEPT_ENVIRONMENTS - 1 :]:
        shutil.rmtree(path, ignore_errors=True)
