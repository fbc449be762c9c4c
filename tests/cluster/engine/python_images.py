"""Images of python functions on the testbed: the launcher's, and a Python with pip and git."""

import ensurepip
from functools import cache
from pathlib import Path

from runyard import __version__
from runyard.launcher.zipapps import build_zipapp
from runyard.spec.launcher import Launcher, make_launcher
from testbed import images
from testbed.cluster import Cluster

LAUNCHER_IMAGE = f"localhost/runyard/launcher:{__version__}"
PYTHON_IMAGE = "localhost/runyard/python:3.11"
PLAIN_PYTHON = "docker.io/library/python:3.11"
"""Without pip and git; runs as root unless it is told otherwise."""
USER = 65532
_GIT = ("/usr/bin/git", "/usr/lib/git-core/git-remote-https")


def load_launcher(cluster: Cluster, folder: Path) -> Launcher:
    """Load the launcher image, which `deploy/images/launcher` makes elsewhere; the launcher that pods name."""
    zipapp = folder / "launcher.pyz"
    zipapp.write_bytes(build_zipapp())
    cluster.load_image(images.ensure_launcher(zipapp, tag=LAUNCHER_IMAGE).archive)
    return make_launcher(LAUNCHER_IMAGE)


@cache
def load_python(cluster: Cluster) -> str:
    """Load an image as `deploy/images/python` makes it: pip, git, and a user of its own; its name."""
    (pip,) = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
    programs = [Path(program) for program in _GIT]
    image = images.ensure_python(extra=[pip], programs=programs, tag=PYTHON_IMAGE, user=f"{USER}:{USER}")
    cluster.load_image(image.archive)
    return PYTHON_IMAGE
