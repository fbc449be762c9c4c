"""Rules of volumes and scratch space: types, sizes, classes and claims, over a pod's volumes and over claims."""

from collections.abc import Callable, Iterable, Iterator

from runyard.domain.admission.bundle import PLATFORM_VOLUMES, SCRATCH_VOLUME
from runyard.engines.kubernetes.project_rules.cel import (
    FALSE,
    all_of,
    any_of,
    at_least,
    at_most,
    equals_one,
    is_one_of,
    matches_any,
    quote,
)
from runyard.engines.kubernetes.project_rules.checks import Check, describe, make_check
from runyard.engines.kubernetes.project_rules.wall_inputs import WallInputs
from runyard.spec.figures import format_figure
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.patterns import matches
from runyard.spec.policy import Scope

_ALL = "(has(object.spec.volumes) ? object.spec.volumes : [])"
VARIABLES = {
    "ownVolumes": f"{_ALL}.filter(v, v.name in [{', '.join(map(quote, sorted(PLATFORM_VOLUMES)))}])",
    "volumes": f"{_ALL}.filter(v, !(v.name in [{', '.join(map(quote, sorted(PLATFORM_VOLUMES)))}]))",
}
_KINDS = {
    "empty_dir": "emptyDir",
    "ephemeral": "ephemeral",
    "config_map": "configMap",
    "image": "image",
    "persistent_volume_claim": "persistentVolumeClaim",
    "shared_volume": "persistentVolumeClaim",
}
"""Kubernetes' volume sources by our types. A pod does not tell a kept volume from another claim."""
_OWN_CLAIM = "^(run-[a-z0-9.-]+|vol-[0-9a-f]+)$"
"""Names of claims that Runyard creates."""
_CLAIM = "v.ephemeral.volumeClaimTemplate.spec"
_SIZE = "string({}.resources.requests.storage)"
_HAS_SIZE = 'has({0}.resources) && has({0}.resources.requests) && "storage" in {0}.resources.requests'


def check_pod_volumes(inputs: WallInputs) -> Iterator[Check]:
    """The checks of a pod's volumes."""
    known = any_of(*(f"has(v.{kind})" for kind in sorted({*_KINDS.values(), "secret"})))
    kinds = f"{_ALL}.all(v, {known})"
    yield make_check("pod", "volumes", None, kinds, allowed="no hostPath, projected, csi, nfs or other volumes")
    yield from _check_types(inputs)
    yield from _check_claim_names(inputs)
    template = f"has(v.ephemeral) ? ({{}}) : {'true'}"
    yield from _check_sizes(inputs, "volumes.size", lambda test: f"variables.volumes.all(v, {template.format(test)})")
    yield from _check_classes(
        inputs, "volumes.storage_class", lambda test: f"variables.volumes.all(v, {template.format(test)})"
    )
    yield from _check_size_limits(inputs)
    yield from _check_scratch(inputs)


def check_claims(inputs: WallInputs) -> Iterator[Check]:
    """The checks of PersistentVolumeClaims. The claim of a pod's scratch space obeys `resources.disk`."""
    scratch = f"object.metadata.name.endsWith({quote(f'-{SCRATCH_VOLUME}')}) && has(object.metadata.ownerReferences)"
    default = () if inputs.defaults.storage_class is None else (inputs.defaults.storage_class,)

    def outside(test: str) -> str:
        return f"({scratch}) ? true : ({test})"

    def inside(test: str) -> str:
        return f"({scratch}) ? ({test}) : true"

    claim = "dyn(object.spec)"
    yield from _check_sizes(inputs, "volumes.size", outside, claim=claim)
    yield from _check_classes(inputs, "volumes.storage_class", outside, claim=claim, clusters=default)
    yield from _check_sizes(inputs, "resources.disk", inside, claim=claim)


