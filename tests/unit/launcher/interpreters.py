"""The Python interpreters of this machine that a function may ask for."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


@cache
def find_interpreter(version: str) -> str | None:
    """An interpreter of that version that really starts; None if the machine has none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    installed = [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python"))]
    for candidate in (sys.executable, shutil.which(f"python{version}"), *installed):
        if candidate is not None and _ask_version(candidate) == version:
            return candidate
    return None


def _ask_version(python: str) -> str | None:
    done = subprocess.run([python, "--version"], capture_output=True, text=True, timeout=30)
    match = re.match(r"Python (\d+\.\d+)", done.stdout)
    return match[1] if done.returncode == 0 and match else None
