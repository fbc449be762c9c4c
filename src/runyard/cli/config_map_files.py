"""Config maps from files and directories: what `--config-map NAME=PATH` and `runyard config-map set` name."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import click

from runyard.cli.files import STDIN, Unreadable, read_bytes, show_name
from runyard.cli.findings import Failed, Finding
from runyard.spec.config_maps import (
    MOST_CONFIG_MAP_BYTES,
    ConfigMap,
    parse_config_map_reference,
    read_config_data,
)
from runyard.spec.figures import format_bytes
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.readers import MOST_ENTRIES


def load_config_maps(given: Iterable[tuple[str, str]]) -> Mapping[str, ConfigMap]:
    """Read config maps by `NAME` or `NAME:VERSION` and path; raises `Failed` with the problems of all of them."""
    loaded: dict[str, ConfigMap] = {}
    errors: list[Finding] = []
    for text, path in given:
        reference = parse_config_map_reference(text)
        try:
            data = read_config_data(_read_files(path))
        except Refused as refused:
            errors += [Finding(problem, path) for problem in refused.problems]
            continue
        loaded[str(reference)] = ConfigMap(name=reference.name, version=reference.version, data=data)
    if errors:
        raise Failed(errors)
    return MappingProxyType(loaded)


def load_config_data(*, files: Iterable[str], literals: Iterable[str]) -> Mapping[str, str]:
    """Read the files of one config map; raises `Failed` with their problems.

    `files` are PATH or NAME=PATH, where a directory stands for all its files; `literals` are NAME=TEXT.
    """
    data: dict[str, str] = {}
    for given in files:
        name, path = _split_file(given)
        try:
            _add(data, _read_files(path, name=name))
        except Refused as refused:
            raise Failed(Finding(problem, show_name(path)) for problem in refused.problems) from None
    for given in literals:
        name, separator, text = given.partition("=")
        if not separator or not name:
            raise click.UsageError(f"--from-literal: `{given}` has no name; allowed: NAME=TEXT")
        _add(data, {name: text})
    if not data:
        raise click.UsageError("no file is given: use --from-file or --from-literal")
    try:
        return read_config_data(data)
    except Refused as refused:
        raise Failed(map(Finding, refused.problems)) from None


def _split_file(given: str) -> tuple[str | None, str]:
    """Return the name of a file in the config map, and its path; None as the name: that of the path."""
    name, separator, path = given.partition("=")
    if not separator or Path(given).exists():
        name, path = "", given
    if not name and path == STDIN:
        raise click.UsageError("--from-file: standard input has no name; allowed: NAME=-")
    return name or None, path


def _add(data: dict[str, str], more: Mapping[str, str]) -> None:
    twice = next((name for name in more if name in data), None)
    if twice is not None:
        raise click.UsageError(f"`{twice}` is given twice; name one of them with NAME=PATH")
    data.update(more)


def _read_files(path: str, *, name: str | None = None) -> dict[str, str]:
    """One file under its own name or the one given, or every file of a directory. Raises `Refused`, `Unreadable`."""
    files = _list_files(path) if Path(path).is_dir() else [Path(path)]
    if name is not None and Path(path).is_dir():
        raise Unreadable(f"{path}: is a directory, whose files have their own names; leave `{name}=` out")
    left = MOST_CONFIG_MAP_BYTES
    read: dict[str, str] = {}
    for file in files:
        content = read_bytes(str(file), most_bytes=MOST_CONFIG_MAP_BYTES)
        left -= len(content)
        if left < 0:
            message = "the config map is too large"
            raise Refused(
                [Problem(Code.SIZE_BYTES, (), message, allowed=f"at most {format_bytes(MOST_CONFIG_MAP_BYTES)}")]
            )
        try:
            read[name or file.name] = content.decode()
        except UnicodeDecodeError:
            message = "the content of a file must be text in UTF-8"
            raise Refused([Problem(Code.TYPE_TEXT, (file.name,), message)]) from None
    return read


def _list_files(directory: str) -> list[Path]:
    try:
        found = sorted(Path(directory).iterdir())
    except OSError as error:
        raise Unreadable(f"{directory}: cannot be read: {error.strerror or error}") from None
    if other := next((path for path in found if not path.is_file()), None):
        raise Unreadable(f"{directory}: contains `{other.name}`, which is not a file; a config map has only files")
    if len(found) > MOST_ENTRIES:
        raise Unreadable(f"{directory}: contains {len(found)} files; a config map has at most {MOST_ENTRIES}")
    return found
