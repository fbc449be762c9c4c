"""Specs as DigitalHub's SDKs can read them: one value of another form makes a whole list call of an SDK fail.

SDKs from 0.14 on read runs of kind `X+action:run`, 0.13 reads those of kind `X+run`; all of them read tasks and
functions. Values that a client cannot represent are left out; `original_fields.py` returns them beside the others.
Specs of other runtimes' kinds are returned unchanged.
"""

from collections.abc import Mapping
from typing import Any

from runyard.spec.digitalhub.client_fields import fold, shape_field, shape_source, shape_volumes, to_text
from runyard.spec.digitalhub.reference_strings import find_run_kind, find_task_kind
from runyard.spec.kinds.registry import find_kind

_FLAT = ("cpu", "mem", "gpu", "disk")
_SIDED = ("cpu", "mem", "gpu")
_OLD_VOLUMES = ("persistent_volume_claim", "empty_dir", "ephemeral")
_VOLUMES = (*_OLD_VOLUMES, "shared_volume")
_SIDES = {"requests": "requests", "request": "requests", "limits": "limits", "limit": "limits"}


def shape_run_spec(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A run's spec as the SDKs that use its kind read it."""
    run_kind = find_run_kind(kind)
    if run_kind is None or find_kind(run_kind.function) is None:
        return dict(spec)
    is_old = run_kind.action is None
    shaped = _shape_fields(spec)
    amounts = _read_amounts(shaped.pop("resources", None))
    known, shape = (_SIDED, _keep_sides) if is_old else (_FLAT, _flatten)
    resources = {name: shape(sides) for name, sides in amounts.items() if name in known}
    volumes = shape_volumes(shaped.pop("volumes", None), known=_OLD_VOLUMES if is_old else _VOLUMES)
    return {**shaped, **({"resources": resources} if resources else {}), **({"volumes": volumes} if volumes else {})}


def shape_task_spec(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A task's spec as every SDK reads it, without resources, for which the SDKs have no common form."""
    if not is_shaped_task(kind):
        return dict(spec)
    shaped = _shape_fields(spec)
    shaped.pop("resources", None)
    if shaped.get("replicas") == 0 and not _can_scale_to_zero(kind):
        del shaped["replicas"]
    volumes = shape_volumes(shaped.pop("volumes", None), known=_OLD_VOLUMES)
    return {**shaped, **({"volumes": volumes} if volumes else {})}


def shape_function_spec(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A function's spec as every SDK reads it."""
    function_kind = find_kind(kind)
    if function_kind is None:
        return dict(spec)
    shaped = _shape_fields(spec)
    if "source" in shaped:
        shaped["source"] = shape_source(shaped["source"], language=function_kind.source_language)
    return shaped


def restore_task_spec(kind: str, stored: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """The new spec after a client updates a task.

    A client sends back the spec it received. Fields that were left out of the response are kept, and so is a stored
    value that the update only repeats in the client's form.
    """
    if not is_shaped_task(kind):
        return dict(written)
    shown, repeated = shape_task_spec(kind, stored), shape_task_spec(kind, written)
    before, now = fold(stored), fold(written)
    kept = {name: value for name, value in before.items() if name not in shown and name not in now}
    return {**kept, **{name: before[name] if _repeats(name, now, repeated, shown) else now[name] for name in now}}


def list_changed_fields(kind: str, *, stored: Mapping[str, Any], written: Mapping[str, Any]) -> list[str]:
    """The fields of a run's spec that an update changes.

    A client sends back the spec it received, in its own form and with its own empty values and flags; those are not
    changes.
    """
    shown, repeated = shape_run_spec(kind, stored), shape_run_spec(kind, written)
    before, now = fold(stored), fold(written)
    return [
        name
        for name, value in now.items()
        if value is not False
        and without_empty(value) not in (None, {}, [], without_empty(before.get(name)))
        and not (name in repeated and without_empty(repeated[name]) == without_empty(shown.get(name)))
    ]


def is_shaped_run(kind: str) -> bool:
    """Whether runs of this kind are ours; specs of other kinds are returned unchanged."""
    run_kind = find_run_kind(kind)
    return run_kind is not None and find_kind(run_kind.function) is not None


def is_shaped_function(kind: str) -> bool:
    """Whether functions of this kind are ours."""
    return find_kind(kind) is not None


def is_shaped_task(task_kind: str) -> bool:
    """Whether tasks of this kind are ours."""
    pair = find_task_kind(task_kind)
    return pair is not None and find_kind(pair[0]) is not None


def _can_scale_to_zero(task_kind: str) -> bool:
    """Whether every SDK can read a task of this kind with 0 replicas."""
    function_name, action = find_task_kind(task_kind) or ("", "")
    kind = find_kind(function_name)
    return kind is not None and action in kind.actions_scaled_to_zero


def _repeats(name: str, now: Mapping[str, Any], repeated: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
    """Whether the client repeats the value it received."""
    if name not in shown or name not in repeated or repeated[name] != shown[name]:
        return False
    return bool(without_empty(now[name]) == without_empty(shown[name]))


def without_empty(value: Any) -> Any:
    """The value without empty entries, which clients add and leave out."""
    if isinstance(value, Mapping):
        return {key: without_empty(item) for key, item in value.items() if item not in ({}, [], None)}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def _shape_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    shaped = {name: shape_field(name, value) for name, value in fold(spec).items()}
    return {name: value for name, value in shaped.items() if value is not None}


def _read_amounts(given: Any) -> dict[str, dict[str, Any]]:
    """`cpu: 8`, `cpu: {requests: 8}` and `requests: {cpu: 8}` as `{cpu: {requests: 8}}`."""
    amounts: dict[str, dict[str, Any]] = {}
    for key, value in given.items() if isinstance(given, Mapping) else ():
        if key in _SIDES and isinstance(value, Mapping):
            for resource, amount in value.items():
                amounts.setdefault(_rename(resource), {})[_SIDES[key]] = amount
        elif isinstance(value, Mapping):
            sides = {_SIDES[side]: amount for side, amount in value.items() if side in _SIDES and amount is not None}
            amounts.setdefault(_rename(key), {}).update(sides)
        elif value is not None:
            amounts.setdefault(_rename(key), {})["requests"] = value
    readable = {
        name: {side: amount for side, amount in sides.items() if _is_amount(amount)} for name, sides in amounts.items()
    }
    return {name: sides for name, sides in readable.items() if sides}


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float | str) and any("0" <= character <= "9" for character in to_text(value))


def _rename(resource: Any) -> str:
    return "mem" if resource == "memory" else str(resource)


def _keep_sides(sides: Mapping[str, Any]) -> dict[str, str]:
    return {side: to_text(amount) for side, amount in sides.items()}


def _flatten(sides: Mapping[str, Any]) -> int | str:
    value = sides.get("requests", sides.get("limits"))
    return value if isinstance(value, int) and not isinstance(value, bool) else to_text(value)
