"""One check of the wall: a rule, its expression, and what a refused user reads."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from runyard.engines.kubernetes.project_rules.cel import any_of, is_one_of, literal, matches_any
from runyard.engines.kubernetes.project_rules.wall_inputs import WallInputs
from runyard.spec.figures import format_figure
from runyard.spec.policy import Scope
from runyard.spec.problems import list_words

LONGEST_MESSAGE_CHARACTERS = 300
"""How long the message of a check may be; the apiserver's answer adds the names of policy and binding."""


@dataclass(frozen=True, slots=True)
class Check:
    """An expression that holds for everything that may pass."""

    rule: str
    """`<field>.<clause>` of the policy, or `pod.<name>` for what no policy may relax."""
    expression: str
    message: str


def make_check(name: str, clause: str, scope: Scope | None, expression: str, *, allowed: str = "") -> Check:
    """A check whose message names rule and scope, and what is allowed."""
    rule = f"{name}.{clause}"
    owner = f" of the {scope.name}" if scope is not None else ""
    text = f"rule {rule}{owner}" + (f": {allowed}" if allowed else "")
    return Check(rule, expression, " ".join(text.split())[:LONGEST_MESSAGE_CHARACTERS])


def describe(name: str, values: Iterable[Any]) -> str:
    """Values of a rule, for people."""
    return list_words(format_figure(name, value) for value in values)


def check_scalar(
    inputs: WallInputs,
    name: str,
    *,
    value: str,
    is_set: str,
    blank: str | int | None = None,
    platforms: tuple[Any, ...] = (),
    has_maximum: bool = False,
    is_filled: bool = False,
) -> Iterator[Check]:
    """The checks of a field with one value: a name or a number.

    `blank` is what the apiserver writes where a run leaves the field blank. `platforms` are values that the platform or
    the cluster sets, which lists do not bind. With `has_maximum` the policy's `max` fills blanks. With `is_filled` the
    apiserver leaves no blank, so that `required` says nothing.
    """
    maxima = [rule.max for _, rule in inputs.iter_rules(name) if rule.max is not None] if has_maximum else []
    others = _equals_any(value, [*inputs.list_values(name), *platforms, *maxima])
    profiles = _equals_any(value, [*inputs.iter_profile_values(name), *platforms])
    is_blank = _equals_any(value, [blank] if blank is not None and inputs.can_be_blank(name) else [])
    unset = any_of(f"!({is_set})", is_blank)
    for scope, rule in inputs.iter_rules(name):
        if rule.required and blank is None and not is_filled:
            yield make_check(name, "required", scope, is_set)
        if rule.max is not None:
            allowed = f"at most {format_figure(name, rule.max)}"
            yield make_check(name, "max", scope, any_of(unset, f"{value} <= {rule.max}"), allowed=allowed)
        if rule.min is not None:
            allowed = f"at least {format_figure(name, rule.min)}"
            yield make_check(name, "min", scope, any_of(unset, f"{value} >= {rule.min}"), allowed=allowed)
        if rule.options is not None:
            chosen = any_of(unset, others, _equals_any(value, rule.options))
            yield make_check(name, "options", scope, chosen, allowed=describe(name, rule.options))
        if rule.allowed is not None:
            chosen = any_of(unset, others, matches_any(value, rule.allowed))
            yield make_check(name, "allowed", scope, chosen, allowed=describe(name, rule.allowed))
        if rule.denied:
            chosen = any_of(unset, others, f"!({matches_any(value, rule.denied)})")
            yield make_check(name, "denied", scope, chosen, allowed=f"none of {describe(name, rule.denied)}")
    lock = inputs.find_lock(name)
    if lock is not None and lock[1] is None:
        yield make_check(name, "locked", lock[0], any_of(unset, profiles), allowed="only a profile may set it")
    elif lock is not None:
        locked = f"({is_set}) && {value} == {literal(lock[1])}"
        yield make_check(name, "locked", lock[0], locked, allowed=format_figure(name, lock[1]))


def _equals_any(value: str, allowed: Iterable[Any]) -> str:
    listed = list(allowed)
    names = [item for item in listed if isinstance(item, str)]
    numbers = sorted({item for item in listed if isinstance(item, int)})
    return any_of(is_one_of(value, names), *(f"{value} == {number}" for number in numbers))
