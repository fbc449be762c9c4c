"""`affinity`, in Kubernetes' own schema, validated as the apiserver does.

Narrower than the apiserver where it accepts values that the scheduler cannot use: Gt and Lt need integers, preferred
terms need valid label values, and a key of `matchLabelKeys` must not be in the selector (the apiserver refuses that
only once the pod has the label, too late for a Job).
"""

from collections.abc import Mapping
from typing import Any

from runyard.spec.kubernetes.label_selectors import (
    check_values_fit,
    list_selector_keys,
    read_label_key,
    read_label_keys,
    read_label_selector,
    read_label_values,
)
from runyard.spec.kubernetes.object_reader import (
    Fields,
    integer_reader,
    list_reader,
    option_reader,
    read_fields,
    require,
    text_reader,
)
from runyard.spec.names import check_dns_label, check_dns_subdomain
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path
from runyard.spec.readers import Findings

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODE_NAME_FIELD = "metadata.name"

_read_weight = integer_reader(least=1, most=100)


def read_affinity_fields(given: Any, findings: Findings, path: Path) -> dict[str, Any]:
    """The affinity as a camelCase dictionary."""
    fields = read_fields(given, findings, path, _AFFINITY, of="an affinity")
    return dict(fields.values) if fields else {}


def check_label_keys(fields: Fields, findings: Findings) -> None:
    """The rules for `matchLabelKeys` and `mismatchLabelKeys` beside a `labelSelector`."""
    match = fields.values.get("matchLabelKeys", [])
    mismatch = fields.values.get("mismatchLabelKeys", [])
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and not fields.is_given("labelSelector"):
            message = f"needs `{fields.spell('labelSelector')}`"
            findings.add(Code.SELECTOR_LABEL_KEYS, fields.at(name), message)
    selected = list_selector_keys(fields.values.get("labelSelector", {}))
    for index, key in enumerate(match):
        where = (*fields.at("matchLabelKeys"), index)
        if key in selected:
            message = f"is also in `{fields.spell('labelSelector')}`; use it in only one of them"
            findings.add(Code.SELECTOR_LABEL_KEYS, where, message, value=key)
        if key in mismatch:
            message = f"is also in `{fields.spell('mismatchLabelKeys')}`; use it in only one of them"
            findings.add(Code.SELECTOR_LABEL_KEYS, where, message, value=key)
        if key in match[:index]:
            findings.add(Code.SELECTOR_LABEL_KEYS, where, "duplicate label key", value=key)


def _read_node_affinity(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
    return _read_plain(given, findings, path, _NODE_AFFINITY, of="a node affinity")


def _read_pod_affinity(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
    return _read_plain(given, findings, path, _POD_AFFINITY, of="a pod affinity")


def _read_node_selector(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
    readers = {"nodeSelectorTerms": list_reader(_read_node_term, of="node selector terms")}
    fields = read_fields(given, findings, path, readers, of="a node selector")
    if fields is None:
        return None
    if not fields.is_given("nodeSelectorTerms") or fields.values.get("nodeSelectorTerms") == []:
        findings.add(Code.FIELD_MISSING, fields.at("nodeSelectorTerms"), "a node selector needs at least one term")
    return dict(fields.values)


def _read_node_term(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
    return _read_plain(given, findings, path, _NODE_TERM, of="a node selector term")


def _read_preferred_node(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
    readers = {"weight": _read_weight, "preference": _read_node_term}
    return _read_plain(given, findings, path, readers, "weight", of="a preferred term")


def _read_node_requirement(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
    fields = read_fields(given, findings, path, _NODE_REQUIREMENT, of="a requirement with key, operator and values")
    if fields is None:
        return None
    require(fields, findings, "key", "operator", of="a requirement")
    check_values_fit(fields, findings)
    operator, values = fields.values.get("operator"), fields.values.get("values")
    if operator in ("Gt", "Lt") and not (fields.is_given("values") and values is None):
        if len(values or []) != 1:
            findings.add(Code.SELECTOR_VALUES, fields.at("values"), f"the operator {operator} needs exactly one value")
        elif values and not (values[0].isdigit() and int(values[0]) < 2**63):
            where = (*fields.at("values"), 0)
            message = f"the operator {operator} needs an integer"
            findings.add(Code.SELECTOR_VALUES, where, message, value=values[0], allowed='digits in quotes, such as "4"')
    return dict(fields.values)


def _read_field_requirement(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
    fields = read_fields(given, findings, path, _FIELD_REQUIREMENT, of="a requirement with key, operator and values")
    if fields is None:
        return None
    require(fields, findings, "key", "operator", of="a requirement")
    is_read = "values" in fields.values or not fields.is_given("values")
    if "operator" in fields.values and is_read and len(fields.values.get("values", [])) != 1:
        findings.add(Code.SELECTOR_VALUES, fields.at("values"), "a field requirement needs exactly one value")
    return dict(fields.values)


def _read_pod_term(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
    fields = read_fields(given, findings, path, _POD_TERM, of="a pod affinity term")
    if fields is None:
        return None
    require(fields, findings, "topologyKey", of="a pod affinity term")
    check_label_keys(fields, findings)
    return dict(fields.values)


def _read_weighted_pod_term(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
    readers = {"weight": _read_weight, "podAffinityTerm": _read_pod_term}
    return _read_plain(given, findings, path, readers, "weight", "podAffinityTerm", of="a preferred term")


def _read_plain(
    given: Any, findings: Findings, path: Path, readers: Mapping[str, Any], *required: str, of: str
) -> dict[str, Any] | None:
    """An object without rules across its fields."""
    fields = read_fields(given, findings, path, readers, of=of)
    if fields is None:
        return None
    require(fields, findings, *required, of=of)
    return dict(fields.values)


_NODE_REQUIREMENT = {
    "key": read_label_key,
    "operator": option_reader(
        ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"), what="an operator of a node selector"
    ),
    "values": read_label_values,
}
_FIELD_REQUIREMENT = {
    "key": option_reader((NODE_NAME_FIELD,), what="a field selector of nodes"),
    "operator": option_reader(("In", "NotIn"), what="an operator of a field requirement"),
    "values": list_reader(text_reader(check_dns_subdomain, Code.NAME_NODE), of="node names"),
}
_NODE_TERM = {
    "matchExpressions": list_reader(_read_node_requirement, of="requirements"),
    "matchFields": list_reader(_read_field_requirement, of="requirements"),
}
_NODE_AFFINITY = {
    REQUIRED: _read_node_selector,
    PREFERRED: list_reader(_read_preferred_node, of="preferred terms"),
}
_POD_TERM = {
    "labelSelector": read_label_selector,
    "namespaces": list_reader(text_reader(check_dns_label, Code.NAME_NAMESPACE), of="namespaces"),
    "topologyKey": read_label_key,
    "namespaceSelector": read_label_selector,
    "matchLabelKeys": read_label_keys,
    "mismatchLabelKeys": read_label_keys,
}
_POD_AFFINITY = {
    REQUIRED: list_reader(_read_pod_term, of="pod affinity terms"),
    PREFERRED: list_reader(_read_weighted_pod_term, of="preferred terms"),
}
_AFFINITY = {
    "nodeAffinity": _read_node_affinity,
    "podAffinity": _read_pod_affinity,
    "podAntiAffinity": _read_pod_affinity,
}
