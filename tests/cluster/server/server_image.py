"""The image of `deploy/images/server` on the testbed: Python with what the server needs, without an index."""

import re
import shutil
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

from testbed import images
from testbed.images import Image
from testbed.supervision import PROJECT_ROOT

EXTRAS = ("server", "kubernetes", "postgres")
USER = 65532


def ensure_server_image(folder: Path, *, tag: str) -> Image:
    """The image, from the packages of this environment and the sources of this checkout.

    `folder` is made; its name is a part of the image's key in the cache.
    """
    folder.mkdir()
    for package in _iter_packages():
        _copy(package, folder)
    shutil.copytree(PROJECT_ROOT / "src" / "runyard", folder / "runyard", ignore=shutil.ignore_patterns("__pycache__"))
    scripts = {"runyard": "runyard.cli.main:main"}
    return images.ensure_python(extra=[folder], scripts=scripts, tag=tag, user=f"{USER}:{USER}")


def _iter_packages() -> Iterator[Distribution]:
    """What pip would install for the server: the requirements, and theirs. Those of our own are in pyproject.toml."""
    seen: set[str] = set()
    waiting = [f"runyard[{','.join(EXTRAS)}]"]
    while waiting:
        wanted = Requirement(waiting.pop())
        found = distribution(wanted.name)
        for line in found.requires or ():
            required = Requirement(line)
            marker = required.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                waiting.append(line)
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name not in seen and name != "runyard":
            seen.add(name)
            yield found


def _copy(package: Distribution, folder: Path) -> None:
    for file in package.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(str(file.locate())), target)
