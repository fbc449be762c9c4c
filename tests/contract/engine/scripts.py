"""What the containers of these tests do: lines that any POSIX shell executes, and that `MemoryLab` understands.

A script is a list of these lines. No line depends on an image beyond busybox. `$LAB` is a folder of the container's
own: `Lab.send` makes a file there.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

_END_ON_TERM = "trap 'exit 143' TERM"
"""The first process of a container ignores SIGTERM if it has no handler."""


def say(text: str) -> str:
    """Write a line."""
    return f"echo {shlex.quote(text)}"


def write_octal(code: str) -> str:
    """Write one byte, by its octal code."""
    return f"printf '\\{code}'"


def write_numbers(count: int) -> str:
    """Write that many numbered lines."""
    return f"seq 1 {count}"


def show_variable(name: str) -> str:
    """Write the value of an environment variable."""
    return f"printf '%s\\n' \"${name}\""


def save(text: str, path: str) -> str:
    """Write a file."""
    return f"echo {shlex.quote(text)} > {path}"


def show_file(path: str) -> str:
    """Write what is in a file, or nothing."""
    return f"cat {path} 2>/dev/null"


def wait_for(word: str) -> str:
    """Wait until `Lab.send` sends that word, and use it up."""
    return f'until [ -e "$LAB/{word}" ]; do sleep 0.1; done; rm -f "$LAB/{word}"'


def leave(code: int) -> str:
    """End with an exit code."""
    return f"exit {code}"


WAIT_FOREVER = wait_for("nothing")
FILL_MEMORY = "tail /dev/zero"
"""Reads one line that never ends into memory."""


def make_command(lines: Sequence[str]) -> tuple[str, ...]:
    """The command of a container."""
    return ("sh", "-c", "\n".join([_END_ON_TERM, *lines]))


@dataclass(frozen=True, slots=True)
class Line:
    """A line, taken apart."""

    verb: str
    values: tuple[str, ...]


_FORMS = {
    "save": re.compile(r"echo (.+) > (\S+)"),
    "say": re.compile(r"echo (.+)"),
    "octal": re.compile(r"printf '\\(\d{3})'"),
    "numbers": re.compile(r"seq 1 (\d+)"),
    "variable": re.compile(r"printf '%s\\n' \"\$(\w+)\""),
    "file": re.compile(r"cat (\S+) 2>/dev/null"),
    "wait": re.compile(r'until \[ -e "\$LAB/(\w+)" \]; do sleep 0\.1; done; rm -f "\$LAB/\1"'),
    "leave": re.compile(r"exit (\d+)"),
    "fill": re.compile(re.escape(FILL_MEMORY)),
}


def parse_command(command: Sequence[str]) -> list[Line]:
    """The lines of `make_command`."""
    if not command:
        return []
    shell, option, text = command
    first, *lines = text.split("\n")
    assert (shell, option, first) == ("sh", "-c", _END_ON_TERM), command
    return [_parse_line(line) for line in lines]


def _parse_line(line: str) -> Line:
    for verb, form in _FORMS.items():
        if match := form.fullmatch(line):
            quoted = verb in ("say", "save")
            first, *others = match.groups() or ("",)
            return Line(verb, (shlex.split(first)[0] if quoted else first, *others))
    raise AssertionError(f"no engine can be expected to understand {line}")
