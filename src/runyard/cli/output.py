"""Output to a terminal or a pipe: JSON and YAML, values for people, colour only on a terminal."""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TextIO

import click

from runyard.domain.effective_spec import SECONDS
from runyard.spec.figures import format_figure, format_seconds
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.problems import Path, shorten
from runyard.spec.resources import SIDES
from runyard.spec.yaml.loader import dump_yaml

Severity = Literal["error", "warning", "note"]

_AMOUNTS = frozenset({*SIDES, "size"})
"""The last parts of paths whose values are amounts."""
_COLOURS: Mapping[Severity, str] = {"error": "red", "warning": "yellow", "note": "cyan"}
LEVEL_MARKS = {"ok": "ok      ", "warning": "warning ", "error": "ERROR   "}
"""How the lines of a `doctor` begin."""
_HARMFUL = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that JSON does not escape and that a terminal interprets: C1 controls, separators, bidi overrides."""


def has_colour(stream: TextIO) -> bool:
    """Whether the stream is a terminal, and NO_COLOR is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_data(data: Any, *, output: str) -> None:
    """Print a value as `json` or `yaml`, always in UTF-8."""
    text = dump_json(data) if output == "json" else dump_yaml(data)
    click.echo(text.encode(errors="backslashreplace"), nl=False)


def print_documents(documents: Iterable[Any]) -> None:
    """Print values as a YAML stream with several documents."""
    text = "---\n".join(map(dump_yaml, documents))
    click.echo(text.encode(errors="backslashreplace"), nl=False)


def dump_json(data: Any) -> str:
    """Return indented JSON with readable letters and without characters that a terminal interprets."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return _HARMFUL.sub(lambda match: f"\\u{ord(match.group()):04x}", text) + "\n"


def print_note(text: str) -> None:
    """Print information that needs no action to standard error."""
    colour = has_colour(sys.stderr)
    click.echo(f"{paint('note:', 'note', colour=colour)} {clean(text)}", err=True, color=colour)


def format_value(path: Path, value: Any) -> str:
    """Format a leaf for people in one bounded line: `2h`, `true`, `[a, b]`, `about 35.2Gi (37795712205)`."""
    is_time = path[-1:] == ("lifetime",) or (len(path) == 1 and path[0] in SECONDS)
    if is_time and isinstance(value, int):
        return format_seconds(value)
    if path[:1] in (("resources",), ("volumes",)) and path[-1] in _AMOUNTS and isinstance(value, str):
        return format_figure(".".join(map(str, path)), Quantity.parse(value))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clean(shorten(text))


def count_things(number: int, noun: str) -> str:
    """`1 warning`, `2 warnings`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def clean(text: str) -> str:
    """Escape control characters (terminal escape injection)."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def clean_lines(text: str) -> str:
    """Escape control characters of each line."""
    return "\n".join(map(clean, text.split("\n")))


def paint(text: str, severity: Severity, *, colour: bool) -> str:
    """Return the text in the colour of a severity."""
    return click.style(text, fg=_COLOURS[severity], bold=True) if colour else text
