"""Kubeconfig files, read as kubectl reads them: merged, the first file that defines a name wins.

What the selected context, cluster or user says and we do not know is refused, never skipped: a field like
`as` or `auth-provider` changes who we are.
"""

import base64
import binascii
import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from runyard.kube.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Section:
    """One named cluster, user or context, and the file it came from."""

    kind: str
    name: str
    file: Path
    values: Mapping[str, Any]

    def refuse(self, complaint: str) -> ConfigError:
        """A ConfigError that names the file and section."""
        return ConfigError(f"{self.kind} `{self.name}` in {self.file}: {complaint}")

    def allow_only(self, known: Iterable[str]) -> None:
        """Refuse unknown fields."""
        known = sorted({*known, "extensions"})
        for field in self.values:
            if field not in known:
                raise self.refuse(f"field `{field}` is not supported; known are {', '.join(known)}")

    def text(self, field: str) -> str | None:
        """A string; absent, null and empty are the same, as in Go."""
        value = self.values.get(field)
        if value is not None and not isinstance(value, str):
            raise self.refuse(f"{field} must be a string, is {type(value).__name__}")
        return value or None

    def required(self, field: str) -> str:
        """A required string."""
        value = self.text(field)
        if value is None:
            raise self.refuse(f"{field} is missing")
        return value

    def flag(self, field: str) -> bool:
        """A boolean, false when absent."""
        value = self.values.get(field)
        if value is not None and not isinstance(value, bool):
            raise self.refuse(f"{field} must be true or false, is `{value}`")
        return bool(value)

    def path(self, field: str) -> Path | None:
        """An absolute path; a relative one is resolved against the kubeconfig file."""
        value = self.text(field)
        return (self.file.parent / value).absolute() if value else None

    def content(self, field: str) -> bytes | None:
        """The content of `<field>-data` (base64), or of the file that `<field>` names."""
        encoded = self.text(f"{field}-data")
        if encoded is not None:
            try:
                return base64.b64decode("".join(encoded.split()), validate=True)
            except (binascii.Error, ValueError) as error:
                raise self.refuse(f"{field}-data is not base64: {error}") from error
        path = self.path(field)
        if path is None:
            return None
        try:
            return path.read_bytes()
        except OSError as error:
            raise self.refuse(f"{field} {path}: {error.strerror}") from error

    def pem(self, field: str) -> bytes | None:
        """`content`, checked to be PEM."""
        content = self.content(field)
        if content is not None and b"-----BEGIN " not in content:
            raise self.refuse(f"{field} is not PEM")
        return content


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Several kubeconfig files, merged."""

    files: tuple[Path, ...]
    current_context: str | None
    sections: Mapping[tuple[str, str], Section]

    def context(self, name: str | None) -> Section:
        """The named context, or the current one."""
        name = name or self.current_context
        if name is None:
            raise ConfigError(f"no current-context in {self._sources()}: {self._choices('context')}")
        return self.section("context", name)

    def section(self, kind: str, name: str) -> Section:
        """The section of that name; an unknown one is refused with the nearest names."""
        section = self.sections.get((kind, name))
        if section is None:
            near = difflib.get_close_matches(name, self._names(kind), n=3)
            hint = f"did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else self._choices(kind)
            raise ConfigError(f"no {kind} `{name}` in {self._sources()}: {hint}")
        return section

    def _names(self, kind: str) -> list[str]:
        return sorted(name for section_kind, name in self.sections if section_kind == kind)

    def _choices(self, kind: str) -> str:
        names = self._names(kind)
        return f"there {'are' if names else 'is'} {', '.join(map(repr, names[:10])) or 'none'}"

    def _sources(self) -> str:
        return ", ".join(map(str, self.files))


def default_kubeconfig_files(environ: Mapping[str, str]) -> list[Path]:
    """kubectl's default paths: the list in KUBECONFIG, or ~/.kube/config."""
    listed = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return listed or [Path.home() / ".kube" / "config"]


def read_kubeconfig(files: Iterable[Path]) -> Kubeconfig:
    """Read and merge the files. Missing files are skipped; at least one must exist."""
    wanted = list(dict.fromkeys(files))
    current: str | None = None
    sections: dict[tuple[str, str], Section] = {}
    found = []
    for file in wanted:
        document = _read_document(file)
        if document is None:
            continue
        found.append(file)
        top = Section("kubeconfig", str(file), file, document)
        current = current or top.text("current-context")
        for kind in ("cluster", "user", "context"):
            for section in _iter_sections(top, kind):
                sections.setdefault((kind, section.name), section)
    if not found:
        raise ConfigError(f"no kubeconfig: {', '.join(map(str, wanted))} does not exist")
    return Kubeconfig(tuple(found), current, sections)


def _read_document(file: Path) -> Mapping[str, Any] | None:
    try:
        document = yaml.safe_load(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"kubeconfig {file}: {error.strerror}") from error
    except yaml.YAMLError as error:
        # The problem and its place only: the excerpt that YAML adds may show a token.
        problem = getattr(error, "problem", None) or "unreadable"
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise ConfigError(f"kubeconfig {file} is not YAML{line}: {problem}") from None
    if document is None:
        return {}
    if not isinstance(document, dict) or document.get("kind", "Config") != "Config":
        raise ConfigError(f"kubeconfig {file} is not a mapping of kind Config")
    return document


def _iter_sections(top: Section, kind: str) -> Iterable[Section]:
    entries = top.values.get(f"{kind}s") or []
    if not isinstance(entries, list):
        raise ConfigError(f"kubeconfig {top.file}: {kind}s must be a list")
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise ConfigError(f"kubeconfig {top.file}: {kind}s[{index}] has no name")
        values = entry.get(kind) or {}
        if not isinstance(values, dict):
            raise ConfigError(f"kubeconfig {top.file}: {kind}s[{index}].{kind} must be a mapping")
        yield Section(kind, entry["name"], top.file, values)
