"""What a user installs: small, and its command works."""

import subprocess
import sys
from pathlib import Path

import pytest

from runyard import __version__

PROJECT_ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).parent / "uv"
BASE_BYTES = 18 * 1000**2
"""The published SDK of DigitalHub has 854 MB; the goal is 0.05 of that. The wheel has the code of all extras."""


@pytest.fixture(scope="module")
def base_install(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel as built from this tree, without extras."""
    folder = tmp_path_factory.mktemp("base")
    _uv("build", "--wheel", "--out-dir", str(folder / "dist"), str(PROJECT_ROOT))
    (wheel,) = (folder / "dist").glob("*.whl")
    _uv("venv", "--python", sys.executable, str(folder / "venv"))
    constraints = ["--constraint", str(PROJECT_ROOT / "constraints.txt")]
    _uv("pip", "install", "--python", str(folder / "venv/bin/python"), *constraints, str(wheel))
    return folder / "venv"


def _uv(*arguments: str) -> None:
    done = subprocess.run([UV, "--quiet", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_command_answers_when_only_the_base_is_installed(base_install: Path) -> None:
    done = subprocess.run([base_install / "bin/runyard", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"runyard {__version__}\n")
    helped = subprocess.run([base_install / "bin/runyard", "--help"], capture_output=True, text=True)
    assert helped.returncode == 0
    assert "Run AI tasks, batch jobs and model serving" in helped.stdout


def test_base_is_light_when_installed(base_install: Path) -> None:
    (site_packages,) = base_install.glob("lib/python*/site-packages")
    # Byte code is no part of the wheels: the commands of other tests may have left some.
    files = [path for path in site_packages.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    size = sum(path.stat().st_size for path in files)
    assert size <= BASE_BYTES


def test_wheel_carries_type_information_when_installed(base_install: Path) -> None:
    (marker,) = base_install.glob("lib/python*/site-packages/runyard/py.typed")
    assert marker.is_file()
