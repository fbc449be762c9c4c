"""Writes `src/runyard/sdk/sync` from `aio`: the same code without `async`. Run it with `make sdk`; a test compares."""

import re
import subprocess
import sys
from pathlib import Path

SDK = Path(__file__).parents[3] / "src" / "runyard" / "sdk"
RUFF = Path(sys.executable).parent / "ruff"
HEADER = "# Generated from ../aio/{name} by `make sdk`: do not edit.\n"
PACKAGE = '"""The client without `async`: generated from `aio/` by `make sdk`."""\n'
DIRECTLY = "from runyard.sdk.local_files import call_directly as to_thread"
REPLACED = (
    (r"Coroutine\[Any, Any, (\w+)\]", r"\1"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bimport asyncio\b", "import time"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\bfrom asyncio import Lock, to_thread\b", "from threading import Lock\n" + DIRECTLY),
    (r"\bfrom asyncio import to_thread\b", DIRECTLY),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\baclose\b", "close"),
    (r"\baiter_(\w+)\b", r"iter_\1"),
    (r"\bAsync([A-Z]\w*)\b", r"\1"),
    (r"runyard\.sdk\.aio\b", "runyard.sdk.sync"),
    (r"\bAbstractAsyncContextManager\b", "AbstractContextManager"),
    (r"\bsessions\.aio\b", "sessions.blocking"),
)


def translate(text: str, *, name: str) -> str:
    """The sync form of a module."""
    if name == "__init__.py":
        return PACKAGE
    for pattern, new in REPLACED:
        text = re.sub(pattern, new, text)
    return HEADER.format(name=name) + text


def generate() -> dict[str, str]:
    """All modules of `sync` by their names, formatted and without unused imports."""
    found = {}
    for path in sorted((SDK / "aio").glob("*.py")):
        text = translate(path.read_text(), name=path.name)
        text = _ruff(text, path.name, "check", "--fix-only", "--select", "I,F401")
        found[path.name] = _ruff(text, path.name, "format")
    return found


def _ruff(text: str, name: str, *command: str) -> str:
    words = [str(RUFF), *command, "--quiet", "--stdin-filename", str(SDK / "sync" / name), "-"]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True, cwd=SDK).stdout


def main() -> None:
    """Write the package."""
    folder = SDK / "sync"
    folder.mkdir(exist_ok=True)
    wanted = generate()
    for path in folder.glob("*.py"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
