"""The commands of a page of documentation: read from its blocks, run in order, and compared with what it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

PROJECT_ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```(?P<language>console|sh)\n(?P<text>.*?)```", re.DOTALL)
ASSIGNMENT = re.compile(r"[A-Z]+=")


def list_commands(text: str) -> list[tuple[str, str]]:
    """Each command of the console blocks, and what the page shows of its answer."""
    found: list[tuple[str, str]] = []
    for block in BLOCK.finditer(text):
        is_continued = False
        for line in block["text"].splitlines() if block["language"] == "console" else ():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), ""))
            elif is_continued:
                command, shown = found[-1]
                found[-1] = (f"{command}\n{line}", shown)
            else:
                command, shown = found[-1]
                found[-1] = (command, shown + line)
            is_continued = line.endswith("\\") and (is_continued or line.startswith("$ "))
    return found


def read_part(page: Path, name: str) -> str:
    """What stands between `<!-- name -->` and the next `<!-- end -->` of a page."""
    (part,) = re.findall(rf"<!-- {re.escape(name)} -->\n(.*?)<!-- end -->", page.read_text(), re.DOTALL)
    return str(part)


def define_kubectl(programs: Path, kubeconfig: Path) -> str:
    """Definitions for `follow`: `kubectl` is that of a folder of programs, and has that kubeconfig."""
    return f"export KUBECONFIG='{kubeconfig}' PATH=\"$PATH:{programs}\" NO_PROXY='*' no_proxy='*'"


def find_definitions(text: str) -> str:
    """The one block that defines `URL` and `api`, with whatever else the commands of a page need."""
    (definitions,) = [
        block["text"] for block in BLOCK.finditer(text) if re.search("^URL=", block["text"], re.MULTILINE)
    ]
    return definitions


def follow(commands: list[tuple[str, str]], *, definitions: str = "", folder: Path, seconds: float = 120) -> None:
    """Run them one after the other in a folder, and compare. `runyard` and `python` are those of this checkout.

    Each may take that many seconds.

    A command that sets a variable holds for the later ones.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for command, shown in commands:
        done = subprocess.run(
            ["bash", "-c", f"{definitions}\n{command}"],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            cwd=folder,
            env={**os.environ, "PATH": path},
        )
        assert done.returncode == 0, (command, done.stderr)
        assert find_missing(shown, done.stdout) is None, (command, shown, done.stdout)
        if ASSIGNMENT.match(command):
            definitions = f"{definitions}\n{command}"


def find_missing(shown: str, answer: str) -> str | None:
    """The first part of what a page shows, between its ellipses, that the rest of the answer does not have.

    The first part begins the answer, and the last one ends it. A page that shows nothing says nothing.
    """
    rest = "".join(answer.splitlines())
    first, *others = shown.split("…")
    if not shown or (not others and first == rest):
        return None
    if not others or not rest.startswith(first):
        return first
    rest = rest.removeprefix(first)
    *middle, last = others
    for part in middle:
        if part not in rest:
            return part
        rest = rest[rest.index(part) + len(part) :]
    return None if rest.endswith(last) else last
