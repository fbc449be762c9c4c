"""The Python interpreters of this machine, by the `python_version` of functions.

Searched in this order: the server's own, `python3.X` in the folders of PATH, pyenv's versions, versions installed by
uv. Each candidate is run once: a file with the right name may be a shim that starts nothing. Nothing is downloaded.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runyard.app.engine import EngineRefusal
from runyard.domain.reasons import Reason
from runyard.spec.run_fields import PYTHON_VERSIONS

MOST_CANDIDATES = 32
"""How many files are tried for one version."""
CHECK_SECONDS = 15.0
"""How long an interpreter may take to say its version."""
MISSING_SECONDS = 60.0
"""How long a version counts as missing before it is searched again, as somebody may install it."""
LARGEST_ANSWER_BYTES = 16 << 10
"""How much of the answer of an interpreter is read."""

_ASK = (
    "import json, sys, sysconfig;"
    "print(json.dumps(['%d.%d.%d' % sys.version_info[:3], getattr(sys, '_base_executable', None) or sys.executable,"
    " sys.base_prefix, sysconfig.get_platform()]))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """An interpreter that was run and works."""

    version: str
    """Such as `3.12.1`."""
    path: Path
    """The executable itself: not a shim, not that of a virtual environment, without symbolic links."""
    prefix: Path
    """The folder of its standard library, which a process that uses it must reach."""
    platform: str
    """Such as `linux-x86_64`."""


class Interpreters:
    """Finds interpreters, and remembers what it found. Thread-safe; blocks."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str] = os.environ,
        own: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`own` is the server's interpreter; its base is used if it is that of a virtual environment."""
        self._environ = environ
        self._own = own or Path(sys.executable)
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[int, Interpreter] = {}
        self._missing_until: dict[int, float] = {}

    def get(self, python_version: str) -> Interpreter:
        """The interpreter for a `python_version` such as `PYTHON3_12`.

        Raises `EngineRefusal` with the reason `python.missing`, which lists the versions that the machine has.
        """
        with self._lock:
            found = self._find(_read_minor(python_version))
            if found is not None:
                return found
            others = [other.version for name in PYTHON_VERSIONS if (other := self._find(_read_minor(name))) is not None]
        wanted = f"Python 3.{_read_minor(python_version)}"
        has = f"which has {_join(others)}; choose one of these as python_version, or" if others else "nor is any other;"
        message = f"{wanted} is not installed on this machine, {has} ask an operator to install {wanted}"
        raise EngineRefusal(Reason.PYTHON_MISSING, message)

    def _find(self, minor: int) -> Interpreter | None:
        found = self._found.get(minor)
        if found is not None and found.path.exists():
            return found
        if self._clock() < self._missing_until.get(minor, float("-inf")):
            return None
        for candidate in self._iter_candidates(minor):
            found = self._check(candidate)
            if found is not None and found.version.startswith(f"3.{minor}."):
                self._found[minor] = found
                return found
        self._missing_until[minor] = self._clock() + MISSING_SECONDS
        return None

    def _iter_candidates(self, minor: int) -> Iterator[Path]:
        """Different files that exist, at most `MOST_CANDIDATES`."""
        seen: set[Path] = set()
        for path in self._iter_paths(minor):
            if len(seen) >= MOST_CANDIDATES:
                return
            real = Path(os.path.realpath(path))
            if real not in seen and os.access(real, os.X_OK) and real.is_file():
                seen.add(real)
                yield path

    def _iter_paths(self, minor: int) -> Iterator[Path]:
        name = f"python3.{minor}"
        if sys.version_info.minor == minor:
            yield self._own
        for folder in self._environ.get("PATH", os.defpath).split(os.pathsep)[:MOST_CANDIDATES]:
            if folder.startswith("/"):
                yield Path(folder) / name
        home = Path(self._environ.get("HOME") or "/nonexistent")
        pyenv = Path(self._environ.get("PYENV_ROOT") or home / ".pyenv")
        yield from _iter_installed(pyenv / "versions", f"3.{minor}.*", name)
        data = Path(self._environ.get("XDG_DATA_HOME") or home / ".local/share")
        managed = Path(self._environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv/python")
        yield from _iter_installed(managed, f"cpython-3.{minor}.*", name)

    def _check(self, path: Path) -> Interpreter | None:
        """Run a candidate; None if it does not work."""
        try:
            # Isolated mode: no variable, site folder of a user or working directory decides what is imported.
            done = subprocess.run(
                [path, "-I", "-c", _ASK],
                env=dict(self._environ),
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CHECK_SECONDS,
                check=False,
            )
            version, executable, prefix, platform = json.loads(done.stdout[:LARGEST_ANSWER_BYTES])
        except (OSError, ValueError, TypeError, subprocess.TimeoutExpired):
            return None
        if not all(isinstance(answer, str) for answer in (version, executable, prefix, platform)):
            return None
        return Interpreter(
            version=version,
            path=Path(os.path.realpath(executable)),
            prefix=Path(os.path.realpath(prefix)),
            platform=platform,
        )


def _iter_installed(folder: Path, pattern: str, name: str) -> Iterator[Path]:
    """The interpreters in folders such as `3.12.1`, the newest patch release first."""
    try:
        found = sorted(folder.glob(pattern), key=_version_key, reverse=True)
    except OSError:
        return
    yield from (entry / "bin" / name for entry in found)


def _version_key(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall("[0-9]{1,6}", path.name))


def _read_minor(python_version: str) -> int:
    return int(python_version.removeprefix("PYTHON3_"))


def _join(versions: list[str]) -> str:
    return " and ".join([", ".join(versions[:-1]), versions[-1]] if len(versions) > 1 else versions)
