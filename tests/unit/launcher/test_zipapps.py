"""The zipapp: the same bytes for the same source, and nothing in it but the standard library's users."""

import ast
import io
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import runyard.launcher
from runyard.launcher.zipapps import ARCHIVE_PACKAGE, build_zipapp

PACKAGE = Path(runyard.launcher.__file__).parent


def test_bytes_are_the_same_when_built_elsewhere_and_later(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "copied", ignore=shutil.ignore_patterns("__pycache__"))
    script = "import sys; from copied.zipapps import build_zipapp; sys.stdout.buffer.write(build_zipapp())"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, check=True, timeout=60)
    assert done.stdout == build_zipapp()


def test_archive_holds_the_package_under_a_name_of_its_own_when_built() -> None:
    names = zipfile.ZipFile(io.BytesIO(build_zipapp())).namelist()
    assert names == sorted(["__main__.py", *(f"{ARCHIVE_PACKAGE}/{path.name}" for path in PACKAGE.glob("*.py"))])


def test_only_the_standard_library_is_imported_when_the_package_is_read() -> None:
    imported = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add((node.module or "").partition(".")[0])
    assert imported - sys.stdlib_module_names == set()
    assert "runyard" not in imported
