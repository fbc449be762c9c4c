"""One run of `go build`: the Go of this machine, its output logged and counted, its progress shown."""

import collections
import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from testbed.cache import cache_dir, say
from testbed.errors import TestbedError

_QUOTED_LINES = 8
_PACKAGE = re.compile(r"[\w.~/@+-]+")
# What the first build of a Kubernetes writes (modules, compiled packages, program), and a later one.
_FRESH_BYTES, _WARM_BYTES = 6 * 10**9, 10**9


@dataclass(frozen=True)
class BuildRecord:
    """How a cached program was built; `make bench` prints it."""

    name: str
    version: str
    go: str
    seconds: float
    packages: int
    compiled: int


@dataclass(frozen=True)
class Product:
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


def build_product(product: Product, *, folder: Path, lock: int) -> None:
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
    """Return the caller's environment without variables that would change the result; keeps the module proxy."""
    environment = {name: value for name, value in os.environ.items() if name not in ("GOOS", "GOARCH", "GOEXPERIMENT")}
    environment |= {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    if work is not None:
        environment["GOTMPDIR"] = str(work)
    return environment


def _find_go(product: Product) -> _Go:
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
    if release_of(version) < release_of(needed[1]):
        raise TestbedError(
            f"{product.title} needs Go {needed[1]} or newer and {command} is {version.removeprefix('go')}: update it"
        )
    return _Go(command, version, (Path(answer["GOCACHE"]), Path(answer["GOMODCACHE"]), cache_dir()))


def installed_go() -> str | None:
    """The version of the Go on this machine; None where there is none that works."""
    command = shutil.which("go")
    if command is None:
        return None
    asked = subprocess.run(
        [command, "env", "GOVERSION"], env=_environment(), capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or None


def release_of(version: str) -> tuple[int, ...]:
    """A version's numbers, to compare."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]


def _require_space(go: _Go, *, product: Product) -> None:
    """Refuse to start a build for which the disk is too small."""
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

    def __init__(self, product: Product, go: _Go, *, work: Path, lock: int, log: IO[str]) -> None:
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

        argv = [self._go.command, verb, f"-modfile={self._product.modfile}", *flags, self._product.package]
        with _hold_signals() as release, self._start(argv, release=release) as process:
            try:
                release()
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

    def _start(self, argv: list[str], *, release: Callable[[], None]) -> subprocess.Popen[bytes]:
        """Start go in a session of its own, so that Ctrl-C reaches us alone and the group can be ended as one.

        It inherits the lock: should we be killed, nobody else builds until it has found its pipe broken.
        """
        return subprocess.Popen(
            argv,
            cwd=self._product.module,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(self._lock,),
            preexec_fn=release,  # noqa: PLW1509 - one system call
        )

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
    """A progress line: rewritten in place on a terminal, printed occasionally to a log."""

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
    """Yield the lines that a process prints; calls `between` at least every second while it prints nothing."""
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


@contextlib.contextmanager
def _hold_signals() -> Iterator[Callable[[], None]]:
    """Keep back what ends us until `release` is called: in the midst of starting a child, it would be left behind."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        yield release
    finally:
        release()


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """End go and its compilers: with SIGINT, and with SIGKILL if that takes long."""
    for number, patience_seconds in ((signal.SIGINT, 10), (signal.SIGKILL, 10)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_seconds)
            return
