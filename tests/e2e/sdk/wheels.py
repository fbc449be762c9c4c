"""The packages of all lines as wheels, made again from their environments: uv installs them, and downloads nothing.

What an operator of a machine without a package index does: a folder of wheels, and `UV_FIND_LINKS`.
"""

import fcntl
import hashlib
import importlib.metadata
import re
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.e2e.sdk.environments import cache_folder, ensure_environment

NAME = "sdk-wheels"
ADDED_FILES = ("INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
"""What an installer adds to a package."""


def ensure_wheels(lines: Sequence[str]) -> Path:
    """The folder with a wheel of each package of these lines, made if it is absent."""
    environments = [ensure_environment(line).parents[1] for line in lines]
    names = " ".join(environment.name for environment in environments)
    folder = cache_folder() / f"{NAME}-{hashlib.sha256(names.encode()).hexdigest()[:12]}"
    with (cache_folder() / f"{NAME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            for old in cache_folder().glob(f"{NAME}-*"):
                shutil.rmtree(old, ignore_errors=True)
            _build(environments, folder)
    return folder


def list_requirements(line: str) -> list[str]:
    """The packages of a line with their versions, as requirements of a function."""
    packages = _iter_packages(ensure_environment(line).parents[1])
    return sorted(f"{one.metadata['Name']}=={one.version}" for one in packages)


def _iter_packages(environment: Path) -> Iterator[importlib.metadata.Distribution]:
    (packages,) = environment.glob("lib/python*/site-packages")
    return iter(importlib.metadata.distributions(path=[str(packages)]))


def _build(environments: Sequence[Path], folder: Path) -> None:
    """Make the folder aside and rename it into place, so that it is whole or absent."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for environment in environments:
        for package in _iter_packages(environment):
            _pack(package, part)
    part.rename(folder)


def _pack(package: importlib.metadata.Distribution, folder: Path) -> None:
    """Write a wheel with the files of the package's own wheel, but for its commands, unless it is there."""
    tag = re.findall(r"^Tag: (\S+)$", package.read_text("WHEEL") or "", re.MULTILINE)[-1]
    name = re.sub(r"[-_.]+", "_", package.metadata["Name"]).lower()
    path = folder / f"{name}-{package.version}-{tag}.whl"
    if path.exists():
        return
    files = [file for file in package.files or () if not {"..", "__pycache__"}.intersection(file.parts)]
    record = next(str(file) for file in files if file.name == "RECORD" and file.parent.suffix == ".dist-info")
    with zipfile.ZipFile(path, "w") as wheel:
        lines = [f"{record},,\n"]
        for file in files:
            if str(file) != record and file.name not in ADDED_FILES:
                wheel.write(str(file.locate()), str(file))
                digest = f"{file.hash.mode}={file.hash.value}" if file.hash else ""
                lines.append(f"{file},{digest},{file.size or ''}\n")
        wheel.writestr(record, "".join(lines))
