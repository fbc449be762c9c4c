"""What a handler returned, as results (JSON) and outputs (stored files) of the run."""

import dataclasses
import datetime
import decimal
import enum
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from .calls import Yielded
from .failures import BadResult

LARGEST_RESULTS_BYTES = 3 << 20
"""All results of a run as JSON; the server reads bodies of up to 4 MiB."""
MOST_RESULTS = 1000
"""Results of a run."""
MOST_DEPTH = 50
"""Levels of nesting of a result."""
_TEXTUAL = (datetime.datetime, datetime.date, datetime.time, decimal.Decimal, uuid.UUID, PurePath)


def name_results(returned: Any, names: Sequence[str] = ()) -> dict[str, Any]:
    """The returned value by name: a dict by its keys, else by `names`, else `output_0`, `output_1`, …"""
    if returned is None:
        return {}
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        returned = {field.name: getattr(returned, field.name) for field in dataclasses.fields(returned)}
    if isinstance(returned, tuple) and hasattr(returned, "_asdict"):
        returned = returned._asdict()
    if isinstance(returned, Mapping) and not names:
        return {str(key): value for key, value in returned.items()}
    values = list(returned) if isinstance(returned, tuple) or (names and isinstance(returned, list)) else [returned]
    return {names[at] if at < len(names) else f"output_{at}": value for at, value in enumerate(values)}


def split_results(
    returned: Any,
    *,
    names: Sequence[str] = (),
    store_file: Callable[[str, PurePath], str],
    find_key: Callable[[Any], str | None] = lambda _: None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Results and outputs of a run. Outputs are keys of entities.

    `store_file` stores a returned path and answers with the key of its artifact. `find_key` knows the key of a value
    that is an entity already.
    """
    named = dict(returned) if isinstance(returned, Yielded) else name_results(returned, names)
    if len(named) > MOST_RESULTS:
        raise BadResult(f"the handler returned {len(named)} results; at most {MOST_RESULTS} are allowed")
    results, outputs = {}, {}
    for name, value in named.items():
        if isinstance(value, PurePath):
            outputs[name] = store_file(name, value)
        elif (key := find_key(value)) is not None:
            outputs[name] = key
        else:
            results[name] = to_json(value, name)
    return results, outputs


def to_json(value: Any, name: str, depth: int = 0) -> Any:
    """The value as JSON; raises `BadResult` with the name of the result for one that has no such form."""
    if value is None or isinstance(value, bool | str):
        return value
    if depth > MOST_DEPTH:
        raise BadResult(f"result {name} is nested more than {MOST_DEPTH} levels deep")
    if isinstance(value, enum.Enum):
        return to_json(value.value, name, depth + 1)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _to_number(float(value))
    if isinstance(value, Mapping):
        return {str(key): to_json(item, name, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item, name, depth + 1) for item in value]
    if isinstance(value, _TEXTUAL):
        return value.isoformat() if hasattr(value, "isoformat") else str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name), name, depth + 1) for field in dataclasses.fields(value)}
    return _convert_foreign(value, name, depth)


def _convert_foreign(value: Any, name: str, depth: int) -> Any:
    """Numbers and arrays of numpy and the like have `tolist`; pydantic models have `model_dump`."""
    for method in ("tolist", "model_dump"):
        if callable(convert := getattr(value, method, None)) and not isinstance(value, type):
            return to_json(convert(), name, depth + 1)
    kind = type(value).__name__
    raise BadResult(
        f"result {name} is of type {kind}, which JSON cannot hold; return numbers, text, lists or dicts, or write it "
        "to a file and return its pathlib.Path"
    )


def _to_number(value: float) -> float | str:
    """JSON has no NaN and no infinity; they are stored as the text that `float()` reads."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
