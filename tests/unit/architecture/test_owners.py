"""The contract catches what it is there to catch, on a planted package."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROJECT_ROOT = Path(__file__).resolve().parents[3]


def lint(folder: Path, *, owners: list[str], modules: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run import-linter with our contract over a package `planted`."""
    for name, text in {"__init__": "", **modules}.items():
        path = folder / "planted" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "pyproject.toml").write_text(
        textwrap.dedent(f"""
        [tool.importlinter]
        root_packages = ["planted"]
        include_external_packages = true
        contract_types = ["owners: tests.unit.architecture.owners.OwnersContract"]
        [[tool.importlinter.contracts]]
        name = "owners"
        type = "owners"
        owners = {owners}
        """)
    )
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{PROJECT_ROOT}:{folder}", "PATH": ""},
    )


def test_contract_is_kept_when_every_owner_imports_its_library(tmp_path: Path) -> None:
    modules = {"net/__init__": "", "net/client": "import aiohttp", "web": "from aiohttp import web"}
    done = lint(tmp_path, owners=["aiohttp -> planted.net, planted.web"], modules=modules)
    assert done.returncode == 0, done.stdout


def test_contract_is_kept_when_only_the_owner_imports_a_library(tmp_path: Path) -> None:
    done = lint(tmp_path, owners=["aiohttp -> planted.net"], modules={"net": "import aiohttp", "core": "import json"})
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("owners", "modules", "complaint"),
    [
        (
            ["aiohttp -> planted.net"],
            {"net": "import aiohttp", "core": "from aiohttp import web"},
            "planted.core imports aiohttp, which belongs to planted.net",
        ),
        ([], {"core": "import aiohttp"}, "aiohttp has no owner, and planted.core imports it: add a row"),
        (
            ["aiohttp -> planted.net", "click -> planted.core"],
            {"net": "import aiohttp", "core": "import json"},
            "click has a row and nothing imports it: remove the row",
        ),
        (
            ["aiohttp -> planted.net, planted.core"],
            {"net": "import aiohttp", "core": "import json"},
            "planted.core owns aiohttp and does not import it: remove it from the row",
        ),
        (
            # An owner need not exist to be noticed.
            ["aiohttp -> planted.net, planted.gone"],
            {"net": "import aiohttp"},
            "planted.gone owns aiohttp and does not import it: remove it from the row",
        ),
        (
            # An owner is not the owner of modules whose name only starts like its own.
            ["aiohttp -> planted.net"],
            {"net": "import aiohttp", "network": "import aiohttp"},
            "planted.network imports aiohttp",
        ),
    ],
)
def test_contract_is_broken_when_the_table_does_not_fit(
    tmp_path: Path, owners: list[str], modules: dict[str, str], complaint: str
) -> None:
    done = lint(tmp_path, owners=owners, modules=modules)
    assert done.returncode == 1
    assert complaint in done.stdout
