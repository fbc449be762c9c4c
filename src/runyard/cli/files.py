"""Reads files named on the command line, bounded in size."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import click

from runyard.spec.figures import format_bytes

STDIN = "-"
MOST_BYTES = 1024 * 1024
PROFILE_ENDINGS = (".yaml", ".yml", ".json")


class Unreadable(click.ClickException):
    """A file cannot be read. This is a usage error (exit code 2); wrong content is a refusal (exit code 1)."""

    exit_code = 2


def show_name(file: str) -> str:
    """Return the name of a file for messages."""
    return "<stdin>" if file == STDIN else file


def read_bytes(file: str, *, most_bytes: int = MOST_BYTES) -> bytes:
    """Read a file, or standard input for `-`; raises `Unreadable`, also if it is larger than `most_bytes`."""
    try:
        if file == STDIN:
            content = get_stdin().buffer.read(most_bytes + 1)
        else:
            with Path(file).open("rb") as stream:
                content = stream.read(most_bytes + 1)
    except OSError as error:
        raise Unreadable(f"{show_name(file)}: cannot be read: {error.strerror or error}") from None
    if len(content) > most_bytes:
        raise Unreadable(f"{show_name(file)}: larger than the limit of {format_bytes(most_bytes)}")
    return content


def is_file_name(word: str) -> bool:
    """Whether a word on the command line is probably a file, not a name."""
    return word == STDIN or "/" in word or word.endswith(PROFILE_ENDINGS) or Path(word).is_file()


def get_stdin() -> TextIO:
    """Return standard input; raises `Unreadable` if it is closed, as after `<&-` in a shell."""
    if sys.stdin is None:
        raise Unreadable("standard input is closed")
    return sys.stdin


def list_profile_files(given: Iterable[str]) -> Iterator[str]:
    """Yield files as given, and the profile files of directories in order of name, without hidden ones."""
    for name in given:
        if not Path(name).is_dir():
            yield name
            continue
        try:
            found = sorted(path for path in Path(name).iterdir() if _is_profile_file(path))
        except OSError as error:
            raise Unreadable(f"{name}: cannot be read: {error.strerror or error}") from None
        if not found:
            raise Unreadable(f"{name}: contains no file that ends with {', '.join(PROFILE_ENDINGS)}")
        yield from map(str, found)


def _is_profile_file(path: Path) -> bool:
    return path.suffix in PROFILE_ENDINGS and not path.name.startswith(".") and path.is_file()
