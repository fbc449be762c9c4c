"""Installs the requirements of a function before its source is imported, where the engine did not: in a pod.

They go into a virtual environment on top of the packages of the image, which count as installed. The launcher then
starts again in that environment (`exec`), so `sys.executable` and console scripts are its own, as on the local engine.
"""

import importlib.util
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from .failures import EnvironmentFailed
from .launch_settings import INSTALL_OPTION
from .requirement_lines import InvalidRequirement, read_requirements

LONGEST_INSTALL_SECONDS = 1800.0
"""How long pip or uv may take."""
MOST_FAILURE_LINES = 15
"""How many lines of a failed installation the run's message has, the last ones."""
LONGEST_FAILURE_BYTES = 2048
"""How long these lines may be together."""

_CHUNK_BYTES = 64 << 10
_KEPT_BYTES = 16 << 10
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_PIP = ("-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--progress-bar", "off")


def enter_environment(requirements: Sequence[str]) -> None:
    """Install the requirements and start the launcher again in their environment; returns only if there are none.

    Raises `EnvironmentFailed`.
    """
    try:
        lines = read_requirements([str(line) for line in requirements])
    except InvalidRequirement as invalid:
        raise EnvironmentFailed(str(invalid)) from None
    if not lines:
        return
    folder = Path(tempfile.mkdtemp(prefix="runyard-environment-"))
    sys.stderr.write(f"runyard: installing {len(lines)} requirement{'s' * (len(lines) != 1)}\n")
    python = _make_environment(folder)
    _run(_plan_install(python, lines))
    _start_again(python)


def _make_environment(folder: Path) -> Path:
    """An environment that also sees the packages of the image; its interpreter."""
    builder = venv.EnvBuilder(system_site_packages=True, symlinks=True)
    try:
        builder.create(folder)
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentFailed(f"the virtual environment could not be made: {error}") from None
    if sys.prefix != sys.base_prefix:
        # The image's own environment is not the system's: it is named in a path file, behind the new packages.
        (packages,) = (folder / "lib").glob("python*/site-packages")
        (packages / "runyard-image.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return folder / "bin" / "python3"


def _plan_install(python: Path, lines: Sequence[str]) -> list[str]:
    """pip of the image, which counts the image's packages as installed; else uv."""
    if importlib.util.find_spec("pip") is not None:
        return [str(python), *_PIP, "--", *lines]
    uv = shutil.which("uv")
    if uv is None:
        raise EnvironmentFailed(
            "the function has requirements, and its image has neither pip nor uv; use an image with one of them, or "
            "with the packages"
        )
    return [uv, "pip", "install", "--no-progress", "--no-cache", "--python", str(python), "--", *lines]


def _run(command: Sequence[str]) -> None:
    """Run it with its output in the log; raises `EnvironmentFailed` with its last lines."""
    output, written = os.pipe()
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=written, start_new_session=True
        )
    except OSError as error:
        raise EnvironmentFailed(f"the requirements could not be installed: {error}") from None
    finally:
        os.close(written)
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        _kill(process.pid)

    timer = threading.Timer(LONGEST_INSTALL_SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        tail = _copy_to_log(output)
        code = process.wait()
    except BaseException:
        _kill(process.pid)
        process.wait()
        raise
    finally:
        timer.cancel()
        os.close(output)
    if is_late.is_set():
        raise EnvironmentFailed(f"the requirements were not installed within {LONGEST_INSTALL_SECONDS:.0f} s")
    if code != 0:
        raise EnvironmentFailed(_describe_failure(tail))


def _copy_to_log(output: int) -> bytes:
    """Write what comes from a pipe to the log at once; its last bytes."""
    tail = b""
    while chunk := os.read(output, _CHUNK_BYTES):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        tail = (tail + chunk)[-_KEPT_BYTES:]
    return tail


def _kill(pid: int) -> None:
    """End the installer and what it started: it is the leader of its process group."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _describe_failure(tail: bytes) -> str:
    text = _ESCAPE_SEQUENCE.sub("", tail.decode(errors="replace"))
    lines = [line.rstrip() for line in _CONTROL.sub("", text).splitlines() if line.strip()][-MOST_FAILURE_LINES:]
    shown = "\n".join(lines).encode()[-LONGEST_FAILURE_BYTES:].decode(errors="ignore")
    failure = "the requirements could not be installed"
    return f"{failure}:\n{shown}" if shown else failure


def _start_again(python: Path) -> NoReturn:
    environment = {
        **os.environ,
        "VIRTUAL_ENV": str(python.parent.parent),
        "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    arguments = sys.orig_argv[1:]
    arguments.remove(INSTALL_OPTION)  # the first one: the run's own command may have the same word
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(python, [str(python), *arguments], environment)
