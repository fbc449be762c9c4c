"""Container images made on this machine, because no registry can be reached: pause, busybox, Python, launcher.

Each is a docker-archive that `ctr image import` takes: layers, a configuration, `manifest.json`. The same
input gives the same bytes. Archives are entries of the cache, named by the hash
of their content and of this file.
"""

import fnmatch
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed import build
from testbed.cache import ensure_entry, say
from testbed.errors import TestbedError

_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_PATH = "PATH=/usr/local/bin:/usr/bin:/bin"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
_GROUPS = "root:x:0:\nnogroup:x:65534:\n"
# glibc asks the name server before the hosts file where this is absent.
_NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# What an interpreter in a pod does not need. Names at any depth of the standard library.
_CACHES = ("__pycache__",)
_LEFT_OUT = (
    *_CACHES,
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "turtle.py", "ensurepip"),
    *("lib2to3", "pydoc_data", "site-packages", "dist-packages", "config-*", "*.a", "*.o", "*.exe"),
    *("_test*.so", "_ctypes_test*.so", "_xxtestfuzz*.so", "xxlimited*.so", "_tkinter*.so"),
)
# Not named by ldd: loaded by glibc at run time (name service on old releases, thread exit), or wanted by wheels,
# which are linked against older releases where these were libraries of their own.
_LOADED_LATE = (
    *("libnss_dns.so.2", "libnss_files.so.2", "libgcc_s.so.1", "libstdc++.so.6"),
    *("libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6"),
)


@dataclass(frozen=True)
class Image:
    """An image archive, and the names under which a cluster knows it once it is loaded."""

    archive: Path
    tags: tuple[str, ...]


@dataclass(frozen=True)
class _Recipe:
    """How to make an image: one function a layer, each filling an empty folder that stands for `/`."""

    name: str
    tags: tuple[str, ...]
    layers: tuple[Callable[[Path], None], ...]
    config: dict[str, Any] = field(default_factory=dict)


def ensure_pause() -> Image:
    """The pause image, which holds a pod's namespaces open (containerd's `sandbox_image`). Idempotent; may compile."""
    program = build.ensure_addon("pause")

    def fill(root: Path) -> None:
        _install(program, root / "pause")

    recipe = _Recipe("pause", ("localhost/runyard/pause:latest",), (fill,), {"Entrypoint": ["/pause"]})
    return _ensure(recipe, content=_iter_content([program]))


def ensure_busybox() -> Image:
    """A shell and its tools, from Debian's busybox-static. Idempotent."""
    busybox = _get_busybox()
    recipe = _Recipe(
        "busybox",
        ("docker.io/library/busybox:latest", "docker.io/library/busybox:1.36"),
        (lambda root: _fill_shell(root, busybox=busybox),),
        {"Cmd": ["sh"], "Env": [_PATH]},
    )
    return _ensure(recipe, content=_iter_content([busybox]))


def ensure_launcher(zipapp: Path, *, tag: str) -> Image:
    """The image of `deploy/images/launcher`: a file that starts functions, and `cp` to install it. Idempotent."""
    busybox = _get_busybox()

    def fill(root: Path) -> None:
        _install(busybox, root / "bin" / "busybox")
        (root / "bin" / "cp").symlink_to("busybox")
        _install(zipapp, root / "launcher.pyz")

    command = ["cp", "/launcher.pyz", "/runyard/launcher.pyz"]
    recipe = _Recipe("launcher", (tag,), (fill,), {"Cmd": command, "Env": [_PATH], "User": "65532:65532"})
    return _ensure(recipe, content=_iter_content([busybox, zipapp]))


def ensure_python(
    *,
    extra: Sequence[Path] = (),
    programs: Sequence[Path] = (),
    scripts: Mapping[str, str] | None = None,
    tag: str | None = None,
    user: str | None = None,
) -> Image:
    """The interpreter that runs this, with a shell, for any user. Idempotent; takes seconds the first time.

    `extra` goes into its site-packages: wheels unpacked, a folder's content as it is. `programs` of this machine are
    installed at their own paths, with their libraries. `scripts` are commands as pip makes them, from a name to
    `module:function`. Such an image wants a `tag` of its own, or it takes the plain one's place in a cluster that has
    both. `user` is the image's own; root if there is none.
    """
    scripts = scripts or {}
    busybox = _get_busybox()
    missing = [str(path) for path in (*extra, *programs) if not path.exists()]
    if missing:
        raise TestbedError(f"cannot be put into the Python image, because it does not exist: {', '.join(missing)}")
    repository = "docker.io/library/python"
    tags = (tag,) if tag else (f"{repository}:{_PYTHON}", f"{repository}:latest")
    layers: list[Callable[[Path], None]] = [
        lambda root: _fill_shell(root, busybox=busybox),
        _fill_interpreter,
    ]
    if extra:
        layers.append(lambda root: _fill_site_packages(root, extra=extra))
    if programs:
        layers.append(lambda root: _fill_programs(root, programs=programs))
    if scripts:
        layers.append(lambda root: _fill_scripts(root, scripts=scripts))
    config = {
        "Cmd": ["python3"],
        "Env": [_PATH, "LANG=C.UTF-8", f"SSL_CERT_FILE={_CERTIFICATES}"],
        **({} if user is None else {"User": user}),
    }
    interpreter = _iter_content([busybox, _base_interpreter(), *_stdlib_folders()], left_out=_LEFT_OUT)
    content = itertools.chain(interpreter, _iter_content(extra, left_out=_CACHES), _iter_content(programs))
    content = itertools.chain(content, [json.dumps(scripts).encode()] if scripts else [])
    name = "python" + (re.sub(r"[^a-z0-9]+", "-", f"-{tag}") if tag else "")
    return _ensure(_Recipe(name, tags, tuple(layers), config), content=content)


