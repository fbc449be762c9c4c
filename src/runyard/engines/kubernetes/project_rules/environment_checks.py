"""Rules of environment variables and secrets.

The platform's own variables are known by their names; the server's address is compared as well. What a run is called
cannot be compared: the apiserver does not know runs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from runyard.domain.admission.bundle import SECRETS_VOLUME
from runyard.engines.kubernetes.project_rules.cel import all_of, any_of, is_one_of, literal, matches_any, quote, texts
from runyard.engines.kubernetes.project_rules.checks import Check, describe, make_check
from runyard.engines.kubernetes.project_rules.wall_inputs import WallInputs
from runyard.manifests.environment import TOKEN_VARIABLES, get_platform_envs
from runyard.manifests.identity import PlatformInputs, RunIdentity
from runyard.spec import denials

_IDENTITY = RunIdentity(
    run_id="", run_uid="", project="", namespace="", platform=PlatformInputs(endpoint="", has_token=True)
)
PLATFORM_NAMES = (*get_platform_envs(_IDENTITY), *TOKEN_VARIABLES)
"""The variables that the platform sets in every run."""
_ENDPOINTS = ("DHCORE_ENDPOINT", "RUNYARD_ENDPOINT")
_OWN_SECRET = "^run-[a-z0-9-]+-secrets$"  # noqa: S105 - a pattern of names
"""The names of Secrets of runs."""
VARIABLES = {
    "env": "has(object.spec.containers[0].env) ? object.spec.containers[0].env : []",
    "userEnv": f"variables.env.filter(e, !(e.name in {texts(PLATFORM_NAMES)}))",
    "secretItems": (
        "(has(object.spec.volumes) ? object.spec.volumes : []).filter(v, has(v.secret) && has(v.secret.items))"
        ".map(v, v.secret.items.map(i, i.key)) + "
        "[variables.env.filter(e, has(e.valueFrom)).map(e, e.valueFrom.secretKeyRef.key)]"
    ),
}


def check_environment(inputs: WallInputs) -> Iterator[Check]:
    """The checks of a pod's variables and secrets."""
    yield from _check_shape(inputs)
    yield from _check_names(inputs)
    yield from _check_secrets(inputs)


def _check_shape(inputs: WallInputs) -> Iterator[Check]:
    reference = "e.valueFrom.secretKeyRef"
    own = f"{reference}.name.matches({quote(_OWN_SECRET)}) && {reference}.key == e.name"
    source = f"has(e.valueFrom) ? (has(e.valueFrom.secretKeyRef) && {own}) : true"
    sources = f"!has(object.spec.containers[0].envFrom) && variables.env.all(e, {source})"
    yield make_check("pod", "env", None, sources, allowed="values, and keys of the run's own Secret")
    named = f"v.secret.secretName.matches({quote(_OWN_SECRET)})"
    mounted = f"has(v.secret) ? (v.name == {quote(SECRETS_VOLUME)} && has(v.secret.items) && {named}) : true"
    volumes = f"(has(object.spec.volumes) ? object.spec.volumes : []).all(v, {mounted})"
    yield make_check("pod", "secrets", None, volumes, allowed="listed keys of the run's own Secret")
    if inputs.endpoint is not None:
        is_ours = f"has(e.value) && e.value == {quote(inputs.endpoint)}"
        endpoint = f"variables.env.all(e, e.name in {texts(_ENDPOINTS)} ? ({is_ours}) : true)"
        yield make_check("envs", "endpoint", None, endpoint, allowed=inputs.endpoint)


def _check_names(inputs: WallInputs) -> Iterator[Check]:
    field = "envs"
    pairs = [(key, value) for said in inputs.list_values(field) for key, value in said.items()]
    platforms = _list_index_variables(inputs)
    is_admins = any_of(_is_pair([*pairs, *platforms]), _is_secret(inputs))
    entries = inputs.platform_wide.rules[field].allowed or () if field in inputs.platform_wide.rules else ()
    usual = any_of(is_admins, is_one_of("e.name", entries), f"!({matches_any('e.name', denials.ENVS)})")
    denial = f"variables.userEnv.all(e, {usual})"
    yield make_check(field, "default", None, denial, allowed=f"none of {describe(field, denials.ENVS)}")
    for scope, rule in inputs.iter_rules(field):
        for key in rule.required if isinstance(rule.required, tuple) else ():
            yield make_check(field, "required", scope, f"variables.env.exists(e, e.name == {quote(key)})", allowed=key)
        if rule.required is True:
            yield make_check(field, "required", scope, "size(variables.userEnv) > 0")
        if rule.allowed is not None:
            test = any_of(is_admins, matches_any("e.name", rule.allowed))
            expression = f"variables.userEnv.all(e, {test})"
            yield make_check(field, "allowed", scope, expression, allowed=describe(field, rule.allowed))
        if rule.denied:
            test = any_of(is_admins, f"!({matches_any('e.name', rule.denied)})")
            expression = f"variables.userEnv.all(e, {test})"
            yield make_check(field, "denied", scope, expression, allowed=f"none of {describe(field, rule.denied)}")
    lock = inputs.find_lock(field)
    if lock is None:
        return
    scope, locked = lock
    if locked is None:
        profiles = [(key, value) for said in inputs.iter_profile_values(field) for key, value in said.items()]
        test = f"variables.userEnv.all(e, {any_of(_is_pair([*profiles, *platforms]), _is_secret(inputs))})"
        yield make_check(field, "locked", scope, test, allowed="only a profile may set it")
    else:
        has_all = [
            f"variables.userEnv.exists(e, e.name == {quote(key)} && {_has_value(value)})"
            for key, value in sorted(locked.items())
        ]
        only = f"variables.userEnv.all(e, {_is_pair([*locked.items(), *platforms])})"
        yield make_check(field, "locked", scope, all_of(*has_all, only), allowed=describe(field, locked))


def _list_index_variables(inputs: WallInputs) -> list[tuple[str, str]]:
    """The variables of the package index, with their values: a run may set others."""
    platform = PlatformInputs(package_index=inputs.package_index)
    envs = get_platform_envs(replace(_IDENTITY, platform=platform))
    return [(name, value) for name, value in envs.items() if name not in PLATFORM_NAMES]


def _is_pair(pairs: Iterable[tuple[str, str]]) -> str:
    return any_of(*(f"e.name == {quote(key)} && {_has_value(value)}" for key, value in sorted(set(pairs))))


def _has_value(value: str) -> str:
    """An empty value may be left out, and then it is not there."""
    return f"has(e.value) && e.value == {literal(value)}" if value else '(!has(e.value) || e.value == "")'


def _is_secret(inputs: WallInputs) -> str:
    uses = [use.name for said in inputs.iter_profile_values("secrets") for use in said if use.is_variable]
    return all_of("has(e.valueFrom)", is_one_of("e.name", uses)) if uses else "false"


def _check_secrets(inputs: WallInputs) -> Iterator[Check]:
    profiles = [use.name for said in inputs.iter_profile_values("secrets") for use in said]
    is_admins = is_one_of("k", [*profiles, *TOKEN_VARIABLES])
    for scope, rule in inputs.iter_rules("secrets"):
        for clause, patterns in (("allowed", rule.allowed), ("denied", rule.denied or None)):
            if patterns is not None:
                found = matches_any("k", patterns)
                test = any_of(is_admins, found if clause == "allowed" else f"!({found})")
                expression = f"variables.secretItems.all(l, l.all(k, {test}))"
                allowed = f"{'' if clause == 'allowed' else 'none of '}{describe('secrets', patterns)}"
                yield make_check("secrets", clause, scope, expression, allowed=allowed)
