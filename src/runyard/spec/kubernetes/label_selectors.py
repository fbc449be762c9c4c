"""Label selectors and their requirements, in Kubernetes' own schema and by its rules."""

from collections.abc import Mapping
from typing import Any

from runyard.spec.kubernetes.object_reader import (
    Fields,
    list_reader,
    map_reader,
    option_reader,
    read_fields,
    require,
    text_reader,
)
from runyard.spec.names import check_label_value, check_qualified_name
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path
from runyard.spec.readers import Findings

read_label_key = text_reader(check_qualified_name, Code.LABEL_KEY)
read_label_value = text_reader(check_label_value, Code.LABEL_VALUE)
read_label_values = list_reader(read_label_value, of="values")
read_label_keys = list_reader(read_label_key, of="label keys")

_REQUIREMENT = {
    "key": read_label_key,
    "operator": option_reader(("In", "NotIn", "Exists", "DoesNotExist"), what="an operator of a label selector"),
    "values": read_label_values,
}


def read_label_selector(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
    """`matchLabels` and `matchExpressions`; an empty selector matches everything."""
    fields = read_fields(given, findings, path, _SELECTOR, of="a label selector")
    return dict(fields.values) if fields else None


def read_requirement(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
    """One entry of `matchExpressions`."""
    fields = read_fields(given, findings, path, _REQUIREMENT, of="a requirement with key, operator and values")
    if fields is None:
        return None
    require(fields, findings, "key", "operator", of="a requirement")
    check_values_fit(fields, findings)
    return dict(fields.values)


def check_values_fit(fields: Fields, findings: Findings) -> None:
    """In and NotIn need values, Exists and DoesNotExist take none."""
    operator, values = fields.values.get("operator"), fields.values.get("values")
    is_missing = values == [] or not fields.is_given("values")
    if operator in ("In", "NotIn") and is_missing:
        findings.add(Code.SELECTOR_VALUES, fields.at("values"), f"the operator {operator} needs at least one value")
    elif operator in ("Exists", "DoesNotExist") and values:
        findings.add(
            Code.SELECTOR_VALUES, fields.at("values"), f"the operator {operator} takes no values", value=values
        )


def list_selector_keys(selector: Mapping[str, Any]) -> set[str]:
    """The label keys of a selector."""
    expressions = selector.get("matchExpressions", ())
    return {*selector.get("matchLabels", {}), *(expression["key"] for expression in expressions)}


_SELECTOR = {
    "matchLabels": map_reader(read_label_key, read_label_value, of="labels to values"),
    "matchExpressions": list_reader(read_requirement, of="requirements"),
}
