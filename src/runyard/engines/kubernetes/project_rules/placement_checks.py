"""Rules of placement: node labels, tolerations, affinity and the namespaces that it looks into."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runyard.domain.effective_spec import to_plain
from runyard.engines.kubernetes.project_rules.cel import (
    FALSE,
    TRUE,
    all_of,
    any_of,
    glob_to_regex,
    items,
    literal,
    matches_any,
    quote,
    texts,
)
from runyard.engines.kubernetes.project_rules.checks import Check, describe, make_check
from runyard.engines.kubernetes.project_rules.wall_inputs import WallInputs
from runyard.spec.denials import RESERVED_TAINTS
from runyard.spec.policy import Scope

_REQUIRED, _PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
_NODE = "object.spec.affinity.nodeAffinity"
VARIABLES = {
    "nodeSelector": "has(object.spec.nodeSelector) ? object.spec.nodeSelector : {}",
    "tolerations": items("object.spec.tolerations"),
    "nodeTerms": (
        f"{items(f'{_NODE}.{_REQUIRED}.nodeSelectorTerms')} + {items(f'{_NODE}.{_PREFERRED}')}.map(p, p.preference)"
    ),
    "podTerms": " + ".join(
        f"{items(f'object.spec.affinity.{kind}.{_REQUIRED}')} + "
        f"{items(f'object.spec.affinity.{kind}.{_PREFERRED}')}.map(p, p.podAffinityTerm)"
        for kind in ("podAffinity", "podAntiAffinity")
    ),
}
_ADDED_BY_CLUSTER = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
)
"""Taints of nodes in trouble, which the apiserver makes every pod tolerate for a while."""


def check_placement(inputs: WallInputs) -> Iterator[Check]:
    """The checks of a pod's placement."""
    yield from _check_node_selector(inputs)
    yield from _check_tolerations(inputs)
    yield from _check_affinity(inputs)
    yield from _check_namespaces(inputs)


def _check_node_selector(inputs: WallInputs) -> Iterator[Check]:
    pairs = [(key, value) for said in inputs.list_values("node_selector") for key, value in said.items()]
    clusters = [(key, value) for key, values in inputs.defaults.node_selector.items() for value in values]
    is_admins = _is_pair([*pairs, *clusters])
    field = "node_selector"
    for scope, rule in inputs.iter_rules(field):
        required = rule.required if isinstance(rule.required, tuple) else ()
        for key in required:
            yield make_check(field, "required", scope, f"{quote(key)} in variables.nodeSelector", allowed=key)
        if rule.required is True:
            yield make_check(field, "required", scope, "size(variables.nodeSelector) > 0")
        for clause, patterns in (("allowed", rule.allowed), ("denied", rule.denied or None)):
            if patterns is None:
                continue
            allowed = f"{'' if clause == 'allowed' else 'none of '}{describe(field, patterns)}"
            selected = any_of(is_admins, _permits(clause, "k", patterns))
            yield make_check(field, clause, scope, f"variables.nodeSelector.all(k, {selected})", allowed=allowed)
            yield _check_keys(inputs, clause, scope, _permits(clause, "e.key", patterns), allowed)
    lock = inputs.find_lock(field)
    if lock is None:
        return
    scope, locked = lock
    if locked is None:
        profiles = [(key, value) for said in inputs.iter_profile_values(field) for key, value in said.items()]
        test = f"variables.nodeSelector.all(k, {_is_pair([*profiles, *clusters])})"
        yield make_check(field, "locked", scope, test, allowed="only a profile may set it")
    else:
        has_all = [
            f"{quote(key)} in variables.nodeSelector && variables.nodeSelector[{quote(key)}] == {quote(value)}"
            for key, value in sorted(locked.items())
        ]
        only = f"variables.nodeSelector.all(k, {_is_pair([*locked.items(), *clusters])})"
        yield make_check(field, "locked", scope, all_of(*has_all, only), allowed=describe(field, locked))
    yield _check_keys(inputs, "locked", scope, FALSE, "no node affinity of users")


def _permits(clause: str, value: str, patterns: Iterable[str]) -> str:
    found = matches_any(value, patterns)
    return found if clause == "allowed" else f"!({found})"


def _is_pair(pairs: Iterable[tuple[str, str]]) -> str:
    return any_of(
        *(f"k == {quote(key)} && variables.nodeSelector[k] == {quote(value)}" for key, value in sorted(set(pairs)))
    )


def _check_keys(inputs: WallInputs, clause: str, scope: Scope, permitted: str, allowed: str) -> Check:
    """An affinity chooses nodes as well. One that the admin sets as a whole passes."""
    each = [f"(has(t.{part}) ? t.{part}.all(e, {permitted}) : true)" for part in ("matchExpressions", "matchFields")]
    test = any_of(_is_admins_affinity(inputs), f"variables.nodeTerms.all(t, {' && '.join(each)})")
    return make_check("node_selector", clause, scope, test, allowed=f"{allowed} (in affinity too)")


def _is_admins_affinity(inputs: WallInputs) -> str:
    return _is_affinity(inputs.list_values("affinity"))


def _is_affinity(values: Iterable[Any]) -> str:
    known = sorted({literal(to_plain(value)) for value in values if value})
    return any_of(*(f"has(object.spec.affinity) && dyn(object.spec.affinity) == dyn({one})" for one in known))


