"""`tolerations`, `affinity` and topology spread constraints: Kubernetes' own schema, fully validated.

Keys may be camelCase or snake_case, as DigitalHub's SDK sends them; the result is camelCase, ready for a pod. The
apiserver of every supported Kubernetes accepts the result (tests/cluster/contract/test_placement.py).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from runyard.spec.kubernetes.affinity import PREFERRED, REQUIRED, check_label_keys, read_affinity_fields
from runyard.spec.kubernetes.label_selectors import read_label_key, read_label_keys, read_label_selector
from runyard.spec.kubernetes.object_reader import (
    Fields,
    integer_reader,
    list_reader,
    option_reader,
    read_fields,
    read_text,
    require,
)
from runyard.spec.names import check_label_value, check_toleration_key
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path
from runyard.spec.readers import Findings

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_MOST_INT32 = 2**31 - 1

# The keys may be in snake_case too, so these schemas describe them without closing the objects.
TOLERATIONS_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "key": {"description": "Key of the taint.", "examples": ["maintenance"]},
            "operator": {
                "description": "Equal (the default), or Exists, which takes no value.",
                "examples": ["Equal"],
            },
            "value": {"description": "Value of the taint.", "examples": ["true"]},
            "effect": {
                "description": f"Effect of the taint: {', '.join(EFFECTS)}; all of them by default.",
                "examples": ["NoExecute"],
            },
            "tolerationSeconds": {"description": "How long NoExecute is tolerated.", "examples": [300]},
        },
    },
}
AFFINITY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "nodeAffinity": {"description": "Rules about labels of the node, as in a Kubernetes pod."},
        "podAffinity": {"description": "Rules about pods to be near to, as in a Kubernetes pod."},
        "podAntiAffinity": {"description": "Rules about pods to be away from, as in a Kubernetes pod."},
    },
}


def read_tolerations(given: Any) -> list[dict[str, Any]]:
    """The tolerations, without empty text, which means unset. Raises `Refused` with all problems."""
    findings = Findings()
    tolerations = list_reader(_read_toleration, of="tolerations")(_blank_to([], given), findings, ())
    findings.finish()
    return list(tolerations)


def read_affinity(given: Any) -> dict[str, Any]:
    """The affinity; {} if unset. Raises `Refused` with all problems."""
    findings = Findings()
    affinity = read_affinity_fields(_blank_to({}, given), findings, ())
    findings.finish()
    return affinity


def read_topology_spread(given: Any) -> list[dict[str, Any]]:
    """The topologySpreadConstraints. Raises `Refused` with all problems."""
    findings = Findings()
    constraints = list_reader(_read_constraint, of="constraints")(_blank_to([], given), findings, ())
    findings.finish()
    for index, constraint in enumerate(constraints):
        for earlier in constraints[:index]:
            if all(constraint[name] == earlier[name] for name in ("topologyKey", "whenUnsatisfiable")):
                message = "an earlier constraint has the same topologyKey and whenUnsatisfiable"
                findings.add(Code.SPREAD_TWICE, (index,), message, value=constraint["topologyKey"])
                break
    findings.finish()
    return list(constraints)


def iter_affinity_namespaces(affinity: Mapping[str, Any]) -> Iterator[tuple[Path, str | Literal["*"]]]:
    """Every namespace that a term names, with its path; "*" for a namespace selector."""
    for path, term in _iter_pod_terms(affinity):
        for index, namespace in enumerate(term.get("namespaces") or ()):
            yield (*path, "namespaces", index), namespace
        if term.get("namespaceSelector") is not None:
            yield (*path, "namespaceSelector"), "*"


def iter_node_keys(affinity: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Every node label and node field that the affinity selects by, with its path."""
    for path, term in _iter_node_terms(affinity):
        for name in ("matchExpressions", "matchFields"):
            for index, requirement in enumerate(term.get(name) or ()):
                yield (*path, name, index, "key"), requirement.get("key") or ""