def _check_types(inputs: WallInputs) -> Iterator[Check]:
    named = {volume.name: _KINDS[volume.type] for volume in inputs.list_profile_volumes()}
    is_profiles = any_of(*(f"v.name == {quote(name)} && has(v.{kind})" for name, kind in sorted(named.items())))
    for scope, rule in inputs.iter_rules("volumes.type"):
        for clause, patterns in (("options", rule.options), ("allowed", rule.allowed)):
            if patterns is not None:
                allowed = [_KINDS[name] for name in _KINDS if _matches(name, patterns)]
                test = any_of(is_profiles, "has(v.secret)", *(f"has(v.{kind})" for kind in sorted(set(allowed))))
                expression = f"variables.volumes.all(v, {test})"
                yield make_check("volumes.type", clause, scope, expression, allowed=describe("volumes.type", patterns))
        if rule.denied:
            # A source is refused only if every type that has it is denied.
            permitted = {_KINDS[name] for name in _KINDS if not _matches(name, rule.denied)}
            denied = sorted(set(_KINDS.values()) - permitted)
            test = any_of(is_profiles, *(["true"] if not denied else [all_of(*(f"!has(v.{kind})" for kind in denied))]))
            allowed_text = f"none of {describe('volumes.type', rule.denied)}"
            yield make_check("volumes.type", "denied", scope, f"variables.volumes.all(v, {test})", allowed=allowed_text)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(matches(pattern, name) for pattern in patterns)


def _check_claim_names(inputs: WallInputs) -> Iterator[Check]:
    name = "v.persistentVolumeClaim.claimName"
    lifted = (
        (inputs.platform_wide.rules["volumes.claim_name"].allowed or ())
        if ("volumes.claim_name" in inputs.platform_wide.rules)
        else ()
    )
    profiles = [volume.claim_name for volume in inputs.list_profile_volumes() if volume.claim_name is not None]
    ours = any_of(f"{name}.matches({quote(_OWN_CLAIM)})", is_one_of(name, profiles))
    denial = f"variables.volumes.all(v, !has(v.persistentVolumeClaim) || {any_of(ours, matches_any(name, lifted))})"
    yield make_check("volumes.claim_name", "default", None, denial, allowed="claims that Runyard made")
    for scope, rule in inputs.iter_rules("volumes.claim_name"):
        for clause, patterns in (("allowed", rule.allowed), ("denied", rule.denied or None)):
            if patterns is not None:
                found = matches_any(name, patterns)
                test = any_of(ours, found if clause == "allowed" else f"!({found})")
                expression = f"variables.volumes.all(v, !has(v.persistentVolumeClaim) || ({test}))"
                yield make_check("volumes.claim_name", clause, scope, expression, allowed=list_patterns(patterns))


def list_patterns(patterns: Iterable[str]) -> str:
    """Patterns for people."""
    return describe("", patterns)


def _check_sizes(
    inputs: WallInputs, field: str, within: Callable[[str], str], *, claim: str = _CLAIM
) -> Iterator[Check]:
    has_size, size = _HAS_SIZE.format(claim), _SIZE.format(claim)
    if field == "resources.disk":
        admins = inputs.list_amounts("disk")
    else:
        sizes = [volume.size for volume in inputs.list_profile_volumes() if volume.size is not None]
        admins = [*inputs.iter_defaults(field), *inputs.list_maxima(field), *sizes]
    yield from _check_amounts(inputs, field, within, has_size=has_size, size=size, admins=admins)


def _check_amounts(
    inputs: WallInputs, field: str, within: Callable[[str], str], *, has_size: str, size: str, admins: list[Quantity]
) -> Iterator[Check]:
    unset = f"!({has_size})"
    for scope, rule in inputs.iter_rules(field):
        if rule.max is not None:
            # A size that is missing is unbounded.
            test = (
                all_of(has_size, at_most(size, rule.max))
                if field == "volumes.size_limit"
                else any_of(unset, at_most(size, rule.max))
            )
            yield make_check(field, "max", scope, within(test), allowed=f"at most {format_figure(field, rule.max)}")
        if rule.min is not None:
            test = any_of(unset, at_least(size, rule.min))
            yield make_check(field, "min", scope, within(test), allowed=f"at least {format_figure(field, rule.min)}")
        if rule.options is not None:
            test = any_of(unset, equals_one(size, [*rule.options, *admins]))
            yield make_check(field, "options", scope, within(test), allowed=describe(field, rule.options))
    lock = inputs.find_lock(field)
    if lock is not None:
        yield _check_amount_lock(field, within, lock, unset=unset, size=size, admins=admins)


