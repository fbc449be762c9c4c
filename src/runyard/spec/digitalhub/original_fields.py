"""`spec.original`: the fields of a spec as they were requested, beside the form that every SDK reads.

Responses show a spec in the SDKs' form, which cannot express all of it: limits, mount paths of secrets, commands of
several words. `original` has those fields as they were sent, so that a client can post a response again and loses
nothing. All SDKs ignore unknown fields of a spec (`extra="ignore"` in each of 0.13 to 0.16) and never send it back.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from runyard.spec.digitalhub.client_fields import fold
from runyard.spec.digitalhub.client_specs import (
    is_shaped_function,
    is_shaped_run,
    is_shaped_task,
    shape_function_spec,
    shape_run_spec,
    shape_task_spec,
    without_empty,
)
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.readers import expect_mapping
from runyard.spec.run_fields import USER_FIELDS, read_run_fields

ORIGINAL = "original"

_Shape = Callable[[str, Mapping[str, Any]], dict[str, Any]]
_SHAPES: Mapping[str, tuple[Callable[[str], bool], _Shape]] = MappingProxyType(
    {
        "run": (is_shaped_run, shape_run_spec),
        "task": (is_shaped_task, shape_task_spec),
        "function": (is_shaped_function, shape_function_spec),
    }
)
"""By type of entity: whether specs of a kind are shaped, and the shape."""
SHOWN_TYPES = frozenset(_SHAPES)
"""The types of entities whose specs may have an `original`."""


def show_spec(type_name: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec as it is returned: in the form that every SDK reads, with `original` if that form loses anything."""
    is_shaped, shape = _SHAPES.get(type_name, (_is_never_shaped, None))
    if shape is None or not is_shaped(kind):
        return dict(spec)
    shown = shape(kind, spec)
    lost = {name: value for name, value in fold(spec).items() if not _is_same(name, value, shown.get(name))}
    return {**shown, ORIGINAL: lost} if lost else shown


def restore_spec(type_name: str, kind: str, written: Mapping[str, Any]) -> dict[str, Any]:
    """The spec that a client means by a response that it sends back; raises `Refused` with every problem.

    A field of `original` replaces its shown form. If the client changed only one of the two, it is not known which one
    it means: refused. Paths are relative to the spec.
    """
    is_shaped, shape = _SHAPES.get(type_name, (_is_never_shaped, None))
    if shape is None or not is_shaped(kind) or written.get(ORIGINAL) is None:
        return dict(written)
    try:
        original = fold(expect_mapping(written[ORIGINAL], of="fields"))
    except Refused as refused:
        raise Refused([problem.under(ORIGINAL) for problem in refused.problems]) from None
    visible = fold({name: value for name, value in written.items() if name != ORIGINAL})
    shown = shape(kind, original)
    problems = [
        _report_difference(name)
        for name, value in original.items()
        if _plain(visible.get(name)) not in (_plain(shown.get(name)), _plain(value))
    ]
    if problems:
        raise Refused(problems)
    return {**visible, **original}


def _is_never_shaped(_: str) -> bool:
    return False


def _is_same(name: str, requested: Any, shown: Any) -> bool:
    """Whether the shown form of a field means the same as the requested one."""
    if _plain(requested) == _plain(shown):
        return True
    if name not in USER_FIELDS or shown is None:
        return False
    try:
        return bool(getattr(read_run_fields({name: requested}), name) == getattr(read_run_fields({name: shown}), name))
    except Refused:
        return False


def _plain(value: Any) -> Any:
    """The value without empty entries; None if nothing is left."""
    plain = without_empty(value)
    return None if plain in ({}, []) else plain


def _report_difference(name: str) -> Problem:
    message = (
        f"`{name}` and `{ORIGINAL}.{name}` differ: only one of them was changed; "
        f"remove `{ORIGINAL}.{name}` and write the complete value in `{name}`"
    )
    return Problem(Code.ORIGINAL_DIFFERS, (name,), message)