def _iter_pod_terms(affinity: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for name in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(name) or {}
        for index, term in enumerate(rules.get(REQUIRED) or ()):
            yield (name, REQUIRED, index), term
        for index, weighted in enumerate(rules.get(PREFERRED) or ()):
            yield (name, PREFERRED, index, "podAffinityTerm"), weighted.get("podAffinityTerm") or {}


def _iter_node_terms(affinity: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    rules = affinity.get("nodeAffinity") or {}
    for index, term in enumerate((rules.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield ("nodeAffinity", REQUIRED, "nodeSelectorTerms", index), term
    for index, weighted in enumerate(rules.get(PREFERRED) or ()):
        yield ("nodeAffinity", PREFERRED, index, "preference"), weighted.get("preference") or {}


def _read_toleration(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
    fields = read_fields(given, findings, path, _TOLERATION, of="a toleration")
    if fields is None:
        return None
    values = fields.values
    is_operator_read = "operator" in values or not fields.is_given("operator")
    is_keyless = not values.get("key") and ("key" in values or not fields.is_given("key"))
    if is_operator_read and is_keyless and values.get("operator") != "Exists":
        message = f"without `{fields.spell('key')}` the operator must be Exists, which tolerates every taint"
        findings.add(Code.TOLERATION_KEY, fields.at("operator"), message, suggestion="Exists")
    if fields.is_given("tolerationSeconds") and (values.get("effect") != "NoExecute" and _is_fine(fields, "effect")):
        message = f"`{fields.spell('tolerationSeconds')}` needs the effect NoExecute"
        findings.add(Code.TOLERATION_EFFECT, fields.at("effect"), message, suggestion="NoExecute")
    if is_operator_read:
        _check_value(fields, findings)
    return {name: value for name, value in values.items() if value != ""}


def _check_value(fields: Fields, findings: Findings) -> None:
    value = fields.values.get("value") or ""
    if fields.values.get("operator") == "Exists":
        if value:
            findings.add(Code.TOLERATION_VALUE, fields.at("value"), "the operator Exists takes no value", value=value)
    elif error := check_label_value(value):
        findings.add(Code.LABEL_VALUE, fields.at("value"), error, value=value)


def _is_fine(fields: Fields, name: str) -> bool:
    return name in fields.values or not fields.is_given(name)


def _read_toleration_key(given: Any, findings: Findings, path: Path) -> str | None:
    key = read_text(given, findings, path)
    if key and (error := check_toleration_key(key)):
        findings.add(Code.LABEL_KEY, path, error, value=key)
        return None
    return key


def _read_constraint(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
    fields = read_fields(given, findings, path, _CONSTRAINT, of="a topology spread constraint")
    if fields is None:
        return None
    require(fields, findings, "maxSkew", "topologyKey", "whenUnsatisfiable", of="a topology spread constraint")
    if fields.is_given("minDomains") and fields.values.get("whenUnsatisfiable") == "ScheduleAnyway":
        message = f"needs `{fields.spell('whenUnsatisfiable')}: DoNotSchedule`"
        findings.add(Code.SPREAD_MIN_DOMAINS, fields.at("minDomains"), message)
    check_label_keys(fields, findings)
    return dict(fields.values)


def _blank_to(blank: Any, given: Any) -> Any:
    return blank if given is None else given


_TOLERATION = {
    "key": _read_toleration_key,
    "operator": option_reader(("Equal", "Exists"), what="an operator of a toleration", empty=True),
    "value": read_text,
    "effect": option_reader(EFFECTS, what="an effect of a taint", empty=True),
    "tolerationSeconds": integer_reader(least=-(2**63), most=2**63 - 1),
}
_read_policy = option_reader(("Honor", "Ignore"), what="a node inclusion policy")
_CONSTRAINT = {
    "maxSkew": integer_reader(least=1, most=_MOST_INT32),
    "topologyKey": read_label_key,
    "whenUnsatisfiable": option_reader(("DoNotSchedule", "ScheduleAnyway"), what="a value of `whenUnsatisfiable`"),
    "labelSelector": read_label_selector,
    "minDomains": integer_reader(least=1, most=_MOST_INT32),
    "nodeAffinityPolicy": _read_policy,
    "nodeTaintsPolicy": _read_policy,
    "matchLabelKeys": read_label_keys,
}
