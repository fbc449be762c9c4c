"""The recipes of `deploy/images`, built by a real podman without network on base images of the testbed."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.engines.local.containers import ContainerRuntime
from runyard.launcher.zipapps import build_zipapp
from runyard.spec.launcher import make_launcher
from testbed import images
from tests.integration.engines.containers.lab import call, open_runtime

ROOT = Path(__file__).parents[4]
PYTHON = "docker.io/library/python:3.11"
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
INSTALLATION = re.compile(r"^RUN python3 -m venv (?:.*\\\n)+.*pip install.*\n", re.MULTILINE)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerRuntime]:
    with open_runtime(tmp_path_factory.mktemp("recipes")) as opened:
        call(opened, "load", "--quiet", "--input", str(images.ensure_python().archive))
        yield opened


def get_recipe(name: str) -> Path:
    return ROOT / "deploy" / "images" / name / "Containerfile"


def build(runtime: ContainerRuntime, recipe: str, *, file: Path | None = None) -> tuple[str, dict[str, Any]]:
    """Build a recipe, or `file` in its place; the image's name and its configuration."""
    name = f"localhost/runyard/{recipe}:trial"
    file = file or get_recipe(recipe)
    options = ("--quiet", "--network", "none", *LIMITS, "--build-arg", f"PYTHON_IMAGE={PYTHON}", "--tag", name)
    call(runtime, "build", *options, "--file", str(file), str(ROOT))
    (found,) = json.loads(call(runtime, "image", "inspect", name))
    return name, found["Config"]


def test_launcher_image_has_this_launcher_when_its_recipe_is_built(runtime: ContainerRuntime, tmp_path: Path) -> None:
    name, config = build(runtime, "launcher")
    assert (config["User"], config["Cmd"]) == ("65532:65532", [*make_launcher(name).install])
    container = call(runtime, "create", name).strip()
    call(runtime, "cp", f"{container}:/launcher.pyz", str(tmp_path / "launcher.pyz"))
    assert (tmp_path / "launcher.pyz").read_bytes() == build_zipapp()


def test_python_image_has_a_user_of_its_own_when_its_recipe_is_built(runtime: ContainerRuntime) -> None:
    _, config = build(runtime, "python")
    assert (config["User"], "HOME=/tmp" in config["Env"]) == ("65532:65532", True)


def test_server_image_has_a_command_that_works_and_a_data_directory_when_its_recipe_is_built(
    runtime: ContainerRuntime, tmp_path: Path
) -> None:
    # Without network the packages cannot be installed: all but that step is built as it is written.
    recipe, count = INSTALLATION.subn("RUN mkdir -p /opt/runyard\n", get_recipe("server").read_text())
    assert count == 1
    (tmp_path / "Containerfile").write_text(recipe)
    name, config = build(runtime, "server", file=tmp_path / "Containerfile")
    assert (config["User"], config["Entrypoint"]) == ("65532:65532", ["runyard"])
    assert ("RUNYARD_DATA=/data" in config["Env"], list(config["Volumes"])) == (True, ["/data"])
    command = [str(Path(sys.executable).with_name("runyard")), *config["Cmd"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr

    write = "import os; open('/data/runyard.db', 'x'); print(os.getuid(), oct(os.stat('/data').st_mode)[-3:])"
    ran = call(runtime, "run", "--rm", "--network", "none", *LIMITS, "--entrypoint", "python3", name, "-c", write)
    assert ran == "65532 700\n"
