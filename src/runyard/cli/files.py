"""Reading what the user named: bounded, and with the reason in one line where it cannot be read."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

STDIN = "-"
MOST_BYTES = 1024 * 1024
PROFILE_ENDINGS = (".yaml", ".yml", ".json")


class Unreadable(click.ClickException):
    """A file that cannot be read at all: wrong use, where wrong content would be refused."""

    exit_code = 2


def show_name(file: str) -> str:
    """How a file is called in messages."""
    return "<stdin>" if file == STDIN else file


def read_bytes(file: str, *, most_bytes: int = MOST_BYTES) -> bytes:
    """A file's content, or standard input's for `-`; raises `Unreadable`, also where it is larger than is read."""
    try:
        if file == STDIN:
            content = sys.stdin.buffer.read(most_bytes + 1)
        else:
            with Path(file).open("rb") as stream:
                content = stream.read(most_bytes + 1)
    except OSError as error:
        raise Unreadable(f"{show_name(file)}: cannot be read: {error.strerror or error}") from None
    if len(content) > most_bytes:
        raise Unreadable(f"{show_name(file)}: is larger than the {most_bytes:,} bytes that are read")
    return content


def list_profile_files(given: Iterable[str]) -> Iterator[str]:
    """Files as they are, and the profile files of folders by name; hidden ones are not taken."""
    for name in given:
        if not Path(name).is_dir():
            yield name
            continue
        try:
            found = sorted(path for path in Path(name).iterdir() if _is_profile_file(path))
        except OSError as error:
            raise Unreadable(f"{name}: cannot be read: {error.strerror or error}") from None
        if not found:
            raise Unreadable(f"{name}: no file in it ends with {', '.join(PROFILE_ENDINGS)}")
        yield from map(str, found)


def _is_profile_file(path: Path) -> bool:
    return path.suffix in PROFILE_ENDINGS and not path.name.startswith(".") and path.is_file()