def _check_amount_lock(
    field: str,
    within: Callable[[str], str],
    lock: tuple[Scope, Quantity | None],
    *,
    unset: str,
    size: str,
    admins: list[Quantity],
) -> Check:
    scope, locked = lock
    if locked is None:
        test = any_of(unset, equals_one(size, admins) if admins else FALSE)
        return make_check(field, "locked", scope, within(test), allowed="only a profile may set it")
    test = all_of(f"!({unset})", equals_one(size, [locked]))
    return make_check(field, "locked", scope, within(test), allowed=format_figure(field, locked))


def _check_classes(
    inputs: WallInputs,
    field: str,
    within: Callable[[str], str],
    *,
    claim: str = _CLAIM,
    clusters: tuple[str, ...] = (),
) -> Iterator[Check]:
    value, unset = f"{claim}.storageClassName", f"!has({claim}.storageClassName)"
    profiles = [volume.storage_class for volume in inputs.list_profile_volumes() if volume.storage_class is not None]
    fixed = inputs.find_locked_value(field)
    # The cluster's default class stands in a claim that named none; under a lock every claim names one.
    free = any_of(unset, is_one_of(value, clusters)) if fixed is None else FALSE
    admins = any_of(free, is_one_of(value, [*profiles, *inputs.iter_defaults(field)]))
    for scope, rule in inputs.iter_rules(field):
        if rule.options is not None:
            test = any_of(admins, is_one_of(value, rule.options))
            yield make_check(field, "options", scope, within(test), allowed=describe(field, rule.options))
        if rule.allowed is not None:
            test = any_of(admins, matches_any(value, rule.allowed))
            yield make_check(field, "allowed", scope, within(test), allowed=describe(field, rule.allowed))
        if rule.denied:
            test = any_of(admins, f"!({matches_any(value, rule.denied)})")
            denied = f"none of {describe(field, rule.denied)}"
            yield make_check(field, "denied", scope, within(test), allowed=denied)
    lock = inputs.find_lock(field)
    if lock is not None:
        test = (
            any_of(free, is_one_of(value, profiles)) if fixed is None else f"has({value}) && {value} == {quote(fixed)}"
        )
        yield make_check(field, "locked", lock[0], within(test), allowed=fixed or "only a profile may set it")


def _check_size_limits(inputs: WallInputs) -> Iterator[Check]:
    field = "volumes.size_limit"
    sizes = [volume.size for volume in inputs.list_profile_volumes() if volume.size is not None]
    admins = [*inputs.iter_defaults(field), *inputs.list_maxima(field), *sizes]
    yield from _check_amounts(
        inputs,
        field,
        lambda test: f"variables.volumes.all(v, has(v.emptyDir) ? ({test}) : true)",
        has_size="has(v.emptyDir.sizeLimit)",
        size="string(v.emptyDir.sizeLimit)",
        admins=admins,
    )


def _check_scratch(inputs: WallInputs) -> Iterator[Check]:
    """Scratch space has the policy's medium, and the size of `resources.disk`."""
    medium = "ephemeral" if inputs.get_platform("disk_medium") == "ephemeral" else "emptyDir"
    scratch = f"variables.ownVolumes.filter(v, v.name == {quote(SCRATCH_VOLUME)})"
    yield make_check("platform", "disk_medium", None, f"{scratch}.all(v, has(v.{medium}))", allowed=medium)
    if medium == "ephemeral":
        has_size, size = _HAS_SIZE.format(_CLAIM), _SIZE.format(_CLAIM)
    else:
        has_size, size = "has(v.emptyDir.sizeLimit)", "string(v.emptyDir.sizeLimit)"
    yield from _check_amounts(
        inputs,
        "resources.disk",
        lambda test: f"{scratch}.all(v, {test})",
        has_size=has_size,
        size=size,
        admins=inputs.list_amounts("disk"),
    )
    fields = ("resources.disk.storage_class", "volumes.storage_class")
    classes = [default for field in fields for default in inputs.iter_defaults(field)]
    if medium == "ephemeral":
        value = f"{_CLAIM}.storageClassName"
        test = any_of(f"!has({value})", is_one_of(value, classes))
        yield make_check(
            fields[0], "default", None, f"{scratch}.all(v, {test})", allowed=describe("", classes) or "no class"
        )
    for scope, rule in inputs.iter_rules("resources.disk"):
        if rule.required:
            yield make_check("resources.disk", "required", scope, f"size({scratch}) == 1")