def _ensure(recipe: _Recipe, *, content: Iterable[bytes]) -> Image:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    digest.update(json.dumps([recipe.tags, recipe.config, os.uname().machine]).encode())
    for chunk in content:
        digest.update(chunk)

    def make(folder: Path, _lock: int) -> None:
        say(f"making the image {recipe.tags[0]}")
        _make_archive(recipe, folder=folder)

    key = digest.hexdigest()[:12]
    archive = ensure_entry("images", name=recipe.name, key=key, holds="image.tar", make=make)
    return Image(archive, recipe.tags)


def _make_archive(recipe: _Recipe, *, folder: Path) -> None:
    """Write `image.tar` into the folder. The layers pass through files, never through memory."""
    layers: dict[str, Path] = {}
    for number, fill in enumerate(recipe.layers):
        root, layer = folder / f"root-{number}", folder / f"layer-{number}"
        root.mkdir()
        fill(root)
        _write_layer(root, layer)
        shutil.rmtree(root)
        with layer.open("rb") as file:
            layers[hashlib.file_digest(file, "sha256").hexdigest()] = layer
    config = _render_config(recipe, digests=list(layers))
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": recipe.tags, "Layers": [f"{digest}.tar" for digest in layers]}]
    with tarfile.open(folder / "image.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        _add_bytes(archive, "manifest.json", json.dumps(manifest).encode())
        _add_bytes(archive, config_name, config)
        for digest, layer in layers.items():
            _add_file(archive, f"{digest}.tar", layer)
            layer.unlink()


def _render_config(recipe: _Recipe, *, digests: Sequence[str]) -> bytes:
    machine = os.uname().machine
    document = {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {"WorkingDir": "/", **recipe.config},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        # podman builds on an image only if it has an entry for each layer.
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "testbed"} for _ in digests],
    }
    return json.dumps(document).encode()


def _write_layer(root: Path, target: Path) -> None:
    """Write a reproducible tar of a directory: sorted, owned by root, without times, with two file modes."""
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as layer:
        for path in sorted(root.rglob("*")):
            _add_file(layer, str(path.relative_to(root)), path)


def _add_file(archive: tarfile.TarFile, name: str, path: Path) -> None:
    status = path.lstat()
    entry = tarfile.TarInfo(name)
    entry.mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
    if status.st_mode & stat.S_ISVTX:
        entry.mode = 0o1777
    if stat.S_ISLNK(status.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
    elif stat.S_ISDIR(status.st_mode):
        entry.type = tarfile.DIRTYPE
    else:
        entry.size = status.st_size
        with path.open("rb") as file:
            archive.addfile(entry, file)
        return
    archive.addfile(entry)


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def find_busybox() -> Path | None:
    """This machine's busybox, if it is one that needs no libraries."""
    found = shutil.which("busybox")
    return Path(found).resolve() if found and not _libraries([Path(found)]) else None


def _get_busybox() -> Path:
    busybox = find_busybox()
    if busybox is None:
        raise TestbedError("images need a static busybox: install Debian's busybox-static")
    return busybox


def _fill_shell(root: Path, *, busybox: Path) -> None:
    """`/bin` with busybox under all its names, and the few files that programs look for in `/etc`."""
    _install(busybox, root / "bin" / "busybox")
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for applet in listed.stdout.split():
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")
    etc = root / "etc"
    etc.mkdir()
    (etc / "passwd").write_text(_USERS)
    (etc / "group").write_text(_GROUPS)
    (etc / "nsswitch.conf").write_text(_NSSWITCH)
    (root / "root").mkdir()
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)


