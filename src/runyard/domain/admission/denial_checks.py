"""What nobody may have unless the platform's policy names it, or the admin's profile has it."""

from collections.abc import Iterator
from typing import Any

from runyard.domain.admission.admins import Admins
from runyard.domain.admission.rule_enforcement import is_within
from runyard.domain.admission.values import Facts, Value
from runyard.spec import denials
from runyard.spec.patterns import matches
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem


def check_denials(facts: Facts, admins: Admins) -> Iterator[Problem]:
    """Every value that needs the policy's leave and does not have it."""
    checks = (
        ("tolerations", _needs_toleration, _lifts_toleration),
        ("service_type", lambda value: value in denials.SERVICE_TYPES, _lifts_exactly),
        ("envs", _needs_env, _lifts_exactly),
        ("affinity.namespaces", lambda _: True, _lifts_namespace),
        ("volumes.claim_name", lambda _: True, _lifts_by_pattern),
    )
    for name, needs_leave, lifts in checks:
        rule = admins.platform_wide.rules.get(name)
        named = [] if rule is None else [*(rule.allowed or ())]
        if rule is not None and name == "service_type":
            named += rule.options or ()
        for value in facts.values.get(name, ()):
            asked = value.value is not None and not value.is_admins
            if asked and needs_leave(value.value) and not any(lifts(entry, value.value) for entry in named):
                yield _deny(name, value)


def _needs_toleration(toleration: Any) -> bool:
    key = toleration.get("key", "")
    return not key or key in denials.CONTROL_PLANE_TAINTS


def _lifts_toleration(matcher: Any, toleration: Any) -> bool:
    return matcher["key"] == toleration.get("key", "") and is_within("tolerations", matcher, toleration)


def _needs_env(name: Any) -> bool:
    return any(matches(pattern, name) for pattern in denials.ENVS)


def _lifts_exactly(entry: Any, value: Any) -> bool:
    return bool(entry == value)


def _lifts_namespace(pattern: Any, namespace: Any) -> bool:
    return pattern == "*" if namespace == "*" else matches(pattern, namespace)


def _lifts_by_pattern(pattern: Any, value: Any) -> bool:
    return matches(pattern, value)


def _deny(name: str, value: Value) -> Problem:
    code, words = _DENIED[name]
    return Problem(code, value.path, f"{words}, and the policy does not name it", value=str(value.value))


_DENIED = {
    "tolerations": (Code.DENIED_TOLERATIONS, "reaches nodes that run the cluster"),
    "service_type": (Code.DENIED_SERVICE_TYPE, "reaches beyond the cluster"),
    "envs": (Code.DENIED_ENVS, "is one of the platform's variables"),
    "affinity.namespaces": (Code.DENIED_AFFINITY_NAMESPACES, "looks into other namespaces"),
    "volumes.claim_name": (Code.DENIED_VOLUMES_CLAIM_NAME, "exists already and was not made for this run"),
}
