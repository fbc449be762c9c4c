"""Merges flags, variables and the settings file into `Settings`. Reports all problems of all layers at once."""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runyard.settings.checks import check_together, list_warnings
from runyard.settings.settings import Settings, is_loopback
from runyard.settings.table import SETTINGS, SETTINGS_FILE, Setting
from runyard.settings.value_readers import WrongValue
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused, find_nearest, shorten
from runyard.spec.yaml.loader import Document, load_document

_NAMES = {setting.name: setting for setting in SETTINGS}
_MOST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, the source of each (`--port`, `RUNYARD_PORT`, `runyard.yaml:3`, `default`), and warnings."""

    settings: Settings
    sources: Mapping[str, str]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Given:
    text: str
    where: str
    base: Path


def read_settings(
    flags: Mapping[str, str | bool | None],
    *,
    environment: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
) -> Loaded:
    """Read all layers; raises `Refused` with one problem per error.

    `flags` maps setting names to values; None means not set, and `settings` is the path of the file. With `only`, other
    settings keep their defaults and are not checked: a command that needs the database ignores a wrong port.
    """
    environment = os.environ if environment is None else environment
    problems: list[Problem] = []
    given = _read_layers(flags, environment, problems)
    values = {name: _read_default(setting) for name, setting in _NAMES.items()}
    for name, found in given.items():
        if only is None or name in only:
            values[name] = _read_value(_NAMES[name], found, problems)
    _fill_in(values, environment, problems)
    looked_at = given.keys() if only is None else given.keys() & set(only)
    sources = {name: given[name].where if name in looked_at else "default" for name in _NAMES}
    wrong = {name for name, value in values.items() if value is _WRONG}
    problems += check_together(values, sources, wrong)
    if problems:
        raise Refused(problems)
    warnings = (*_list_misspelt(environment), *list_warnings(values, sources, is_whole=only is None))
    return Loaded(Settings(**values), sources, warnings)


_WRONG: Any = object()


def _read_layers(
    flags: Mapping[str, str | bool | None], environment: Mapping[str, str], problems: list[Problem]
) -> dict[str, _Given]:
    """Return the value of the strongest layer for each setting."""
    here = Path.cwd()
    named = flags.get(SETTINGS_FILE.name) or environment.get(SETTINGS_FILE.variable)
    where = SETTINGS_FILE.flag if flags.get(SETTINGS_FILE.name) else SETTINGS_FILE.variable
    given = _read_file(_Given(str(named), where, here), problems) if named else {}
    for setting in SETTINGS:
        # Many tools write an empty variable for "not set".
        if text := environment.get(setting.variable):
            given[setting.name] = _Given(text, setting.variable, here)
        flag = flags.get(setting.name)
        if flag is not None:
            given[setting.name] = _Given(str(flag).lower() if setting.is_switch else str(flag), setting.flag, here)
    return given


def _read_file(file: _Given, problems: list[Problem]) -> dict[str, _Given]:
    path = _read_value(SETTINGS_FILE, file, problems)
    if path is _WRONG:
        return {}
    try:
        with path.open("rb") as stream:
            document = load_document(stream.read(_MOST_BYTES + 1), source=file.text, most_bytes=_MOST_BYTES)
    except Refused as refused:
        problems += refused.problems
        return {}
    except OSError as error:
        problems.append(_make_problem(file.where, f"`{file.text}` cannot be read: {error.strerror or error}"))
        return {}
    if not isinstance(document.data, dict):
        problems.append(_make_problem(file.text, "is not a mapping of names to values", allowed="lines `name: value`"))
        return {}
    return dict(_iter_lines(document, file=file.text, base=path.parent, problems=problems))


def _iter_lines(document: Document, *, file: str, base: Path, problems: list[Problem]) -> Iterator[tuple[str, _Given]]:
    for key, value in document.data.items():
        line, _ = document.find_position((key,)) or (1, 1)
        where = f"{file}:{line}"
        setting = _NAMES.get(key)
        if setting is None:
            near = find_nearest(key, _NAMES)
            problems.append(_make_problem(where, f"unknown setting `{shorten(key)}`", suggestion=near))
        elif setting.is_secret:
            problems.append(_make_problem(where, f"`{key}` is a secret: set the variable {setting.variable} instead"))
        elif isinstance(value, dict | list):
            problems.append(_make_problem(where, f"`{key}` takes one value, not a list or a mapping"))
        elif value is not None:
            yield key, _Given(document.find_text((key,)) or str(value), where, base)


def _read_value(setting: Setting, given: _Given, problems: list[Problem]) -> Any:
    try:
        return setting.read(given.text, given.base)
    except WrongValue as error:
        is_private = setting.is_secret or error.is_private
        shown = "" if is_private else f"`{shorten(given.text)}` "
        what = f"`{setting.name}` " if ":" in given.where else ""
        problems.append(
            _make_problem(
                given.where,
                f"{what}{shown}{error}" if shown or what else f"the value {error}",
                allowed=error.allowed,
                suggestion=error.suggestion,
            )
        )
        return _WRONG


def _read_default(setting: Setting) -> Any:
    return None if setting.default is None else setting.read(setting.default, Path.cwd())


def _fill_in(values: dict[str, Any], environment: Mapping[str, str], problems: list[Problem]) -> None:
    """Compute the defaults that depend on other settings."""
    if values["data"] is None:
        values["data"] = _choose_data_directory(environment, problems)
    data = values["data"]
    if data is not _WRONG:
        values["database"] = values["database"] or f"sqlite:///{quote(str(data / 'runyard.db'))}"
        values["key_file"] = values["key_file"] or data / "key"
        values["files"] = values["files"] or str(data / "files")
        values["logs"] = f"database:{data}/logs.db" if values["logs"] == "database" else values["logs"]
    if values["auth"] is None and values["host"] is not _WRONG:
        is_local = is_loopback(values["host"]) and values["behind_proxy"] is False
        # Otherwise the database decides.
        values["auth"] = None if is_local else "accounts"


def _choose_data_directory(environment: Mapping[str, str], problems: list[Problem]) -> Any:
    state, home = environment.get("XDG_STATE_HOME", ""), environment.get("HOME", "")
    if state.startswith("/"):  # the XDG specification says to ignore relative paths
        return Path(state) / "runyard"
    if home.startswith("/"):
        return Path(home) / ".local/state/runyard"
    problems.append(_make_problem("--data (RUNYARD_DATA)", "not set, and there is no home directory for the default"))
    return _WRONG


def _list_misspelt(environment: Mapping[str, str]) -> Iterator[str]:
    """Warn about variables whose name is close to a setting's.

    Other variables with our prefix are ignored: clients and Kubernetes set some too.
    """
    known = {setting.variable for setting in (*SETTINGS, SETTINGS_FILE)}
    for name in sorted(environment):
        if name.startswith("RUNYARD_") and name not in known and not _is_kubernetes(name):
            near = find_nearest(name.removeprefix("RUNYARD_"), (word.removeprefix("RUNYARD_") for word in known))
            if near:
                yield f"{name}: unknown setting; ignored; did you mean: RUNYARD_{near}"


def _is_kubernetes(name: str) -> bool:
    """Whether Kubernetes sets this variable in every pod for a Service named `runyard` (service links)."""
    return name.startswith(("RUNYARD_SERVICE_", "RUNYARD_PORT_"))


def _make_problem(where: str, message: str, *, allowed: str | None = None, suggestion: str | None = None) -> Problem:
    return Problem(Code.SETTINGS_WRONG, (), f"{where}: {message}", allowed=allowed, suggestion=suggestion)
