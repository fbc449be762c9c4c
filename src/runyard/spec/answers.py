"""Specs in the shapes that clients can read: one value in another shape makes the whole list of an SDK fail.

Runs of kind `X+action:run` are read by SDKs from 0.14 on, those of kind `X+run` by 0.13. Tasks are read by all of them.
What cannot be said in a client's shape is left out here; the whole truth is the effective spec.
"""

from collections.abc import Mapping
from typing import Any

from runyard.spec.reading import to_snake_case
from runyard.spec.references import find_run_kind

_FLAT = ("cpu", "mem", "gpu", "disk")
_SIDED = ("cpu", "mem", "gpu")
_OLD_VOLUMES = ("persistent_volume_claim", "empty_dir", "ephemeral")
_VOLUMES = (*_OLD_VOLUMES, "shared_volume")
_VOLUME_SPEC = ("size", "size_limit", "medium")
_SIDES = {"requests": "requests", "request": "requests", "limits": "limits", "limit": "limits"}
WITHHELD_FROM_TASKS = ("resources", "volumes")
"""What an answer about a task may lack, so that an update that lacks it does not mean to erase it."""


def shape_run_spec(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A run's spec as the SDKs that know its kind can read it."""
    run_kind = find_run_kind(kind)
    is_old = run_kind is not None and run_kind.action is None
    shaped = _shape_common(spec)
    amounts = _read_amounts(shaped.pop("resources", None))
    if is_old:
        sided = {name: sides for name, sides in amounts.items() if name in _SIDED}
        resources: dict[str, Any] = {
            name: {key: _to_text(value) for key, value in sides.items()} for name, sides in sided.items()
        }
    else:
        resources = {name: _flatten(sides) for name, sides in amounts.items() if name in _FLAT}
    volumes = _shape_volumes(shaped.pop("volumes", None), known=_OLD_VOLUMES if is_old else _VOLUMES)
    return {**shaped, **({"resources": resources} if resources else {}), **({"volumes": volumes} if volumes else {})}


def shape_task_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A task's spec as every SDK can read it: amounts have no common shape, so they are not in it."""
    shaped = _shape_common(spec)
    shaped.pop("resources", None)
    volumes = _shape_volumes(shaped.pop("volumes", None), known=_OLD_VOLUMES)
    return {**shaped, **({"volumes": volumes} if volumes else {})}


def _shape_common(spec: Mapping[str, Any]) -> dict[str, Any]:
    shaped = {to_snake_case(key): value for key, value in spec.items() if value is not None}
    for name, shape in _SHAPES.items():
        if name in shaped:
            shaped[name] = shape(shaped[name])
    return shaped


def _shape_pairs(given: Any, key: str) -> Any:
    """`{A: "1"}` as `[{name: A, value: "1"}]`."""
    if isinstance(given, Mapping):
        return [{key: name, "value": _to_text(value)} for name, value in given.items()]
    if not isinstance(given, list):
        return given
    return [
        {**entry, "value": _to_text(entry["value"])} if isinstance(entry, Mapping) and "value" in entry else entry
        for entry in given
    ]


def _shape_secrets(given: Any) -> Any:
    if not isinstance(given, list):
        return given
    return [entry.get("name") if isinstance(entry, Mapping) else entry for entry in given]


def _shape_ports(given: Any) -> Any:
    if not isinstance(given, list):
        return given
    ports = [{to_snake_case(key): value for key, value in port.items()} for port in given if isinstance(port, Mapping)]
    return [{key: port[key] for key in ("port", "target_port") if key in port} for port in ports]


def _shape_words(given: Any) -> Any:
    return [_to_text(word) for word in given] if isinstance(given, list) else given


def _shape_command(given: Any) -> Any:
    return " ".join(map(str, given)) if isinstance(given, list) else given


_SHAPES: Mapping[str, Any] = {
    "envs": lambda given: _shape_pairs(given, "name"),
    "node_selector": lambda given: _shape_pairs(given, "key"),
    "secrets": _shape_secrets,
    "service_ports": _shape_ports,
    "args": _shape_words,
    "command": _shape_command,
}


def _read_amounts(given: Any) -> dict[str, dict[str, Any]]:
    """`cpu: 8`, `cpu: {requests: 8}` and `requests: {cpu: 8}` as `{cpu: {requests: 8}}`."""
    amounts: dict[str, dict[str, Any]] = {}
    for key, value in given.items() if isinstance(given, Mapping) else ():
        name = _rename(key)
        if key in _SIDES and isinstance(value, Mapping):
            for resource, amount in value.items():
                amounts.setdefault(_rename(resource), {})[_SIDES[key]] = amount
        elif isinstance(value, Mapping):
            sides = {_SIDES[side]: amount for side, amount in value.items() if side in _SIDES and amount is not None}
            amounts.setdefault(name, {}).update(sides)
        elif value is not None:
            amounts.setdefault(name, {})["requests"] = value
    return {name: sides for name, sides in amounts.items() if sides}


def _rename(resource: Any) -> str:
    return "mem" if resource == "memory" else str(resource)


def _flatten(sides: Mapping[str, Any]) -> Any:
    value = sides.get("requests", sides.get("limits"))
    return value if isinstance(value, int) and not isinstance(value, bool) else _to_text(value)


def _shape_volumes(given: Any, *, known: tuple[str, ...]) -> list[dict[str, Any]]:
    if isinstance(given, Mapping):
        given = [{"name": name, **volume} for name, volume in given.items() if isinstance(volume, Mapping)]
    shaped = []
    for volume in given if isinstance(given, list) else ():
        folded = {to_snake_case(key): value for key, value in volume.items()} if isinstance(volume, Mapping) else {}
        spec = folded.get("spec") or {}
        spec = {to_snake_case(key): value for key, value in spec.items()} if isinstance(spec, Mapping) else {}
        if folded.get("volume_type") in known and "name" in folded and "mount_path" in folded:
            plain = {key: folded[key] for key in ("volume_type", "name", "mount_path")}
            plain["spec"] = {key: _to_text(spec[key]) for key in _VOLUME_SPEC if spec.get(key) is not None}
            shaped.append(plain)
    return shaped


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(value)
