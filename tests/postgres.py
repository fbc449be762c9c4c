"""A real PostgreSQL for tests: Debian's package, on loopback, in a folder of its own, as an unprivileged user.

`from tests.postgres import postgres` in a `conftest.py` gives the session's server, started once however many
conftests ask. A test that kills a server starts one of its own with `run_postgres()`. Where there is none and none can
be installed, tests are skipped with a line that says why.
"""

import atexit
import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path

import pytest

PASSWORD = "p%40ss-word"  # percent-encoded, as it stands in URLs
_USER = "runyard"
_HOME = Path("/usr/lib/postgresql")
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_INSTALL_SECONDS = 300.0
_SET_PARENT_DEATH_SIGNAL = 1
_numbers = count(1)


class NoPostgres(Exception):
    """There is no PostgreSQL here, and none could be installed."""


@dataclass(slots=True)
class Postgres:
    """A server; `process` is the postmaster."""

    programs: Path
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None)

    def url(self, database: str = "postgres") -> str:
        """The URL of one of its databases, with the password."""
        return f"postgresql://{_USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def create_database(self, *, template: str | None = None) -> str:
        """The URL of a new database."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self.run_sql(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))
        return self.url(name)

    def run_sql(self, statement: str, *, database: str = "postgres") -> str:
        """What psql prints for a statement, over the server's socket."""
        argv = [str(self.programs / "psql"), "-h", str(self.folder), "-p", str(self.port), "-U", _USER, "-d", database]
        done = subprocess.run(
            [*argv, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement],
            capture_output=True,
            text=True,
            timeout=_START_SECONDS,
        )
        if done.returncode != 0:
            raise AssertionError(f"{statement}: {done.stderr}")
        return done.stdout.strip()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        user, group = _find_owner()
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(
            [self.programs / "postgres", "-D", self.folder / "data", "-p", str(self.port)],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - it calls one function of the C library
            start_new_session=True,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
        )
        log.close()
        self._wait_until_ready()

    def stop(self) -> None:
        """End it, by its process id; a server that does not go is killed."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None

    def kill(self) -> None:
        """Kill the postmaster as a crash would; its children see that and go."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def _wait_until_ready(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + _START_SECONDS
        probe = [str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(probe).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise NoPostgres(f"the server did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)


@contextmanager
def run_postgres() -> Iterator[Postgres]:
    """A server of one's own; it and its folder are gone afterwards. Raises `NoPostgres`."""
    programs = find_programs()
    folder = Path(tempfile.mkdtemp(prefix="runyard-postgres-"))
    server = Postgres(programs, folder, _find_free_port())
    try:
        user, group = _find_owner()
        if user is not None and group is not None:
            os.chown(folder, user, group)
        _make_cluster(server)
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@cache
def find_programs() -> Path:
    """The folder of `initdb` and `postgres`, the newest; installed if this is root on Debian. Raises `NoPostgres`."""
    folders = _list_program_folders()
    if not folders and os.geteuid() == 0 and shutil.which("apt-get"):
        with (Path(tempfile.gettempdir()) / "runyard-postgres.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of all workers of `pytest -n` one installs
            if not _list_program_folders():
                _install()
        folders = _list_program_folders()
    if not folders:
        raise NoPostgres("PostgreSQL is not installed: apt-get install postgresql")
    return folders[-1]


@pytest.fixture(scope="session")
def postgres() -> Postgres:
    """The session's server; tests make databases of their own in it."""
    try:
        return _start_shared()
    except NoPostgres as missing:
        pytest.skip(f"no PostgreSQL: {missing}")


@cache
def _start_shared() -> Postgres:
    running = run_postgres()
    server = running.__enter__()
    atexit.register(running.__exit__, None, None, None)
    return server


def _list_program_folders() -> list[Path]:
    found = (path.parent for path in _HOME.glob("*/bin/initdb"))
    return sorted(found, key=lambda folder: int(folder.parent.name))


def _install() -> None:
    # The package would make and start a server of its own.
    settings = Path("/etc/postgresql-common/createcluster.conf")
    if not settings.exists():
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text("create_main_cluster = false\n")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", "postgresql"]
    for argv in (install, ["apt-get", "update"], install):
        try:
            done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            raise NoPostgres(f"`{' '.join(argv)}` took more than {_INSTALL_SECONDS:.0f} s") from None
        if argv is install and done.returncode == 0:
            return
    raise NoPostgres(f"`{' '.join(install)}` failed: {done.stderr.strip()[-300:]}")


def _make_cluster(server: Postgres) -> None:
    # A locale that sorts unlike bytes do, so that a test sees whether ours depends on it.
    argv = [f"{server.programs}/initdb", "-D", f"{server.folder}/data", "-U", _USER, "--no-sync", "--encoding=UTF8"]
    argv += ["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US"]
    argv += ["--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile", f"{server.folder}/password"]
    (server.folder / "password").write_text(PASSWORD.replace("%40", "@"))
    user, group = _find_owner()
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=_START_SECONDS,
        cwd="/",
        user=user,
        group=group,
        extra_groups=None if user is None else [],
    )
    if done.returncode != 0:
        raise NoPostgres(f"initdb failed: {done.stderr.strip()[-500:]}")
    with (server.folder / "data" / "postgresql.conf").open("a") as settings:
        settings.write(
            f"listen_addresses = '127.0.0.1'\nunix_socket_directories = '{server.folder}'\n"
            "max_connections = 100\nshared_buffers = 64MB\nautovacuum = off\n"
        )


def _find_owner() -> tuple[int, int] | tuple[None, None]:
    """User and group to start it as, where we are root: PostgreSQL refuses to be."""
    if os.geteuid() != 0:
        return None, None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise NoPostgres("there is no user `postgres` or `nobody` to run it as")


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _make_death_signal() -> Callable[[], None]:
    library = ctypes.CDLL(None)

    def set_signal() -> None:
        library.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGQUIT)

    return set_signal


# Loaded before the fork: between fork and exec nothing may be.
_die_with_parent = _make_death_signal()
