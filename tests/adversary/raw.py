"""The judge's own reading of raw documents: what a profile, a base object and a policy say, in one form each.

Written anew on purpose: it takes the forms that the generator draws, and shares nothing with `runyard.spec`'s readers.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity

Sides = dict[str, Quantity]
"""`request` and `limit`, either or both."""

CLAUSES = frozenset({"default", "min", "max", "options", "required", "locked", "allowed", "denied"})
AMOUNTS = frozenset(
    {
        *(
            f"resources.{name}{side}"
            for name in ("cpu", "mem", "ephemeral-storage")
            for side in ("", ".requests", ".limits")
        ),
        *("resources.gpu", "resources.disk", "volumes.size", "volumes.size_limit"),
    }
)
TIMES = frozenset({"timeout", "pending_timeout", "ttl", "grace_period"})
NUMBERS = frozenset({"run_as_user", "run_as_group", "fs_group", "replicas", "backoff_limit"})
FIELDS = frozenset(
    {
        *AMOUNTS,
        *TIMES,
        *NUMBERS,
        *("resources.disk.storage_class", "volumes.storage_class", "volumes.type", "volumes.claim_name"),
        *("node_selector", "tolerations", "affinity", "affinity.namespaces", "envs", "secrets", "profile"),
        *("runtime_class", "priority_class", "image", "image_pull_policy", "service_type"),
    }
)
_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1, "": 1}


@dataclass(frozen=True, slots=True)
class RawScope:
    """One scope of a policy: rules by dotted names, their figures read."""

    name: str
    rules: Mapping[str, Mapping[str, Any]]
    platform: Mapping[str, Any]


def read_scopes(policy: Mapping[str, Any], project: str) -> list[RawScope]:
    """The scopes that apply to a project, widest first."""
    scopes = [_read_scope("policy", policy)]
    narrower = policy.get("projects", {}).get(project)
    return scopes if narrower is None else [*scopes, _read_scope(f"policy of {project}", narrower)]


def _read_scope(name: str, given: Mapping[str, Any]) -> RawScope:
    rules: dict[str, dict[str, Any]] = {}
    for field, clause, value in _iter_clauses(given, ""):
        rules.setdefault(field, {})[clause] = _read_figures(field, clause, value)
    return RawScope(name, rules, given.get("platform", {}))


def _iter_clauses(given: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str, Any]]:
    for key, value in given.items():
        field = f"{prefix}{key}"
        if not prefix and key in ("platform", "projects"):
            continue
        if field in FIELDS:
            for clause in value.keys() & CLAUSES:
                yield field, clause, value[clause]
        yield from _iter_clauses({name: deeper for name, deeper in value.items() if name not in CLAUSES}, f"{field}.")


def _read_figures(field: str, clause: str, value: Any) -> Any:
    if clause in ("locked", "required"):
        return value
    if clause in ("allowed", "denied"):
        return value
    if clause == "options":
        return [read_value(field, option) for option in value]
    return read_value(field, value)


def read_value(field: str, given: Any) -> Any:
    """A value of a ruled field."""
    if field in AMOUNTS:
        return Quantity.parse(given)
    if field in TIMES:
        return read_seconds(given)
    if field in NUMBERS:
        return int(given)
    if field in ("node_selector", "envs"):
        return read_pairs(given)
    if field == "tolerations":
        return [read_toleration(entry) for entry in given]
    return to_camel(given) if field == "affinity" else given


def read_seconds(given: Any) -> int:
    """`90s`, `1h30m`, `3600` and 3600."""
    return sum(int(count) * _UNITS[unit] for count, unit in re.findall(r"([0-9]+)([a-z]?)", str(given)))


def read_pairs(given: Any) -> dict[str, str]:
    """`[{name, value}]`, `[{key, value}]` and `{name: value}`; all as text."""
    if isinstance(given, Mapping):
        return {name: write_text(value) for name, value in given.items()}
    return {entry.get("name", entry.get("key")): write_text(entry.get("value", "")) for entry in given}


def write_text(value: Any) -> str:
    """As YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_toleration(given: Mapping[str, Any]) -> dict[str, Any]:
    """In camelCase, without blanks."""
    return {camel(key): value for key, value in given.items() if value not in (None, "")}


def to_camel(given: Any) -> Any:
    """Kubernetes' own form of an affinity or a spread; labels stay as they are, nulls go."""
    if isinstance(given, list):
        return [to_camel(item) for item in given]
    if not isinstance(given, Mapping):
        return given
    return {
        camel(key): dict(item) if camel(key) == "matchLabels" else to_camel(item)
        for key, item in given.items()
        if item is not None
    }


def camel(key: str) -> str:
    head, *rest = key.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def snake(key: str) -> str:
    return "".join(f"_{character.lower()}" if character.isupper() else character for character in key)
