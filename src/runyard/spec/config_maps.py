"""Config maps: files with text that a project keeps in versions, or that a run brings along."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from runyard.spec.digitalhub.reference_strings import parse_key
from runyard.spec.figures import format_bytes
from runyard.spec.names import check_config_key, check_dns_subdomain, check_slug
from runyard.spec.problem_codes import Code
from runyard.spec.problems import MOST_BITS
from runyard.spec.readers import Findings, expect_mapping, expect_text, refuse

MOST_INLINE_BYTES = 900_000
"""The maximum of the files of a `config_map` volume with `data`; Kubernetes accepts ConfigMaps of 1 MiB."""
MOST_CONFIG_MAP_BYTES = 512 * 1024
"""The maximum of the files of one version of a project's config map: two of them fit into one run."""
MOST_RUN_CONFIG_BYTES = 1024 * 1024
"""The maximum of the files of all `config_map` volumes of one run: the run keeps a copy of them."""
MOST_CONFIG_MAPS = 16
"""How many config maps of its project one run may name: each is read when the run is submitted."""

TYPE = "configmap"
"""Type and kind of a project's config map."""
FORM = "NAME, NAME:VERSION, or store://PROJECT/configmap/configmap/NAME:VERSION"
DATA_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Content by file name. Text only.",
    "examples": [{"train.toml": "epochs = 3\n"}],
    "additionalProperties": {"type": "string"},
}

_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters other than tab, line feed and carriage return; unpaired surrogates."""
_ASCII_CONTROLS = bytes(code for code in range(128) if _CONTROL_CHARACTER.match(chr(code)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapReference:
    """Names a config map: `name` for its newest version, or `name:version`."""

    name: str
    version: str | None = None
    project: str | None = None
    """Set if the reference is a key (`store://…`)."""

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}:{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMap:
    """One version of a project's config map."""

    name: str
    version: str | None
    """None where only the files are known, as on the command line."""
    data: Mapping[str, str]


def parse_config_map_reference(given: Any) -> ConfigMapReference:
    """Parse `NAME`, `NAME:VERSION` or a key; raises `Refused`."""
    text = expect_text(given, what="the name", most=2048)
    project = None
    if text.startswith("store://"):
        key = parse_key(text)
        if (key.type, key.kind) != (TYPE, TYPE):
            raise refuse(Code.REFERENCE_INVALID, "not the key of a config map", value=text, allowed=FORM)
        project, name, version = key.project, key.name or "", key.id
    else:
        name, colon, after = text.partition(":")
        version = after if colon else None
    if error := check_dns_subdomain(name):
        raise refuse(Code.NAME_INVALID, error, value=text, allowed=FORM)
    if version is not None and (error := check_slug(version)):
        raise refuse(Code.NAME_INVALID, f"the version {error}", value=text, allowed=FORM)
    return ConfigMapReference(name=name, version=version, project=project)


def read_config_data(given: Any, *, most_bytes: int = MOST_CONFIG_MAP_BYTES) -> Mapping[str, str]:
    """Read the files of a config map; numbers become text. Raises `Refused` with every problem.

    At most `MOST_ENTRIES` files, and `most_bytes` for their names and contents together.
    """
    files = expect_mapping(given, of="file names to contents")
    too_large = refuse(Code.SIZE_BYTES, "the config map is too large", allowed=f"at most {format_bytes(most_bytes)}")
    # Characters are counted first: no text longer than the limit is scanned.
    if sum(len(value) for value in files.values() if isinstance(value, str)) > most_bytes:
        raise too_large
    findings = Findings()
    data: dict[str, str] = {}
    for key, value in files.items():
        if error := check_config_key(key):
            findings.add(Code.VOLUMES_DATA_KEY, (key,), error, value=key)
        elif (text := _find_text(value)) is None:
            findings.add(Code.TYPE_TEXT, (key,), "the content of a file must be text", value=value)
        elif _has_control_characters(text):
            findings.add(Code.TEXT_CONTROL, (key,), "the content of a file must not have control characters")
        else:
            data[key] = text
    findings.finish()
    if count_bytes(data) > most_bytes:
        raise too_large
    return MappingProxyType(data)


def count_bytes(*files: Mapping[str, str]) -> int:
    """The size of file names and contents in UTF-8."""
    return sum(_count(part) for data in files for pair in data.items() for part in pair)


def _has_control_characters(text: str) -> bool:
    if not text.isascii():
        return _CONTROL_CHARACTER.search(text) is not None
    # Ten times as fast as the pattern.
    return len(text.encode().translate(None, _ASCII_CONTROLS)) < len(text)


def _count(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _find_text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    # `str` raises ValueError for integers of thousands of digits.
    return None if isinstance(value, int) and value.bit_length() > MOST_BITS else str(value)
