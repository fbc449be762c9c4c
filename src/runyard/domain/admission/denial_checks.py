"""Values that are denied by default: refused unless the platform's policy names them or the profile sets them.

The counterpart of `domain.default_denials`, over the objects instead of the layers. Both read the lists in
`spec.denials`. A project's policy cannot lift a denial.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from runyard.domain.admission.admin_inputs import AdminInputs
from runyard.domain.admission.rule_enforcement import is_namespace_within, is_within
from runyard.domain.admission.values import Facts
from runyard.spec import denials
from runyard.spec.patterns import matches
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem
from runyard.spec.rule_grammar import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """One default denial of a ruled field."""

    field: str
    code: Code
    explanation: str
    is_denied: Callable[[Any], bool]
    """Whether the value is denied by default."""
    is_lifted_by: Callable[[Any, Any], bool]
    """Whether an entry of the platform's `allowed` or `options` lifts the denial of the value."""
    is_lifted_by_options: bool = False


def check_denials(facts: Facts, admin: AdminInputs) -> Iterator[Problem]:
    """Yield one problem per denied value that neither the platform's policy nor the profile permits."""
    for denial in DENIALS:
        entries = _list_entries(denial, admin.platform_wide.rules.get(denial.field))
        for value in facts.values.get(denial.field, ()):
            if value.value is None or value.is_set_by_admin or not denial.is_denied(value.value):
                continue
            if not any(denial.is_lifted_by(entry, value.value) for entry in entries):
                message = f"{denial.explanation}, and the policy does not allow it"
                yield Problem(denial.code, value.path, message, value=value.value)


def _list_entries(denial: Denial, rule: Rule | None) -> list[Any]:
    if rule is None:
        return []
    return [*(rule.allowed or ()), *((rule.options or ()) if denial.is_lifted_by_options else ())]


def _is_denied_toleration(toleration: Any) -> bool:
    key = toleration.get("key", "")
    return not key or denials.is_reserved_taint(key)


def _is_lifted_toleration(matcher: Any, toleration: Any) -> bool:
    return matcher["key"] == toleration.get("key", "") and is_within("tolerations", matcher, toleration)


def _is_same(entry: Any, value: Any) -> bool:
    return bool(entry == value)


DENIALS = (
    Denial(
        field="tolerations",
        code=Code.DENIED_TOLERATIONS,
        explanation="reaches nodes that run the cluster",
        is_denied=_is_denied_toleration,
        is_lifted_by=_is_lifted_toleration,
    ),
    Denial(
        field="service_type",
        code=Code.DENIED_SERVICE_TYPE,
        explanation="reaches beyond the cluster",
        is_denied=lambda kind: kind in denials.SERVICE_TYPES,
        is_lifted_by=_is_same,
        is_lifted_by_options=True,
    ),
    Denial(
        field="priority_class",
        code=Code.DENIED_PRIORITY_CLASS,
        explanation="is one of the cluster's own priority classes",
        is_denied=lambda name: any(matches(pattern, name) for pattern in denials.PRIORITY_CLASSES),
        is_lifted_by=_is_same,
        is_lifted_by_options=True,
    ),
    Denial(
        field="envs",
        code=Code.DENIED_ENVS,
        explanation="is one of the platform's variables",
        is_denied=lambda name: any(matches(pattern, name) for pattern in denials.ENVS),
        is_lifted_by=_is_same,
    ),
    Denial(
        field="affinity.namespaces",
        code=Code.DENIED_AFFINITY_NAMESPACES,
        explanation="looks into other namespaces",
        is_denied=lambda _: True,
        is_lifted_by=is_namespace_within,
    ),
    Denial(
        field="volumes.claim_name",
        code=Code.DENIED_VOLUMES_CLAIM_NAME,
        explanation="exists already and was not made for this run",
        is_denied=lambda _: True,
        is_lifted_by=matches,
    ),
)