def _check_tolerations(inputs: WallInputs) -> Iterator[Check]:
    field = "tolerations"
    said = [entry for entries in inputs.list_values(field) for entry in entries]
    clusters = [_is_toleration(entry) for entry in inputs.defaults.tolerations]
    free = any_of(f"has(t.key) && t.key in {texts(_ADDED_BY_CLUSTER)}", *clusters)
    is_admins = any_of(free, *dict.fromkeys(_is_toleration(entry) for entry in said))
    entries = inputs.platform_wide.rules[field].allowed or () if field in inputs.platform_wide.rules else ()
    lifted = any_of(*(_covers(entry) for entry in entries if "*" not in entry["key"]))
    reserved = texts(key.lower() for key in RESERVED_TAINTS)
    usual = all_of('has(t.key) && t.key != ""', f"!(t.key.lowerAscii() in {reserved})")
    denial = f"variables.tolerations.all(t, {any_of(is_admins, usual, lifted)})"
    yield make_check(field, "default", None, denial, allowed="none that reaches nodes of the cluster itself")
    for scope, rule in inputs.iter_rules(field):
        if rule.allowed is not None:
            test = any_of(is_admins, *map(_covers, rule.allowed))
            allowed = describe(field, map(_describe_matcher, rule.allowed))
            yield make_check(field, "allowed", scope, f"variables.tolerations.all(t, {test})", allowed=allowed)
        if rule.denied:
            test = any_of(is_admins, f"!({any_of(*map(_reaches, rule.denied))})")
            allowed = f"none of {describe(field, map(_describe_matcher, rule.denied))}"
            yield make_check(field, "denied", scope, f"variables.tolerations.all(t, {test})", allowed=allowed)
    lock = inputs.find_lock(field)
    if lock is None:
        return
    scope, locked = lock
    if locked is None:
        profiles = [entry for entries in inputs.iter_profile_values(field) for entry in entries]
        test = any_of(free, *dict.fromkeys(map(_is_toleration, profiles)))
        expression = f"variables.tolerations.all(t, {test})"
        yield make_check(field, "locked", scope, expression, allowed="only a profile may set it")
    else:
        each = list(dict.fromkeys(map(_is_toleration, locked)))
        has_all = [f"variables.tolerations.exists(t, {one})" for one in each]
        only = f"variables.tolerations.all(t, {any_of(free, *each)})"
        yield make_check(field, "locked", scope, all_of(*has_all, only), allowed="the locked tolerations")


def _is_toleration(entry: Mapping[str, Any]) -> str:
    """Whether `t` is exactly that toleration; a field that is empty is not there."""
    tests = []
    for part in ("key", "operator", "value", "effect"):
        said = entry.get(part)
        tests.append(f"has(t.{part}) && t.{part} == {quote(said)}" if said else f'(!has(t.{part}) || t.{part} == "")')
    seconds = entry.get("tolerationSeconds")
    is_seconds = "!has(t.tolerationSeconds)"
    tests.append(is_seconds if seconds is None else f"has(t.tolerationSeconds) && t.tolerationSeconds == {seconds}")
    return all_of(*tests)


def _part(part: str) -> str:
    return f'(has(t.{part}) ? t.{part} : "")' if part != "operator" else '(has(t.operator) ? t.operator : "Equal")'


def _covers(entry: Mapping[str, str]) -> str:
    """Whether an entry of `allowed` covers the whole toleration (`rule_enforcement.is_within`)."""
    tests = [_matches(_part(part), pattern) for part, pattern in entry.items()]
    if entry.get("value", "*") != "*":
        tests.append(f'{_part("operator")} != "Exists"')
    return all_of(*tests)


def _reaches(entry: Mapping[str, str]) -> str:
    """Whether a toleration overlaps with an entry of `denied`: a part that it leaves out matches everything."""
    tests = []
    for part, pattern in entry.items():
        found = _matches(_part(part), pattern)
        if part == "key" and pattern != "":
            found = any_of(f'{_part("key")} == ""', found)
        elif part == "effect":
            found = any_of(f'{_part("effect")} == ""', found)
        elif part == "value":
            found = any_of(f'{_part("operator")} == "Exists"', found)
        tests.append(found)
    return all_of(*tests)


def _matches(value: str, pattern: str) -> str:
    if set(pattern) == {"*"}:
        return TRUE
    if "*" in pattern:
        return f"{value}.matches({quote(glob_to_regex(pattern))})"
    return f"{value} == {quote(pattern)}"


def _describe_matcher(entry: Mapping[str, str]) -> str:
    return " ".join(f"{part}={pattern}" for part, pattern in entry.items())


def _check_affinity(inputs: WallInputs) -> Iterator[Check]:
    lock = inputs.find_lock("affinity")
    if lock is None:
        return
    scope, locked = lock
    if locked is None:
        test = any_of("!has(object.spec.affinity)", _is_affinity(inputs.iter_profile_values("affinity")))
        yield make_check("affinity", "locked", scope, test, allowed="only a profile may set it")
    else:
        test = _is_affinity([locked]) if locked else "!has(object.spec.affinity)"
        yield make_check("affinity", "locked", scope, test, allowed="the locked affinity")


def _check_namespaces(inputs: WallInputs) -> Iterator[Check]:
    """A pod term looks only into namespaces that the platform's policy allows; a selector counts as all of them."""
    field = "affinity.namespaces"
    rules = [(None, inputs.platform_wide.rules[field].allowed or ())] if field in inputs.platform_wide.rules else []
    scopes: list[tuple[Scope | None, tuple[str, ...]]] = [*(rules or [(None, ())])]
    scopes += [(scope, rule.allowed) for scope, rule in inputs.iter_rules(field) if rule.allowed is not None]
    for scope, patterns in scopes:
        named = f"(has(t.namespaces) ? t.namespaces.all(n, {matches_any('n', patterns)}) : true)"
        selected = "true" if "*" in patterns else "!has(t.namespaceSelector)"
        test = any_of(_is_admins_affinity(inputs), f"variables.podTerms.all(t, {named} && {selected})")
        clause = "default" if scope is None else "allowed"
        yield make_check(field, clause, scope, test, allowed=describe(field, patterns) or "none")
