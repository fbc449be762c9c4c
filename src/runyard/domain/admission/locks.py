"""Locked fields: the policy's value holds whoever says otherwise; where it has none, only a profile may set them."""

from collections.abc import Iterator
from typing import Any

from runyard.domain.admission.admins import Admins
from runyard.domain.admission.amounts import NAMES, list_derived_limits
from runyard.domain.admission.values import Facts, Value
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.policy import Scope
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem


def check_locks(facts: Facts, admins: Admins) -> Iterator[Problem]:
    """Every value that is not what a lock says."""
    for name, values in facts.values.items():
        lock = admins.find_lock(name)
        if lock is None:
            continue
        scope, default = lock
        if default is None:
            yield from (_breaks(name, scope, value) for value in values if _is_users(value))
        elif name in facts.wholes:
            if not _is_same(facts.wholes[name], default):
                message = f"the {scope.name} locks `{name}`, and what is sent is not its value"
                yield Problem(Code.POLICY_LOCKED, (name,), message)
            if name == "node_selector":  # nodes are chosen by affinity as well
                chosen = [value for value in values if "affinity" in value.path and _is_users(value)]
                yield from (_breaks(name, scope, value) for value in chosen)
        elif name == "image":
            yield from _check_images(values, scope, default)
        elif name.removeprefix("resources.") in NAMES:
            yield from _check_sides(name.removeprefix("resources."), facts, scope, admins, default)
        else:
            yield from (_breaks(name, scope, value) for value in values if not _holds(value, default))


def _is_users(value: Value) -> bool:
    """Secrets in the environment are no `envs`: they have a rule of their own."""
    return value.value is not None and not value.is_admins and value.path[-1] != "valueFrom"


def _holds(value: Value, default: Any) -> bool:
    is_nothing = isinstance(default, Quantity) and default.is_zero
    return bool(value.value == default) or (value.value is None and is_nothing)


def _is_same(whole: Any, default: Any) -> bool:
    if isinstance(whole, list):
        return len(whole) == len(default) and all(entry in whole for entry in default)
    return bool(whole == dict(default))


def _check_images(values: list[Value], scope: Scope, default: str) -> Iterator[Problem]:
    """The container's is the locked one. A volume's would be a way to bring another program along."""
    container, *volumes = values
    if container.value != default:
        yield _breaks("image", scope, container)
    yield from (_breaks("image", scope, value) for value in volumes if not (value.is_admins or value.value == default))


def _check_sides(name: str, facts: Facts, scope: Scope, admins: Admins, default: Quantity) -> Iterator[Problem]:
    """The amount is the request; the limit is none, the same, or what follows from it."""
    request, limit = (facts.values[f"resources.{name}.{side}"][0] for side in ("request", "limit"))
    if request.value != default:
        yield _breaks(f"resources.{name}", scope, request)
    derived = [default, *list_derived_limits(default, admins, name)]
    if limit.value is not None and limit.value not in derived:
        yield _breaks(f"resources.{name}", scope, limit)


def _breaks(name: str, scope: Scope, value: Value) -> Problem:
    shown = None if value.value is None else str(value.value)
    return Problem(Code.POLICY_LOCKED, value.path, f"the {scope.name} locks `{name}`", value=shown)
