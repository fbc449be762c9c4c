"""Kubernetes and its add-ons, compiled from the Go modules in `go/` into a cache outside the work tree.

An entry of the cache is a folder, made aside and renamed into place, so that it is whole or absent. Its name
carries the hash of what decides its content: for a program sources, mod and sum file, flags and machine. The
Go release is in `build.json` only: a cached program serves without Go, and a newer Go does not make it wrong.
"""

import collections
import contextlib
import fcntl
import hashlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from testbed.errors import TestbedError

_GO = Path(__file__).parent / "go"
# Minor version → mod file. The patch release is written there, and only there.
_KUBERNETES = {"1.36": "go.mod", "1.34": "go-1.34.mod"}
# Name → package to build, and the module that its version is taken from.
_ADDONS = {
    "coredns": ("./coredns", "github.com/coredns/coredns"),
    "kwok": ("sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
    "local-path-provisioner": ("github.com/rancher/local-path-provisioner",) * 2,
    "metrics-server": ("sigs.k8s.io/metrics-server/cmd/metrics-server", "sigs.k8s.io/metrics-server"),
    "pause": ("./pause", ""),
}
DEFAULT_KUBERNETES = "1.36"
KUBERNETES_VERSIONS = tuple(_KUBERNETES)
ADDON_NAMES = tuple(_ADDONS)

_KEPT_ENTRIES = 2
_QUOTED_LINES = 8
_PACKAGE = re.compile(r"[\w.~/@+-]+")
# A first build writes 4 GB (modules 0.6, compiled packages 3, program and its parts), a later one a tenth.
_FRESH_BYTES, _WARM_BYTES = 6 * 10**9, 10**9


@dataclass(frozen=True)
class BuildRecord:
    """How a program in the cache came to be; `make bench` prints it."""

    name: str
    version: str
    go: str
    seconds: float
    packages: int
    compiled: int


@dataclass(frozen=True)
class _Product:
    """One program that `go build` makes, named in the cache by `name`, and by `program` to people."""

    name: str
    version: str
    program: str
    module: Path
    modfile: str
    package: str
    shares_with: str  # the name of the product whose compiled packages it takes most of its own from
    ldflags: str = "-s -w"

    @property
    def title(self) -> str:
        return f"{self.program} {self.version}".strip()


@dataclass(frozen=True)
class _Go:
    """The Go on this machine, and the folders it writes to."""

    command: str
    version: str
    folders: tuple[Path, ...]


def ensure_kube(version: str = DEFAULT_KUBERNETES) -> Path:
    """The multi-call Kubernetes program of a minor version. Idempotent; blocks for minutes the first time."""
    return _ensure_program(_kube(version))


def is_cached(version: str = DEFAULT_KUBERNETES) -> bool:
    """Whether the Kubernetes program is there already, so that no Go is needed."""
    product = _kube(version)
    return (cache_dir() / "bin" / f"{product.name}-{_key(product)}" / product.program).exists()


def ensure_addon(name: str) -> Path:
    """The program of an add-on. Idempotent; blocks while it is built."""
    if name not in _ADDONS:
        raise TestbedError(f'unknown add-on "{name}": known are {", ".join(_ADDONS)}')
    folder, (package, module) = _GO / "addons", _ADDONS[name]
    version = _read_requirement(folder / "go.mod", module) if module else ""
    return _ensure_program(
        _Product(
            name=name,
            version=version,
            program=name,
            module=folder,
            modfile="go.mod",
            package=package,
            shares_with=_kube(DEFAULT_KUBERNETES).name,
        )
    )


def kubernetes_release(version: str) -> str:
    """The full release behind a minor version: "1.36" → "1.36.3"."""
    return _kube(version).version


def read_record(program: Path) -> BuildRecord:
    """The record of a program that `ensure_kube` or `ensure_addon` returned."""
    return BuildRecord(**json.loads((program.parent / "build.json").read_text()))


def cache_dir() -> Path:
    """Where compiled programs and image archives are kept, between work trees and between runs."""
    chosen = os.environ.get("RUNYARD_TESTBED_CACHE")
    if chosen:
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runyard" / "testbed"


def say(text: str) -> None:
    """A line for the person who waits: on stderr, because stdout belongs to results."""
    print(f"testbed: {text}", file=sys.stderr, flush=True)


def ensure_entry(kind: str, *, name: str, key: str, holds: str, make: Callable[[Path, int], None]) -> Path:
    """The file `holds` of a cache entry, made by `make` if it is absent, once however many processes ask.

    `make` fills an empty folder; it is also given the descriptor of the lock, which a child that must not
    outlive the lock may inherit. If it fails or is interrupted, nothing stays behind.
    """
    parent = cache_dir() / kind
    entry = parent / f"{name}-{key}"
    if _is_used_now(entry / holds):
        return entry / holds
    try:
        with _hold_lock(cache_dir() / f"{kind}.lock", purpose=name) as lock:
            if not _is_used_now(entry / holds):
                shutil.rmtree(entry, ignore_errors=True)
                with _staging(parent) as folder:
                    make(folder, lock)
                    folder.rename(entry)
                _prune(parent, name=name)
    except OSError as error:
        raise TestbedError(
            f"cannot make {name} in the cache {cache_dir()}: {error}; RUNYARD_TESTBED_CACHE names another place"
        ) from error
    return entry / holds


def _is_used_now(file: Path) -> bool:
    """Whether the entry's file is there; if so the entry counts as used, which saves it from pruning."""
    if not file.exists():
        return False
    with contextlib.suppress(OSError):  # somebody else's cache, to be read only
        os.utime(file.parent)
    return True


@contextlib.contextmanager
def _hold_lock(path: Path, *, purpose: str) -> Iterator[int]:
    """Be the only process inside; who must wait says for whom. Yields the lock's descriptor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            say(f"{purpose}: waiting for {lock.read().strip() or 'another process'}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        print(f"pid {os.getpid()} ({purpose})", file=lock, flush=True)
        yield lock.fileno()


@contextlib.contextmanager
def _staging(parent: Path) -> Iterator[Path]:
    """A folder beside the entries to make one in, gone afterwards unless it was renamed. Under the lock only.

    What a killed process left behind is removed first.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(".*.part"):
        shutil.rmtree(left, ignore_errors=True)
    folder = parent / f".{os.getpid()}.part"
    folder.mkdir()
    try:
        with _termination_unwinds():
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _termination_unwinds() -> Iterator[None]:
    """Let SIGTERM end this process by an exception, so that children and folders are tidied up."""

    def unwind(signum: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _prune(parent: Path, *, name: str) -> None:
    """Keep the entries of a name that were used last."""
    pattern = re.compile(re.escape(name) + "-[0-9a-f]+")
    entries = [entry for entry in parent.iterdir() if pattern.fullmatch(entry.name)]
    entries.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    for entry in entries[_KEPT_ENTRIES:]:
        shutil.rmtree(entry, ignore_errors=True)


def _kube(version: str) -> _Product:
    folder = _GO / "kube"
    releases = {
        minor: _read_requirement(folder / modfile, "k8s.io/kubernetes") for minor, modfile in _KUBERNETES.items()
    }
    for minor, release in releases.items():
        if version in (minor, release):
            return _Product(
                name=f"kube-{minor}",
                version=release,
                program="kube",
                module=folder,
                modfile=_KUBERNETES[minor],
                package=".",
                shares_with=f"kube-{minor}",
                ldflags=f"-s -w {_version_stamps(release)}",
            )
    raise TestbedError(f'unknown Kubernetes "{version}": known are {", ".join(releases)}')


def _version_stamps(release: str) -> str:
    """Without these every component calls itself v0.0.0-master."""
    major, minor, _patch = release.split(".")
    values = {"gitVersion": f"v{release}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "archive"}
    return " ".join(
        f"-X {package}.{name}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in values.items()
    )


def _read_requirement(modfile: Path, module: str) -> str:
    """The version that a mod file requires of a module, without its `v`."""
    found = re.search(rf"^(?:require)?\s*{re.escape(module)} v(\S+)", modfile.read_text(), re.MULTILINE)
    if found is None:
        raise TestbedError(f"{modfile} does not require {module}: restore it from the repository")
    return found[1]


def _key(product: _Product) -> str:
    digest = hashlib.sha256()
    modfile = product.module / product.modfile
    files = [modfile, modfile.with_suffix(".sum")]
    if product.package.startswith("."):
        files += sorted((product.module / product.package).rglob("*.go"))
    for file in files:
        digest.update(f"{file.relative_to(product.module)}\0".encode() + file.read_bytes() + b"\0")
    digest.update(f"{product.package}\0{product.ldflags}\0{os.uname().machine}".encode())
    return digest.hexdigest()[:12]


def _ensure_program(product: _Product) -> Path:
    def make(folder: Path, lock: int) -> None:
        _build(product, folder=folder, lock=lock)

    return ensure_entry("bin", name=product.name, key=_key(product), holds=product.program, make=make)


def _build(product: _Product, *, folder: Path, lock: int) -> None:
    """Compile the product into the folder, with its record."""
    go = _find_go(product)
    _require_space(go, product=product)
    log_path = cache_dir() / "logs" / f"{product.name}.log"
    log_path.parent.mkdir(exist_ok=True)
    work = folder / "work"
    work.mkdir()
    say(f"building {product.title} from source, once: minutes where nothing is compiled yet")
    target = folder / product.program
    with log_path.open("w") as log:
        run = _Run(product, go, work=work, lock=lock, log=log)
        run.list_packages()
        run.build(target)
    shutil.rmtree(work, ignore_errors=True)
    record = BuildRecord(
        name=product.name,
        version=product.version,
        go=go.version,
        seconds=round(run.elapsed_seconds, 1),
        packages=run.packages,
        compiled=run.compiled,
    )
    (folder / "build.json").write_text(json.dumps(asdict(record), indent=2) + "\n")
    say(f"built {product.title} in {record.seconds:.0f} s, {target.stat().st_size / 1e6:.0f} MB")


def _environment(work: Path | None = None) -> dict[str, str]:
    """The caller's environment, less what would change the result; the module proxy stays as it is."""
    environment = {name: value for name, value in os.environ.items() if name not in ("GOOS", "GOARCH", "GOEXPERIMENT")}
    environment |= {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    if work is not None:
        environment["GOTMPDIR"] = str(work)
    return environment


def _find_go(product: _Product) -> _Go:
    """The Go of this machine, if it is recent enough for the product's module."""
    needed = re.search(r"^go (\S+)", (product.module / product.modfile).read_text(), re.MULTILINE)
    assert needed is not None  # noqa: S101 - the mod files are ours
    command = shutil.which("go")
    if command is None:
        raise TestbedError(
            f"{product.title} is compiled here and there is no go on PATH: install Go {needed[1]} or newer"
        )
    asked = subprocess.run(
        [command, "env", "-json", "GOVERSION", "GOCACHE", "GOMODCACHE"],
        cwd=product.module,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        raise TestbedError(f"{command} does not work: {_last_line(asked.stderr)}")
    answer = json.loads(asked.stdout)
    version = answer["GOVERSION"]
    if _release(version) < _release(needed[1]):
        raise TestbedError(
            f"{product.title} needs Go {needed[1]} or newer and {command} is {version.removeprefix('go')}: update it"
        )
    return _Go(command, version, (Path(answer["GOCACHE"]), Path(answer["GOMODCACHE"]), cache_dir()))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]


def _require_space(go: _Go, *, product: _Product) -> None:
    """Refuse before the first byte what would end half-way with a full disk."""
    is_warm = any((cache_dir() / "bin").glob(f"{product.shares_with}-*"))
    needed = _WARM_BYTES if is_warm else _FRESH_BYTES
    for folder in go.folders:
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(existing).free
        if free < needed:
            raise TestbedError(
                f"the disk is nearly full: building {product.title} takes up to {needed / 1e9:.0f} GB and "
                f"{folder} has {free / 1e9:.1f} GB free: make room there"
            )


class _Run:
    """The go commands of one build: their output logged and counted, their progress shown."""

    def __init__(self, product: _Product, go: _Go, *, work: Path, lock: int, log: IO[str]) -> None:
        self._product, self._go, self._lock, self._log = product, go, lock, log
        self._environment = _environment(work)
        self._tail = collections.deque[str](maxlen=_QUOTED_LINES)
        self._line = _ProgressLine()
        self._started_at = time.monotonic()
        self._fetched = self.packages = self.compiled = 0

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self._started_at

    def list_packages(self) -> None:
        """Fetch the modules that are missing, and count the packages that may have to be compiled."""

        def on_line(line: str) -> None:
            if line.startswith("go: downloading "):
                self._fetched += 1
            elif _PACKAGE.fullmatch(line):
                self.packages += 1

        self._execute("list", "-deps", on_line=on_line, progress=lambda: f"{self._fetched} modules fetched, resolving")

    def build(self, target: Path) -> None:
        """Compile and link. Go names each package it compiles; those it has compiled before are silent."""
        current = ""

        def on_line(line: str) -> None:
            nonlocal current
            if _PACKAGE.fullmatch(line):
                self.compiled += 1
                current = line

        self._execute(
            *("build", "-v", "-ldflags", self._product.ldflags, "-o", str(target)),
            on_line=on_line,
            progress=lambda: f"{self.compiled} of at most {self.packages} packages compiled, now {current}",
        )

    def _execute(self, verb: str, *flags: str, on_line: Callable[[str], None], progress: Callable[[], str]) -> None:
        def show() -> None:
            self._line.show(f"{self._product.title}: {progress()}, {self.elapsed_seconds:.0f} s")

        # In a session of its own, so that Ctrl-C reaches us alone and the group can be ended as one. It
        # inherits the lock: should we be killed, nobody else builds until it has found its pipe broken.
        with subprocess.Popen(
            [self._go.command, verb, f"-modfile={self._product.modfile}", *flags, self._product.package],
            cwd=self._product.module,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(self._lock,),
        ) as process:
            try:
                for line in _iter_lines(process, between=show):
                    print(line, file=self._log, flush=True)
                    self._tail.append(line)
                    on_line(line)
                status = process.wait()
            except BaseException:
                _interrupt(process)
                raise
            finally:
                self._line.clear()
        if status != 0:
            raise self._failure(verb, status)

    def _failure(self, verb: str, status: int) -> TestbedError:
        text = "\n".join(f"  {line}" for line in self._tail)
        title, log = self._product.title, self._log.name
        if "no space left on device" in text:
            folders = ", ".join(str(folder) for folder in self._go.folders)
            return TestbedError(f"the disk became full while {title} was built: make room (written to: {folders})")
        if status < 0 or "signal: killed" in text:
            return TestbedError(f"go {verb} was killed while {title} was built, for lack of memory?; output: {log}")
        return TestbedError(f"{title} could not be built: go {verb} failed; its whole output: {log}\n{text}")


class _ProgressLine:
    """One line that is rewritten on a terminal; in a log, a line now and then."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._interval_seconds = 1.0 if self._is_terminal else 20.0
        self._shown_at = time.monotonic() if not self._is_terminal else 0.0

    def show(self, text: str) -> None:
        if time.monotonic() - self._shown_at < self._interval_seconds:
            return
        self._shown_at = time.monotonic()
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{f'testbed: {text}'[:width]}", end="", file=sys.stderr, flush=True)
        else:
            say(text)

    def clear(self) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _iter_lines(process: subprocess.Popen[bytes], *, between: Callable[[], None]) -> Iterator[str]:
    """The lines a process prints; `between` is called at least every second while it is silent."""
    assert process.stdout is not None  # noqa: S101 - it was started with a pipe
    descriptor, rest = process.stdout.fileno(), b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], 1.0)
        between()
        if not ready:
            continue
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
    if rest:
        yield rest.decode(errors="replace")


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """End go and its compilers: as Ctrl-C would, and by force if that takes long."""
    for number, patience_seconds in ((signal.SIGINT, 10), (signal.SIGKILL, 10)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_seconds)
            return
