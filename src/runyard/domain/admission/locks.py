"""Checks locked fields: the value must be the policy's. A lock without a value leaves the field to profiles."""

from collections.abc import Iterator
from typing import Any

from runyard.domain.admission.admin_inputs import AdminInputs
from runyard.domain.admission.amounts import NAMES, list_derived_limits
from runyard.domain.admission.values import Facts, Value
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.policy import Scope
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem


def check_locks(facts: Facts, admin: AdminInputs) -> Iterator[Problem]:
    """Find every value that a lock does not permit."""
    for name, values in facts.values.items():
        lock = admin.find_lock(name)
        if lock is None:
            continue
        scope, default = lock
        if default is None:
            yield from (_report_violation(name, scope, value) for value in values if _is_set_by_user(value))
        elif name in facts.wholes:
            if not _is_same(facts.wholes[name], default):
                message = f"the {scope.name} locks `{name}`, and this is not the locked value"
                yield Problem(Code.POLICY_LOCKED, (name,), message)
            if name == "node_selector":  # an affinity chooses nodes as well
                chosen = [value for value in values if "affinity" in value.path and _is_set_by_user(value)]
                yield from (_report_violation(name, scope, value) for value in chosen)
        elif name == "image":
            yield from _check_images(values, scope, default)
        elif name.removeprefix("resources.") in NAMES:
            yield from _check_sides(name.removeprefix("resources."), facts, scope, admin, default)
        else:
            yield from (_report_violation(name, scope, value) for value in values if not _matches_lock(value, default))


def _is_set_by_user(value: Value) -> bool:
    return value.value is not None and not value.is_set_by_admin


def _matches_lock(value: Value, default: Any) -> bool:
    is_nothing = isinstance(default, Quantity) and default.is_zero
    return bool(value.value == default) or (value.value is None and is_nothing)


def _is_same(whole: Any, default: Any) -> bool:
    if isinstance(whole, list):
        return len(whole) == len(default) and all(entry in whole for entry in default)
    return bool(whole == dict(default))


def _check_images(values: list[Value], scope: Scope, default: str) -> Iterator[Problem]:
    """The container must use the locked image. Image volumes are checked too: they could bring another program."""
    container, *volumes = values
    if container.value != default:
        yield _report_violation("image", scope, container)
    yield from (
        _report_violation("image", scope, value)
        for value in volumes
        if not (value.is_set_by_admin or value.value == default)
    )


def _check_sides(name: str, facts: Facts, scope: Scope, admin: AdminInputs, default: Quantity) -> Iterator[Problem]:
    """The locked amount is the request; the limit is absent, equal, or derived from it."""
    request, limit = (facts.values[f"resources.{name}.{side}"][0] for side in ("requests", "limits"))
    if request.value != default:
        yield _report_violation(f"resources.{name}", scope, request)
    derived = [default, *list_derived_limits(default, admin, name)]
    if limit.value is not None and limit.value not in derived:
        yield _report_violation(f"resources.{name}", scope, limit)


def _report_violation(name: str, scope: Scope, value: Value) -> Problem:
    shown = None if value.value is None else str(value.value)
    return Problem(Code.POLICY_LOCKED, value.path, f"the {scope.name} locks `{name}`", value=shown)
