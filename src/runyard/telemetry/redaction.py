"""Redacts log events: values under telling keys, environment variables, and text that looks like a token."""

import re
from collections.abc import Mapping, MutableMapping
from typing import Any

HIDDEN = "[hidden]"
MOST_DEPTH = 8

_KEYS = re.compile(
    r"(?:^|[_\-.])(authorization|cookie|credentials?|passw(?:or)?d|passphrase|secret|token|"
    r"(?:api|access|private|secret|signing)[_-]?key|wrapped_key|ciphertext)s?$",
    re.IGNORECASE,
)
_ENVIRONMENTS = frozenset({"env", "envs", "environment", "environ"})
_TEXTS = (
    (re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (re.compile(r"\bry[a-z]_[A-Za-z0-9_-]{16,}"), HIDDEN),
    # Only the first `eyJ` of a word is tried: if that does not begin a token, no later one does.
    (
        re.compile(
            r"(?<![A-Za-z0-9_-])((?>[A-Za-z0-9_-]*?\b(?=eyJ)))"
            r"[A-Za-z0-9_-]{11,}+\.[A-Za-z0-9_-]++\.[A-Za-z0-9_-]*+"
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(://[^\s/:@]*):[^\s/@]+@"), rf"\1:{HIDDEN}@"),
)


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor that redacts an event. Runs after exceptions were rendered as text."""
    return {key: redact_value(value, key=key) for key, value in event.items()}


def redact_value(value: Any, *, key: str = "", depth: int = 0) -> Any:
    """Return the value without secrets. Anything nested deeper than `MOST_DEPTH` is hidden."""
    if _KEYS.search(key) and not isinstance(value, bool | None):
        return HIDDEN
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    if depth > MOST_DEPTH:
        return HIDDEN
    if isinstance(value, Mapping):
        return _redact_mapping(value, is_environment=key.lower() in _ENVIRONMENTS, depth=depth)
    if isinstance(value, list | tuple | set | frozenset):
        is_environment = key.lower() in _ENVIRONMENTS
        return [
            _redact_mapping(item, is_environment=is_environment, depth=depth)
            if isinstance(item, Mapping)
            else redact_value(item, depth=depth + 1)
            for item in value
        ]
    return value


def redact_text(text: str) -> str:
    """Return the text without substrings that look like credentials."""
    for pattern, instead in _TEXTS:
        text = pattern.sub(instead, text)
    return text


def _redact_mapping(mapping: Mapping[Any, Any], *, is_environment: bool, depth: int) -> dict[str, Any]:
    if is_environment and "name" not in mapping:
        return {str(name): HIDDEN for name in mapping}
    # `{name: HF_TOKEN, value: …}` is an environment variable, wherever it appears.
    is_entry = "value" in mapping and "name" in mapping
    return {
        str(name): HIDDEN if is_entry and name == "value" else redact_value(value, key=str(name), depth=depth + 1)
        for name, value in mapping.items()
    }
