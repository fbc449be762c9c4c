"""Boundary values: at a bound of the policy, one unit below and one unit above."""

from collections.abc import Iterator, Sequence
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity
from tests.adversary.cases import Raw
from tests.adversary.draws import Draws
from tests.adversary.raw import AMOUNTS, NUMBERS, TIMES, RawScope

STEPS = (-1, 0, 1)
USER_FIELDS = tuple(sorted({*AMOUNTS, *TIMES, *NUMBERS} - {name for name in AMOUNTS if "ephemeral-storage" in name}))
"""Ruled figures that users can ask for."""


def step(field: str, bound: Any, units: int) -> Any:
    """The value so many units from a bound, as a user would write it: thousandths of a CPU, bytes, seconds, ones."""
    if field in AMOUNTS:
        amount = Quantity.parse(str(bound)).exact
        return f"{amount * 1000 + units:f}m" if field.startswith("resources.cpu") else f"{amount + units:f}"
    return int(bound) + units


def ask(field: str, value: Any) -> Raw:
    """The fields of a run that ask for a value of a ruled field."""
    if field == "volumes.size":
        return {"volumes": [_make_volume("ephemeral", size=value)]}
    if field == "volumes.size_limit":
        return {"volumes": [_make_volume("empty_dir", size_limit=value)]}
    if field.startswith("resources."):
        _, name, *side = field.split(".")
        return {"resources": {name: {side[0]: value} if side else value}}
    return {field: value}


def _make_volume(kind: str, **spec: Any) -> Raw:
    return {"volume_type": kind, "name": "edge", "mount_path": "/edge", "spec": spec}


def iter_bounds(scopes: Sequence[RawScope]) -> Iterator[tuple[str, Any]]:
    """Every bound that the policy sets on a figure users can ask for."""
    for scope in scopes:
        for field, rule in scope.rules.items():
            if field in USER_FIELDS:
                yield from ((field, rule[clause]) for clause in ("max", "min") if rule.get(clause) is not None)


def ask_near_bound(draws: Draws, scopes: Sequence[RawScope]) -> Raw:
    """Fields of a run that ask for a value at one of the bounds or beside it; nothing where there is no bound."""
    bounds = list(iter_bounds(scopes))
    if not bounds:
        return {}
    field, bound = draws.pick_of(bounds)
    return ask(field, step(field, bound, draws.pick_of(STEPS)))
