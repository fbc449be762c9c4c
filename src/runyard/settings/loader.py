"""From flags, variables and a file to `Settings`: every problem of every layer at once."""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runyard.settings.checks import check_together, list_doubts
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
    """The settings, where each came from (`--port`, `RUNYARD_PORT`, `runyard.yaml:3`, `default`), and what is odd."""

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
    """Read the layers; raises `Refused` with one problem for each thing that is wrong.

    `flags` are by name of the setting, and `settings` is the file; None was not given. With `only`, the others keep
    their defaults and are not looked at: a command that needs the database does not mind the port.
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
    warnings = (*_list_misspelt(environment), *list_doubts(values, sources, is_whole=only is None))
    return Loaded(Settings(**values), sources, warnings)


_WRONG: Any = object()


def _read_layers(
    flags: Mapping[str, str | bool | None], environment: Mapping[str, str], problems: list[Problem]
) -> dict[str, _Given]:
    """The strongest word on each setting."""
    here = Path.cwd()
    named = flags.get(SETTINGS_FILE.name) or environment.get(SETTINGS_FILE.variable)
    where = SETTINGS_FILE.flag if flags.get(SETTINGS_FILE.name) else SETTINGS_FILE.variable
    given = _read_file(_Given(str(named), where, here), problems) if named else {}
    for setting in SETTINGS:
        # A variable that is set to nothing is how many tools write «not set».
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
        problems.append(_make_problem(file.text, "holds no mapping of names to values", allowed="lines `name: value`"))
        return {}
    return dict(_iter_lines(document, file=file.text, base=path.parent, problems=problems))


def _iter_lines(document: Document, *, file: str, base: Path, problems: list[Problem]) -> Iterator[tuple[str, _Given]]:
    for key, value in document.data.items():
        line, _ = document.find_position((key,)) or (1, 1)
        where = f"{file}:{line}"
        setting = _NAMES.get(key)
        if setting is None:
            near = find_nearest(key, _NAMES)
            problems.append(_make_problem(where, f"there is no setting `{shorten(key)}`", suggestion=near))
        elif setting.is_secret:
            problems.append(_make_problem(where, f"`{key}` is a secret: set the variable {setting.variable} instead"))
        elif isinstance(value, dict | list):
            problems.append(_make_problem(where, f"`{key}` is one value, not a list or a mapping"))
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
    """Defaults that follow from other settings."""
    if values["data"] is None:
        values["data"] = _find_data_folder(environment, problems)
    data = values["data"]
    if data is not _WRONG:
        values["database"] = values["database"] or f"sqlite:///{quote(str(data / 'runyard.db'))}"
        values["key_file"] = values["key_file"] or data / "key"
        values["logs"] = f"database:{data}/logs.db" if values["logs"] == "database" else values["logs"]
    if values["auth"] is None and values["host"] is not _WRONG:
        values["auth"] = "open" if is_loopback(values["host"]) and values["behind_proxy"] is False else "accounts"


def _find_data_folder(environment: Mapping[str, str], problems: list[Problem]) -> Any:
    state, home = environment.get("XDG_STATE_HOME", ""), environment.get("HOME", "")
    if state.startswith("/"):  # the standard says that relative ones do not count
        return Path(state) / "runyard"
    if home.startswith("/"):
        return Path(home) / ".local/state/runyard"
    problems.append(_make_problem("--data (RUNYARD_DATA)", "is not given, and no home is known to put it in"))
    return _WRONG


def _list_misspelt(environment: Mapping[str, str]) -> Iterator[str]:
    """Variables that are nearly ours. Others of our prefix are left alone: clients and Kubernetes have some too."""
    known = {setting.variable for setting in (*SETTINGS, SETTINGS_FILE)}
    for name in sorted(environment):
        if name.startswith("RUNYARD_") and name not in known and not _is_kubernetes(name):
            near = find_nearest(name.removeprefix("RUNYARD_"), (word.removeprefix("RUNYARD_") for word in known))
            if near:
                yield f"{name}: is no setting and was not used; did you mean: RUNYARD_{near}"


def _is_kubernetes(name: str) -> bool:
    """Whether it is one of those that a Service named `runyard` puts into every pod."""
    return name.startswith(("RUNYARD_SERVICE_", "RUNYARD_PORT_"))


def _make_problem(where: str, message: str, *, allowed: str | None = None, suggestion: str | None = None) -> Problem:
    return Problem(Code.SETTINGS_WRONG, (), f"{where}: {message}", allowed=allowed, suggestion=suggestion)
