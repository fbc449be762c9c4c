"""Fields of a spec in the form that every SDK reads; values without such a form are left out of responses."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from runyard.spec.readers import to_snake_case

_VOLUME_SPEC = ("size", "size_limit", "medium")
_SOURCE = ("source", "handler", "init_function", "code", "base64", "lang")
_PREFERRED = "preferred_during_scheduling_ignored_during_execution"
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")


def fold(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with snake_case keys and without nulls."""
    return {to_snake_case(key): value for key, value in spec.items() if value is not None}


def shape_field(name: str, value: Any) -> Any:
    """One field in the clients' form; None if clients could not read it."""
    shape = _SHAPES.get(name)
    return value if shape is None else shape(value)


def shape_volumes(given: Any, *, known: tuple[str, ...]) -> list[dict[str, Any]]:
    """The volumes whose types a client knows, with the options it knows."""
    shaped = []
    for volume in given if isinstance(given, list) else ():
        folded = fold(volume) if isinstance(volume, Mapping) else {}
        spec = folded.get("spec")
        options = fold(spec) if isinstance(spec, Mapping) else {}
        plain = {key: folded.get(key) for key in ("volume_type", "name", "mount_path")}
        if plain["volume_type"] in known and all(isinstance(text, str) for text in plain.values()):
            shaped.append({**plain, "spec": {key: to_text(options[key]) for key in _VOLUME_SPEC if key in options}})
    return shaped


def shape_source(given: Any, *, language: str | None) -> dict[str, str]:
    """A function's code: text fields only, and `lang` only if it is `language` (None: any)."""
    source = {key: value for key, value in fold(given).items() if key in _SOURCE and isinstance(value, str)}
    if language is not None and source.get("lang", language) != language:
        del source["lang"]
    return source


def to_text(value: Any) -> str:
    """The value as YAML text."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(value)


def _shape_text(given: Any) -> str | None:
    return given if isinstance(given, str) else None


def _shape_integer(given: Any) -> int | None:
    if isinstance(given, str) and _INTEGER.fullmatch(given):
        return int(given)
    is_whole = isinstance(given, int | float) and not isinstance(given, bool) and given == int(given)
    return int(given) if is_whole else None


def _shape_flag(given: Any) -> bool | None:
    return given if isinstance(given, bool) else None


def _shape_mapping(given: Any) -> dict[str, Any] | None:
    return dict(given) if isinstance(given, Mapping) else None


def _shape_words(given: Any) -> list[str] | None:
    return [to_text(word) for word in given] if isinstance(given, list | tuple) else None


def _shape_command(given: Any) -> str | None:
    return " ".join(map(to_text, given)) if isinstance(given, list) else _shape_text(given)


def _make_pairs(key: str) -> Callable[[Any], list[dict[str, str]] | None]:
    def shape(given: Any) -> list[dict[str, str]] | None:
        """Convert `{A: "1"}` to `[{name: A, value: "1"}]`."""
        if isinstance(given, Mapping):
            return [{key: name, "value": to_text(value)} for name, value in given.items() if value is not None]
        entries = given if isinstance(given, list) else None
        return entries and [
            {key: entry[key], "value": to_text(entry["value"])}
            for entry in entries
            if isinstance(entry, Mapping) and isinstance(entry.get(key), str) and entry.get("value") is not None
        ]

    return shape


def _shape_secrets(given: Any) -> list[str] | None:
    if not isinstance(given, list):
        return None
    names = [entry.get("name") if isinstance(entry, Mapping) else entry for entry in given]
    return [name for name in names if isinstance(name, str)]


def _shape_ports(given: Any) -> list[dict[str, int]] | None:
    if not isinstance(given, list):
        return None
    folded = [fold(port) if isinstance(port, Mapping) else {"port": port} for port in given]
    pairs = [(_shape_integer(port.get("port")), _shape_integer(port.get("target_port"))) for port in folded]
    # Clients need both; the target port defaults to the Service's port.
    return [{"port": port, "target_port": target or port} for port, target in pairs if port is not None]


def _shape_tolerations(given: Any) -> list[dict[str, Any]] | None:
    if not isinstance(given, list):
        return None
    shaped = []
    for toleration in map(fold, (each for each in given if isinstance(each, Mapping))):
        plain: dict[str, Any] = {
            key: to_text(toleration[key]) for key in ("key", "operator", "value", "effect") if key in toleration
        }
        if (seconds := _shape_integer(toleration.get("toleration_seconds"))) is not None:
            plain["toleration_seconds"] = seconds
        shaped.append(plain)
    return shaped


def _shape_affinity(given: Any) -> dict[str, Any] | None:
    if not isinstance(given, Mapping):
        return None
    affinity = _fold_deeply(given)
    node = affinity.get("node_affinity")
    if isinstance(node, Mapping):
        # Clients expect a node selector here, which differs from Kubernetes' schema.
        affinity["node_affinity"] = {key: value for key, value in node.items() if key != _PREFERRED}
    return dict(affinity)


def _fold_deeply(value: Any) -> Any:
    if isinstance(value, Mapping):
        # Keys of labels are not field names.
        return {
            key: dict(item) if key == "match_labels" and isinstance(item, Mapping) else _fold_deeply(item)
            for key, item in fold(value).items()
        }
    return [_fold_deeply(item) for item in value] if isinstance(value, list) else value


_TEXTS = (
    *("function", "workflow", "task", "profile", "runtime_class", "priority_class", "image", "base_image"),
    *("image_pull_policy", "service_type", "service_name", "python_version"),
)
_INTEGERS = ("replicas", "run_as_user", "run_as_group", "fs_group")
_MAPPINGS = ("source", "parameters", "inputs", "init_parameters")
_WORDS = ("args", "requirements", "instructions")
_SHAPES: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_TEXTS, _shape_text),
    **dict.fromkeys(_INTEGERS, _shape_integer),
    **dict.fromkeys(_MAPPINGS, _shape_mapping),
    **dict.fromkeys(_WORDS, _shape_words),
    "local_execution": _shape_flag,
    "envs": _make_pairs("name"),
    "node_selector": _make_pairs("key"),
    "secrets": _shape_secrets,
    "service_ports": _shape_ports,
    "command": _shape_command,
    "tolerations": _shape_tolerations,
    "affinity": _shape_affinity,
}
