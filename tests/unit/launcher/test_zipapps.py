"""The zipapp: the same bytes for the same source, and nothing in it but the standard library's users."""

import ast
import io
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
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
    modules = [f"{ARCHIVE_PACKAGE}/{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*.py")]
    assert names == sorted(["__main__.py", *modules, *(f"{name}c" for name in modules)])


def test_no_module_is_compiled_when_the_python_that_built_it_starts_it(tmp_path: Path) -> None:
    done = _start_changed(tmp_path, {".py": lambda _: b"no Python"})
    assert (done.returncode, "RUNYARD_ENDPOINT" in done.stderr) == (2, True), done.stderr


def test_source_is_used_when_another_version_of_python_starts_it(tmp_path: Path) -> None:
    """As that version sees it: what is compiled has another magic number than its own."""
    done = _start_changed(tmp_path, {".pyc": lambda content: b"\0\0\r\n" + content[4:]})
    assert (done.returncode, "RUNYARD_ENDPOINT" in done.stderr) == (2, True), done.stderr


def _start_changed(folder: Path, changes: Mapping[str, Callable[[bytes], bytes]]) -> subprocess.CompletedProcess[str]:
    """Start the zipapp without settings, after its modules were changed, by the end of their name."""
    archive = zipfile.ZipFile(io.BytesIO(build_zipapp()))
    with zipfile.ZipFile(folder / "launcher.pyz", "w") as changed:
        for name in archive.namelist():
            change = None if name == "__main__.py" else changes.get(Path(name).suffix)
            changed.writestr(name, archive.read(name) if change is None else change(archive.read(name)))
    program = [sys.executable, str(folder / "launcher.pyz")]
    return subprocess.run(program, env={}, capture_output=True, text=True, timeout=60, check=False)


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
