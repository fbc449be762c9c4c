import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import build, images
from testbed.errors import TestbedError
from testbed.images import Image

NOBODY = 12345


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RUNYARD_TESTBED_CACHE", str(tmp_path / "cache"))
    require_busybox()
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def python_with_extra(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    require_busybox()
    folder = tmp_path_factory.mktemp("python")
    package = folder / "sources" / "from_folder"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("VALUE = 1\ndef show():\n    print('shown', VALUE)\n")
    with zipfile.ZipFile(folder / "from_wheel-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("from_wheel.py", "VALUE = 2\n")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("RUNYARD_TESTBED_CACHE", str(folder / "cache"))
        extra = [package.parent, folder / "from_wheel-1.0-py3-none-any.whl"]
        yield images.ensure_python(extra=extra, scripts={"show-value": "from_folder:show"}, tag="localhost/test:1")


@pytest.fixture(scope="module")
def python_root(python_with_extra: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    root.chmod(0o755)
    extract(python_with_extra, root)
    return root


def require_busybox() -> None:
    if shutil.which("busybox") is None:
        pytest.skip("no image can be made on this machine: it lacks busybox-static")


def read_json(archive: tarfile.TarFile, name: str) -> Any:
    return json.load(archive.extractfile(name))  # type: ignore[arg-type]  # a file that is there


def extract(image: Image, root: Path) -> None:
    with tarfile.open(image.archive) as archive:
        for name in read_json(archive, "manifest.json")[0]["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(name)) as layer:
                layer.extraction_filter = lambda member, _path: member  # our own archive
                layer.extractall(root)


def run_in(root: Path, *command: str, user: int = 0) -> str:
    """Run with the folder as `/` and an empty environment, as another user where we may be one."""
    identity = [f"--setgid={user}", f"--setuid={user}"] if os.geteuid() == 0 else ["--map-root-user"]
    start = ["unshare", *identity, f"--root={root}"]
    done = subprocess.run([*start, *command], env={}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_archive_is_whole_when_an_image_is_made(cache: Path) -> None:
    image = images.ensure_busybox()

    with tarfile.open(image.archive) as archive:
        (manifest,) = read_json(archive, "manifest.json")
        config = read_json(archive, manifest["Config"])
        digests = [
            hashlib.sha256(archive.extractfile(name).read()).hexdigest()  # type: ignore[union-attr]
            for name in manifest["Layers"]
        ]
    assert manifest["RepoTags"] == list(image.tags)
    assert "docker.io/library/busybox:latest" in image.tags
    assert config["rootfs"]["diff_ids"] == [f"sha256:{digest}" for digest in digests]
    assert config["os"] == "linux"
    assert list(image.archive.parent.iterdir()) == [image.archive]


def test_archive_has_the_same_bytes_when_it_is_made_elsewhere(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = images.ensure_busybox()
    monkeypatch.setenv("RUNYARD_TESTBED_CACHE", str(tmp_path / "elsewhere"))
    second = images.ensure_busybox()

    assert first.archive != second.archive
    assert first.archive.read_bytes() == second.archive.read_bytes()


def test_archive_is_made_once_when_asked_for_twice(cache: Path) -> None:
    first = images.ensure_busybox().archive
    made_at = first.stat().st_mtime_ns

    assert images.ensure_busybox().archive == first
    assert first.stat().st_mtime_ns == made_at


def test_shell_has_its_tools_users_and_a_tmp_for_all_when_busybox_runs(cache: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    extract(images.ensure_busybox(), root)

    assert run_in(root, "/bin/sh", "-c", "echo $((6 * 7)) | cat; whoami; stat -c %a /tmp") == "42\nroot\n1777"
    assert "nobody:x:65534:65534:" in (root / "etc" / "passwd").read_text()
    assert (root / "bin" / "wget").is_symlink()


def test_program_is_the_entry_point_when_pause_is_made(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "pause"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    monkeypatch.setattr(build, "ensure_addon", {"pause": program}.__getitem__)
    image = images.ensure_pause()
    root = tmp_path / "root"
    extract(image, root)

    assert [path.name for path in root.iterdir()] == ["pause"]
    assert os.access(root / "pause", os.X_OK)
    with tarfile.open(image.archive) as archive:
        config = read_json(archive, read_json(archive, "manifest.json")[0]["Config"])
    assert config["config"]["Entrypoint"] == ["/pause"]


def test_interpreter_imports_what_it_was_built_with_when_any_user_runs_it(python_root: Path) -> None:
    program = "import asyncio, ctypes, json, lzma, os, sqlite3, ssl, sys, zlib; print(sys.prefix, os.getuid())"
    prefix, user = run_in(python_root, "/usr/local/bin/python3", "-c", program, user=NOBODY).split()

    assert prefix == "/usr/local"
    assert int(user) == (NOBODY if os.geteuid() == 0 else 0)


def test_modules_come_with_byte_code_of_the_image_when_they_are_imported(python_root: Path) -> None:
    program = "import json; print(open(json.__cached__, 'rb').read(8)[4], json.loads.__code__.co_filename)"
    flags, path = run_in(python_root, "/usr/local/bin/python3", "-c", program, user=NOBODY).split()

    assert int(flags) == 0b01, "hash-based and unchecked: holds no time, asks for no source"
    assert path.startswith("/usr/local/lib/python3.")


def test_wheels_and_folders_can_be_imported_when_they_are_given_as_extra(python_root: Path) -> None:
    program = "import from_folder, from_wheel; print(from_folder.VALUE, from_wheel.VALUE)"
    assert run_in(python_root, "/usr/local/bin/python3", "-c", program, user=NOBODY) == "1 2"


def test_script_calls_its_function_when_any_user_runs_it(python_root: Path) -> None:
    assert run_in(python_root, "/usr/local/bin/show-value", user=NOBODY) == "shown 1"


def test_python_image_is_small_and_has_its_own_name_when_it_has_extras(python_with_extra: Image) -> None:
    assert python_with_extra.tags == ("localhost/test:1",)
    assert python_with_extra.archive.stat().st_size < 100e6


def test_extra_is_refused_when_it_does_not_exist(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match=r"does not exist: \S+/absent\.whl"):
        images.ensure_python(extra=[tmp_path / "absent.whl"])


def test_busybox_is_asked_for_when_it_is_absent(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TestbedError, match="install Debian's busybox-static"):
        images.ensure_busybox()


def test_launcher_image_copies_its_file_as_any_user_when_it_is_started(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "launcher.pyz").write_bytes(b"the launcher")
    image = images.ensure_launcher(tmp_path / "launcher.pyz", tag="localhost/launcher:1")
    with tarfile.open(image.archive) as archive:
        (manifest,) = read_json(archive, "manifest.json")
        config = read_json(archive, manifest["Config"])["config"]
    assert (image.tags, config["User"]) == (("localhost/launcher:1",), "65532:65532")
    assert config["Cmd"] == ["cp", "/launcher.pyz", "/runyard/launcher.pyz"]
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    extract(image, root)
    (root / "runyard").mkdir()
    (root / "runyard").chmod(0o777)
    run_in(root, *config["Cmd"], user=NOBODY)
    assert (root / "runyard" / "launcher.pyz").read_bytes() == b"the launcher"
    assert image.archive.stat().st_size < 4e6


def test_programs_run_with_their_libraries_when_they_are_installed(cache: Path, tmp_path: Path) -> None:
    image = images.ensure_python(programs=[Path("/usr/bin/nsenter")], tag="localhost/nsenter:1", user="65532:65532")
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    extract(image, root)
    assert run_in(root, "/usr/bin/nsenter", "--version", user=NOBODY).startswith("nsenter from util-linux")
