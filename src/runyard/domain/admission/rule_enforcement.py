"""Checks every value against the rules of every scope. All of them apply, so a project can only tighten."""

from collections.abc import Iterator, Mapping
from typing import Any

from runyard.domain.admission.admin_inputs import AdminInputs
from runyard.domain.admission.values import Facts, Value
from runyard.spec.image_patterns import denies_image, matches_image
from runyard.spec.patterns import matches
from runyard.spec.policy import Scope
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, list_words
from runyard.spec.rule_grammar import Rule


def check_rules(facts: Facts, admin: AdminInputs) -> Iterator[Problem]:
    """Find every violation. Bounds and requirements apply to all values, lists only to values that users set."""
    for scope in admin.scopes:
        for name, rule in scope.rules.items():
            if name not in facts.values:
                continue
            yield from _check_required(name, rule, scope, facts)
            yield from _check_unbounded(name, rule, scope, facts)
            for value in facts.values[name]:
                if value.value is not None:
                    yield from _check_bounds(rule, scope, value)
                    if not value.is_set_by_admin:
                        yield from _check_lists(name, rule, scope, value)


def _check_required(name: str, rule: Rule, scope: Scope, facts: Facts) -> Iterator[Problem]:
    if isinstance(rule.required, tuple):
        for key in rule.required:
            if key not in facts.names.get(name, ()):
                yield Problem(Code.POLICY_REQUIRED, (name, key), f"the {scope.name} requires `{key}`")
    elif rule.required and name in facts.names:
        if not facts.names[name]:
            yield Problem(Code.POLICY_REQUIRED, (name,), f"the {scope.name} requires `{name}`")
    elif rule.required and name != "resources.gpu":  # 0 GPUs are not sent
        for value in facts.values[name]:
            if value.value is None:
                yield Problem(Code.POLICY_REQUIRED, value.path, f"the {scope.name} requires `{name}`")


_WITHOUT_BOUND = {
    "resources.mem": "resources.mem.limits",
    "resources.mem.limits": "resources.mem.limits",
    "resources.cpu.limits": "resources.cpu.limits",
    "resources.ephemeral-storage.limits": "resources.ephemeral-storage.limits",
    "timeout": "timeout",
    "ttl": "ttl",
    "volumes.size_limit": "volumes.size_limit",
}
"""By rule, the value that must be set where the rule has a `max`: Kubernetes does not bound a blank there."""


def _check_unbounded(name: str, rule: Rule, scope: Scope, facts: Facts) -> Iterator[Problem]:
    if rule.max is None or name not in _WITHOUT_BOUND:
        return
    for value in facts.values.get(_WITHOUT_BOUND[name], ()):
        if value.value is None:
            message = f"not set, which means unbounded, but the {scope.name} sets a max"
            yield Problem(Code.POLICY_UNBOUNDED, value.path, message, allowed=f"at most {rule.max}")


def _check_bounds(rule: Rule, scope: Scope, value: Value) -> Iterator[Problem]:
    if rule.max is not None and not value.value <= rule.max:
        yield _report_violation("max", scope, value, allowed=f"at most {rule.max}")
    if rule.min is not None and not value.value >= rule.min:
        yield _report_violation("min", scope, value, allowed=f"at least {rule.min}")


def _check_lists(name: str, rule: Rule, scope: Scope, value: Value) -> Iterator[Problem]:
    if rule.options is not None and value.value not in rule.options:
        yield _report_violation("options", scope, value, allowed=list_words(map(str, rule.options)))
    if rule.allowed is not None and not any(is_within(name, entry, value.value) for entry in rule.allowed):
        yield _report_violation("allowed", scope, value, allowed=list_words(map(_write, rule.allowed)))
    if any(_reaches(name, entry, value.value) for entry in rule.denied):
        yield _report_violation("denied", scope, value)


def is_within(name: str, entry: Any, value: Any) -> bool:
    """Whether an entry of an `allowed` list covers the whole value."""
    if name == "image":
        return matches_image(entry, value)
    if name == "affinity.namespaces":
        return is_namespace_within(entry, value)
    if name != "tolerations":
        return matches(entry, str(value))
    if value.get("operator") == "Exists" and entry.get("value", "*") != "*":
        return False
    return all(matches(pattern, _get_part(value, part)) for part, pattern in entry.items())


def is_namespace_within(pattern: str, namespace: str) -> bool:
    """Whether a pattern covers a namespace. `*` as a namespace is a selector, which only `*` itself covers."""
    return pattern == "*" if namespace == "*" else matches(pattern, namespace)


def _reaches(name: str, entry: Any, value: Any) -> bool:
    """Whether a value overlaps with an entry of a `denied` list."""
    if name == "image":
        return denies_image(entry, value)
    if name != "tolerations":
        return matches(entry, str(value))
    return all(_reaches_part(value, part, pattern) for part, pattern in entry.items())


def _reaches_part(toleration: Mapping[str, Any], part: str, pattern: str) -> bool:
    """A part that a toleration leaves out matches everything."""
    said = _get_part(toleration, part)
    is_open = (
        (part == "key" and not said and pattern != "")
        or (part == "effect" and not said)
        or (part == "value" and toleration.get("operator") == "Exists")
    )
    return is_open or matches(pattern, said)


def _get_part(toleration: Mapping[str, Any], part: str) -> str:
    said = toleration.get(part)
    return ("Equal" if part == "operator" else "") if said is None else str(said)


_CLAUSES = {
    "max": Code.POLICY_MAX,
    "min": Code.POLICY_MIN,
    "options": Code.POLICY_OPTIONS,
    "allowed": Code.POLICY_ALLOWED,
    "denied": Code.POLICY_DENIED,
}


def _report_violation(clause: str, scope: Scope, value: Value, *, allowed: str | None = None) -> Problem:
    message = f"{_write(value.value)} violates `{clause}` of the {scope.name}"
    return Problem(_CLAUSES[clause], value.path, message, value=_write(value.value), allowed=allowed)


def _write(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {part}" for key, part in value.items())
    return str(value)
