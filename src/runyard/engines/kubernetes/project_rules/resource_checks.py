"""Rules of `resources`: amounts of the one container. Pods with amounts elsewhere are refused by `pod_checks`."""

from collections.abc import Iterable, Iterator

from runyard.domain.admission.amounts import NAMES, list_derived_limits, list_gpu_names
from runyard.engines.kubernetes.project_rules.cel import (
    TRUE,
    all_of,
    any_of,
    at_least,
    at_most,
    equals_one,
    is_one_of,
    quote,
)
from runyard.engines.kubernetes.project_rules.checks import Check, describe, make_check
from runyard.engines.kubernetes.project_rules.wall_inputs import WallInputs
from runyard.spec.figures import format_figure
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.policy import Scope
from runyard.spec.resources import SIDES, SMALL_REQUESTS
from runyard.spec.rule_grammar import Rule

VARIABLES = {
    "requests": (
        "has(object.spec.containers[0].resources) && has(object.spec.containers[0].resources.requests) ? "
        "object.spec.containers[0].resources.requests : {}"
    ),
    "limits": (
        "has(object.spec.containers[0].resources) && has(object.spec.containers[0].resources.limits) ? "
        "object.spec.containers[0].resources.limits : {}"
    ),
}
_ALWAYS_BOUND = {"resources.mem": "limits", "resources.mem.limits": "limits", "resources.cpu.limits": "limits"} | {
    "resources.ephemeral-storage.limits": "limits"
}
"""Rules whose `max` demands that the limit is set: Kubernetes does not bound a blank."""


def check_resources(inputs: WallInputs) -> Iterator[Check]:
    """Bounds, options, requirements and locks of cpu, memory and ephemeral storage; GPUs; names of resources."""
    yield from _check_names(inputs)
    for name in NAMES:
        for side in ("", *SIDES):
            yield from _check_amount(inputs, name, side)
    yield from _check_gpus(inputs)


def _get(side: str, name: str) -> str:
    return f"string(variables.{side}[{quote(name)}])"


def _is_set(side: str, name: str) -> str:
    return f"{quote(name)} in variables.{side}"


def _check_names(inputs: WallInputs) -> Iterator[Check]:
    """Users may set cpu, memory and GPUs; other resources have amounts that a profile sets. No limit is 0."""
    gpus = list_gpu_names(inputs)
    mine: tuple[str, ...] = inputs.get_platform("gpu_resources")
    others = {
        name
        for resources in inputs.iter_profile_values("resources")
        for name in resources
        if name not in ("cpu", "mem", "gpu", "disk")
    }
    known = {*NAMES.values(), *mine, *gpus, *others}
    for side in SIDES:
        named = f"variables.{side}.all(k, {is_one_of('k', known)})"
        yield make_check("resources", "names", None, named, allowed=describe("", sorted(known)))
    for name in sorted((others | gpus) - {*mine, "ephemeral-storage"}):
        said = [*inputs.list_amounts(name, *(["gpu"] if name in gpus else [])), Quantity.from_int(0)]
        for side in SIDES:
            amount = any_of(f"!({_is_set(side, name)})", equals_one(_get(side, name), said))
            yield make_check(f"resources.{name}", "profiles", None, amount, allowed="an amount that a profile sets")
    for name in NAMES.values():
        zero = any_of(f"!({_is_set('limits', name)})", f'quantity({_get("limits", name)}).isGreaterThan(quantity("0"))')
        yield make_check("resources", "zero", None, zero, allowed=f"a limit of 0 {name} means no limit")


def _check_amount(inputs: WallInputs, name: str, side: str) -> Iterator[Check]:
    field = f"resources.{name}.{side}" if side else f"resources.{name}"
    resource = NAMES[name]
    sides = (side,) if side else SIDES
    for scope, rule in inputs.iter_rules(field):
        if rule.max is not None:
            bounds = [any_of(f"!({_is_set(one, resource)})", at_most(_get(one, resource), rule.max)) for one in sides]
            unbounded = [_is_set("limits", resource)] if field in _ALWAYS_BOUND else []
            allowed = f"at most {format_figure(field, rule.max)}" + (", and a limit" if unbounded else "")
            yield make_check(field, "max", scope, all_of(*unbounded, *bounds), allowed=allowed)
        if rule.min is not None:
            bounds = [any_of(f"!({_is_set(one, resource)})", at_least(_get(one, resource), rule.min)) for one in sides]
            yield make_check(field, "min", scope, all_of(*bounds), allowed=f"at least {format_figure(field, rule.min)}")
        if rule.required:
            yield make_check(field, "required", scope, any_of(*(_is_set(one, resource) for one in sides)))
        if rule.options is not None:
            yield _check_options(inputs, name, field, sides, scope, rule.options)
    lock = inputs.find_lock(field)
    if lock is not None:
        yield _check_lock(inputs, name, field, sides, lock)


