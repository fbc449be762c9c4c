"""The kinds of functions that are run here. Servers also store functions of any other kind, as sent."""

from collections.abc import Iterable

from runyard.spec.kinds.container import CONTAINER
from runyard.spec.kinds.function_kind import FunctionKind
from runyard.spec.kinds.python import PYTHON
from runyard.spec.problems import find_nearest

KINDS: dict[str, FunctionKind] = {kind.name: kind for kind in (PYTHON, CONTAINER)}
DEFAULT_KIND = CONTAINER.name
"""The kind of a run file that names none."""


def find_kind(name: str) -> FunctionKind | None:
    """The kind of that name, or None if it is not run here."""
    return KINDS.get(name)


def get_kind(name: str) -> FunctionKind:
    """The kind of that name; raises KeyError if it is not run here."""
    return KINDS[name]


def find_near_kind(name: str) -> str | None:
    """The kind that a misspelt name probably means; None for a kind that is run here or is clearly another."""
    return None if name in KINDS else find_nearest(name, KINDS)


def list_function_kinds() -> tuple[str, ...]:
    """The kinds of functions."""
    return tuple(KINDS)


def list_task_kinds() -> tuple[str, ...]:
    """The kinds of tasks: `X+action`."""
    return _join(kind.task_kinds for kind in KINDS.values())


def list_run_kinds() -> tuple[str, ...]:
    """The kinds of runs: `X+action:run`."""
    return _join(kind.run_kinds for kind in KINDS.values())


def list_legacy_run_kinds() -> tuple[str, ...]:
    """The kinds of runs up to SDK 0.13: `X+run`."""
    return tuple(kind.legacy_run_kind for kind in KINDS.values())


def _join(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(name for some in names for name in some)