def _base_interpreter() -> Path:
    """The program behind this interpreter, behind its virtual environment if it is in one."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def _stdlib_folders() -> tuple[Path, ...]:
    """The standard library, and its compiled half where a distribution keeps that elsewhere."""
    pure, compiled = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("platstdlib"))
    compiled = Path(sysconfig.get_config_var("DESTSHARED") or compiled / "lib-dynload")
    return (pure,) if compiled.is_relative_to(pure) else (pure, compiled)


def _fill_interpreter(root: Path) -> None:
    """Python under `/usr/local`, with the shared libraries it needs where the loader looks for them."""
    local = root / "usr" / "local"
    program = local / "bin" / f"python{_PYTHON}"
    _install(_base_interpreter(), program)
    for name in ("python", "python3"):
        (program.parent / name).symlink_to(program.name)
    library = local / "lib" / f"python{_PYTHON}"
    pure, *compiled = _stdlib_folders()
    shutil.copytree(pure, library, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    for folder in compiled:
        shutil.copytree(folder, library / "lib-dynload", ignore=shutil.ignore_patterns(*_LEFT_OUT))
    (library / "site-packages").mkdir(exist_ok=True)
    # Debian's interpreter looks under this name.
    (library / "dist-packages").symlink_to("site-packages")
    _install_libraries(root)
    _strip_debug_symbols(root)
    _compile_modules(root, folder=library)
    if _CERTIFICATES.exists():
        _install(_CERTIFICATES, root / _CERTIFICATES.relative_to("/"))


def _fill_site_packages(root: Path, *, extra: Sequence[Path]) -> None:
    packages = root / "usr" / "local" / "lib" / f"python{_PYTHON}" / "site-packages"
    packages.mkdir(parents=True)
    for path in extra:
        if path.is_dir():
            shutil.copytree(path, packages, ignore=shutil.ignore_patterns(*_CACHES), dirs_exist_ok=True)
        else:
            with zipfile.ZipFile(path) as wheel:
                wheel.extractall(packages)  # noqa: S202 - a wheel that the caller names is as trusted as pip's
    _compile_modules(root, folder=packages)


def _fill_programs(root: Path, *, programs: Sequence[Path]) -> None:
    for program in programs:
        _install(program, root / program.relative_to("/"))
    _install_libraries(root)


def _fill_scripts(root: Path, *, scripts: Mapping[str, str]) -> None:
    for name, target in scripts.items():
        module, _, function = target.partition(":")
        script = root / "usr" / "local" / "bin" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"#!/usr/local/bin/python3\nfrom {module} import {function}\n\n{function}()\n")
        script.chmod(0o755)


def _install(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _install_libraries(root: Path) -> None:
    """Every library beside libc, which is where the loader looks whatever path a program was linked with."""
    programs = [path for path in root.rglob("*") if path.is_file() and _is_elf(path)]
    libraries = {path.name: path for path in _libraries(programs) if not path.is_relative_to(root)}
    home = libraries["libc.so.6"].parent
    for name in _LOADED_LATE:
        if (home / name).exists():
            libraries[name] = home / name
    for name, path in libraries.items():
        is_loader = name.startswith("ld-")
        target = path if is_loader else home / name
        _install(path, root / target.relative_to("/"))


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _libraries(programs: Sequence[Path]) -> list[Path]:
    """The shared libraries, and the loader, that programs need; none for static ones."""
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False)
    found = re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", listed.stdout, re.MULTILINE)
    return sorted({Path(path) for path in found})


def _strip_debug_symbols(root: Path) -> None:
    """Where the machine has binutils: an interpreter built with symbols is four times as large."""
    strip = shutil.which("strip")
    if strip is None:
        return
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and _is_elf(path):
            subprocess.run([strip, "--strip-debug", path], capture_output=True, check=False)


def _compile_modules(root: Path, *, folder: Path) -> None:
    """Byte code, because a pod's user cannot write it and a start without it takes a second of CPU.

    Unchecked, so that it holds no times; with the paths of the image, so that tracebacks name those.
    """
    subprocess.run(
        [
            *(sys.executable, "-I", "-m", "compileall", "-qq", "--invalidation-mode", "unchecked-hash"),
            *("-s", str(root), "-p", "/", str(folder)),
        ],
        check=False,  # a module that does not compile fails when it is imported, and only then
    )


def _iter_content(paths: Sequence[Path], *, left_out: Sequence[str] = ()) -> Iterator[bytes]:
    """Names and digests of files, and of the files in folders, in a fixed order."""
    for path in paths:
        for file in _iter_files(path, left_out=left_out):
            yield f"{path.name}/{file.relative_to(path)}\0".encode()
            yield hashlib.sha256(file.read_bytes()).digest()


def _iter_files(path: Path, *, left_out: Sequence[str]) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    is_left_out = re.compile("|".join(map(fnmatch.translate, left_out))).fullmatch
    for folder, subfolders, files in os.walk(path):
        subfolders[:] = sorted(name for name in subfolders if not is_left_out(name))
        yield from (Path(folder, name) for name in sorted(files) if not is_left_out(name))
