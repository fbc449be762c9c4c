"""Config maps from files and directories: what `--config-map NAME=PATH` names."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from runyard.cli.files import Unreadable, read_bytes
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


def _read_files(path: str) -> dict[str, str]:
    """One file under its own name, or every file of a directory. Raises `Refused` and `Unreadable`."""
    files = _list_files(path) if Path(path).is_dir() else [Path(path)]
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
            read[file.name] = content.decode()
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
