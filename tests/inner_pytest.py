"""A pytest session inside a test: files of the test's own, and the plugins that it names."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from testbed.doctor import REQUIRED_VARIABLE
from testbed.supervision import PROJECT_ROOT


class InnerSession:
    """A folder of tests, and sessions over it."""

    def __init__(self, folder: Path, *, plugins: tuple[str, ...]) -> None:
        self._folder, self._plugins = folder, plugins
        (folder / "pytest.ini").write_text("[pytest]\n\n")

    def write(self, path: str, text: str) -> None:
        """Add a file; packages are made on the way."""
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(self, *arguments: str, is_required: bool = False, environment: Mapping[str, str] | None = None) -> str:
        """What a session over all files printed; only the named plugins are loaded."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        own = {
            "PYTHONPATH": str(PROJECT_ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            REQUIRED_VARIABLE: "1" if is_required else "0",
            **(environment or {}),
        }
        argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", ".", *arguments]
        argv += [option for plugin in self._plugins for option in ("-p", plugin)]
        return subprocess.run(
            argv, cwd=self._folder, env=inherited | own, capture_output=True, text=True, timeout=120
        ).stdout
