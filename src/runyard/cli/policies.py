"""Policy files: Runyard's YAML, or the settings of DigitalHub's Core."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runyard.cli.files import read_bytes, show_name
from runyard.cli.findings import Failed, Finding
from runyard.cli.source_locations import Source, extract_place
from runyard.spec.digitalhub.core_settings import read_settings
from runyard.spec.policy import Policy, lint_policy, read_policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.yaml.loader import Document, load_document

_SETTING = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_QUOTES = ("'", '"')


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A policy, the warnings about its file, and the form of the file."""

    policy: Policy
    warnings: tuple[Finding, ...] = ()
    is_settings: bool = False
    document: Mapping[str, Any] = field(default_factory=dict)
    """As it was written, and is stored; empty for settings."""


def load_policy(file: str) -> LoadedPolicy:
    """Read a policy file in either form; raises `Failed` with all its problems."""
    content, name = read_bytes(file), show_name(file)
    lines = _find_settings(content)
    if lines is not None:
        return _load_lines(lines, name)
    try:
        document = load_document(content)
    except Refused as refused:
        raise Failed(extract_place(problem, name) for problem in refused.problems) from None
    source = Source(name, document)
    document_warnings = [source.locate(warning) for warning in document.warnings]
    if _has_settings(document):
        values = {key: _get_text(document, key) for key in document.data}
        loaded = _load_settings(values, source)
    else:
        loaded = _load_own(source)
    return replace(loaded, warnings=(*document_warnings, *loaded.warnings))


def _load_own(source: Source) -> LoadedPolicy:
    try:
        policy = read_policy(source.document.data)
    except Refused as refused:
        raise source.refuse(refused) from None
    warnings = tuple(map(source.locate, lint_policy(policy)))
    return LoadedPolicy(policy, warnings, document=source.document.data or {})


def _load_settings(values: dict[str, str], source: Source) -> LoadedPolicy:
    try:
        policy, warnings = read_settings(values)
    except Refused as refused:
        raise source.refuse(refused) from None
    return LoadedPolicy(policy, tuple(map(source.locate, warnings)), is_settings=True)


def _has_settings(document: Document) -> bool:
    data = document.data
    return isinstance(data, dict) and any(isinstance(key, str) and key.startswith("K8S_") for key in data)


def _get_text(document: Document, key: str) -> str:
    """Return a setting as written: environment variables are text, so `1.10` must not become 1.1."""
    text = document.find_text((key,))
    return "" if text is None and document.data[key] is None else str(document.data[key]) if text is None else text


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    value: str
    number: int
    column: int


def _find_settings(content: bytes) -> list[_Line] | None:
    """Return the settings of a text that consists of KEY=VALUE lines, blank lines and comments; else None."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _SETTING.fullmatch(line.strip())
        if match is None:
            return None
        value = match[2].strip()
        is_quoted = len(value) >= 2 and value[0] in _QUOTES and value[-1] == value[0]
        column = line.index("=") + 2
        lines.append(_Line(match[1], value[1:-1] if is_quoted else value, number, column))
    return lines or None


def _load_lines(lines: list[_Line], name: str) -> LoadedPolicy:
    by_name = {line.name: line for line in lines}

    def locate(problem: Problem) -> Finding:
        line = by_name.get(str(problem.path[0])) if problem.path else None
        return Finding(problem, name, None if line is None else (line.number, line.column))

    document_warnings = [
        Finding(
            Problem(Code.SETTING_TWICE, (line.name,), f"is set again in line {by_name[line.name].number}; ignored"),
            name,
            (line.number, line.column),
        )
        for line in lines
        if by_name[line.name] is not line
    ]
    try:
        policy, warnings = read_settings({key: line.value for key, line in by_name.items()})
    except Refused as refused:
        raise Failed(map(locate, refused.problems), document_warnings) from None
    return LoadedPolicy(policy, (*document_warnings, *map(locate, warnings)), is_settings=True)