def _check_options(
    inputs: WallInputs, name: str, field: str, sides: tuple[str, ...], scope: Scope, options: tuple[Quantity, ...]
) -> Check:
    chosen = [*options, *_list_admins(inputs, name)]
    conditions = [_is_amount(inputs, name, side, chosen) for side in sides]
    return make_check(field, "options", scope, all_of(*conditions), allowed=describe(field, options))


def _is_amount(inputs: WallInputs, name: str, side: str, chosen: list[Quantity]) -> str:
    resource = NAMES[name]
    values = [*chosen]
    if side == "limits":
        values += [derived for request in chosen for derived in list_derived_limits(request, inputs, name)]
        values += inputs.list_maxima(f"resources.{name}.limits")
    elif name in SMALL_REQUESTS:
        values += [SMALL_REQUESTS[name], *inputs.list_maxima(f"resources.{name}.limits")]
    return any_of(f"!({_is_set(side, resource)})", equals_one(_get(side, resource), values))


def _list_admins(inputs: WallInputs, name: str) -> list[Quantity]:
    return inputs.list_amounts(name, NAMES[name])


def _check_lock(
    inputs: WallInputs, name: str, field: str, sides: tuple[str, ...], lock: tuple[Scope, Quantity | None]
) -> Check:
    scope, locked = lock
    resource = NAMES[name]
    if locked is None:
        conditions = [_is_amount(inputs, name, side, _list_admins(inputs, name)) for side in sides]
        return make_check(field, "locked", scope, all_of(*conditions), allowed="only a profile may set it")
    if len(sides) == 1:
        is_equal = all_of(_is_set(sides[0], resource), equals_one(_get(sides[0], resource), [locked]))
        condition = any_of(f"!({_is_set(sides[0], resource)})", is_equal) if locked.is_zero else is_equal
    else:
        request = all_of(_is_set("requests", resource), equals_one(_get("requests", resource), [locked]))
        derived = [locked, *list_derived_limits(locked, inputs, name)]
        limit = any_of(f"!({_is_set('limits', resource)})", equals_one(_get("limits", resource), derived))
        condition = all_of(request, limit)
    return make_check(field, "locked", scope, condition, allowed=format_figure(field, locked))


def _check_gpus(inputs: WallInputs) -> Iterator[Check]:
    """The sum over all kinds of GPUs is bounded; requests and limits of each are equal, as Kubernetes demands."""
    names = sorted(list_gpu_names(inputs))
    total = " + ".join(
        f"({_is_set('limits', name)} ? quantity({_get('limits', name)}).asInteger() : 0)" for name in names
    )
    field = "resources.gpu"
    admins = inputs.list_amounts("gpu", *names)
    for scope, rule in inputs.iter_rules(field):
        yield from _check_gpu_rule(field, names, total, admins, scope, rule)
    lock = inputs.find_lock(field)
    if lock is None:
        return
    scope, locked = lock
    if locked is None:
        yield make_check(field, "locked", scope, _each_gpu(names, admins), allowed="only a profile may set it")
    else:
        yield make_check(field, "locked", scope, f"{total} == {locked.value}", allowed=format_figure(field, locked))


def _check_gpu_rule(
    field: str, names: list[str], total: str, admins: list[Quantity], scope: Scope, rule: Rule
) -> Iterator[Check]:
    if rule.max is not None:
        yield make_check(field, "max", scope, f"{total} <= {rule.max.value}", allowed=f"at most {rule.max}")
    if rule.min is not None:
        # Blank is not below the minimum: a run without GPUs has none in its pod.
        at_least_one = any_of(f"{total} == 0", f"{total} >= {rule.min.value}")
        yield make_check(field, "min", scope, at_least_one, allowed=f"at least {rule.min}, or none")
    if rule.options is not None:
        chosen = _each_gpu(names, [*rule.options, *admins])
        yield make_check(field, "options", scope, chosen, allowed=describe(field, rule.options))


def _each_gpu(names: Iterable[str], amounts: list[Quantity]) -> str:
    return (
        all_of(*(any_of(f"!({_is_set('limits', name)})", equals_one(_get("limits", name), amounts)) for name in names))
        or TRUE
    )
