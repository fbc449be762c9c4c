"""The wall as text: every rule of a policy is generated, or listed with the reason why not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.kubernetes.project_rules.cel import glob_to_regex, literal, quote
from runyard.engines.kubernetes.project_rules.inexpressible import COVERED, INEXPRESSIBLE, PARTIAL
from runyard.engines.kubernetes.project_rules.second_wall import list_checks, render_wall
from runyard.engines.kubernetes.project_rules.wall_inputs import WallInputs
from runyard.spec.policy import read_policy
from runyard.spec.rule_grammar import RULED, RuledField

PAGE = Path(__file__).parents[5] / "docs" / "operators" / "kubernetes.md"
MAPS = {"node_selector": {"pool": "gpu"}, "envs": {"A": "1"}}
DEFAULTS: dict[str, Any] = {
    **MAPS,
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "volumes.type": "empty_dir",
    "image": "ghcr.io/acme/x:1",
    "image_pull_policy": "Always",
    "service_type": "NodePort",
    "resources.gpu": 1,
}
CLAUSES = [(name, clause) for name, known in RULED.items() for clause in known.clauses if clause != "default"]


def draw_value(known: RuledField) -> Any:
    if known.name in DEFAULTS:
        return DEFAULTS[known.name]
    for value in ("1Gi", 1, "x", "90s"):
        try:
            known.read_value(value)
        except Exception:  # noqa: BLE001 - looks for a value that the field can have
            continue
        return value
    raise AssertionError(known.name)


def make_rule(name: str, clause: str) -> dict[str, Any]:
    known = RULED[name]
    value = draw_value(known)
    match clause:
        case "required":
            return {"required": list(value) if isinstance(value, dict) else True}
        case "locked":
            return {"default": value, "locked": True}
        case "options":
            return {"options": [value]}
        case "allowed" | "denied":
            return {clause: [{"key": "gpu"}] if name == "tolerations" else ["x*"]}
    return {clause: value}


@pytest.mark.parametrize(("name", "clause"), CLAUSES)
def test_rule_is_in_the_wall_or_listed_when_a_policy_has_it(name: str, clause: str) -> None:
    rules = AdminRules(policy=read_policy({name: make_rule(name, clause)}))
    checks = list_checks(WallInputs(rules, project="vision"))
    made = {check.rule for found in checks.values() for check in found}
    is_listed = {f"{name}.{clause}", name} & INEXPRESSIBLE.keys()
    assert (COVERED.get(name, f"{name}.{clause}") in made) != bool(is_listed)


def test_lists_of_exceptions_name_fields_of_policies_when_they_are_read() -> None:
    assert {key.rpartition(".")[0] if key not in RULED else key for key in INEXPRESSIBLE} <= RULED.keys()
    assert {key.rpartition(".")[0] if key not in RULED else key for key in PARTIAL} - {""} <= RULED.keys()


@pytest.mark.parametrize(("mark", "expected"), [("inexpressible", INEXPRESSIBLE), ("partial", PARTIAL)])
def test_page_for_operators_lists_what_the_wall_does_not_hold_when_it_is_read(
    mark: str, expected: Mapping[str, str]
) -> None:
    table = PAGE.read_text(encoding="utf-8").partition(f"<!-- {mark} -->\n")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    assert {rule.strip("`"): why for rule, why in rows} == expected


def test_projects_share_policies_when_their_rules_are_the_same() -> None:
    rules = AdminRules(
        policy=read_policy({"image": {"allowed": ["a/*"]}, "projects": {"other": {"replicas": {"max": 1}}}})
    )
    walls = {
        project: render_wall(WallInputs(rules, project=project), namespace=project, labels={}, owner="i")
        for project in ("one", "two", "other")
    }
    names = {project: [policy["metadata"]["name"] for policy in wall.policies] for project, wall in walls.items()}
    assert names["one"] == names["two"]
    assert names["one"][0] == names["other"][0]
    assert set(names["other"]) != set(names["one"])
    assert [binding["metadata"]["name"] for binding in walls["one"].bindings] == ["one.pods", "one.services"]


def test_variables_of_the_package_index_pass_when_a_rule_lists_variables() -> None:
    rules = AdminRules(policy=read_policy({"envs": {"allowed": ["APP_*"]}}))
    checks = list_checks(WallInputs(rules, project="one", package_index="https://index.example/simple"))["pods"]
    [allowed] = [check.expression for check in checks if check.rule == "envs.allowed"]
    assert 'e.name == "PIP_INDEX_URL" && has(e.value) && e.value == "https://index.example/simple"' in allowed
    plain = list_checks(WallInputs(rules, project="one"))["pods"]
    assert "PIP_INDEX_URL" not in next(check.expression for check in plain if check.rule == "envs.allowed")


def test_python_images_of_every_scope_pass_when_a_project_names_one_version() -> None:
    platform = {"python_images": {"PYTHON3_11": "acme.example/python:3.11"}}
    policy = read_policy({"image": {"allowed": ["a/*"]}, "projects": {"one": {"platform": platform}}})
    checks = list_checks(WallInputs(AdminRules(policy=policy), project="one"))["pods"]
    [allowed] = [check.expression for check in checks if check.rule == "image.allowed"]
    assert '"acme.example/python:3.11"' in allowed
    assert '"python:3.13"' in allowed
    assert '"python:3.11"' not in allowed


def test_installations_share_nothing_when_their_rules_are_the_same() -> None:
    inputs = WallInputs(AdminRules(), project="one")
    first, second = (render_wall(inputs, namespace="n", labels={}, owner=owner) for owner in ("a", "b"))
    assert not {one["metadata"]["name"] for one in first.policies} & {
        one["metadata"]["name"] for one in second.policies
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", '"a"'), ('"\\', '"\\"\\\\"'), ("\n", '"\\u000a"'), ("ü", '"\\u00fc"'), ("🚀", '"\\U0001f680"')],
)
def test_text_is_escaped_when_it_is_quoted(text: str, expected: str) -> None:
    assert quote(text) == expected


def test_json_becomes_a_literal_when_it_is_nested() -> None:
    assert literal({"a": [1, True, "x"]}) == '{"a": dyn([dyn(1), dyn(true), dyn("x")])}'


def test_pattern_is_a_whole_expression_when_it_has_stars() -> None:
    assert glob_to_regex("a.b/*:1*") == "(?s)^a\\.b\\/.*\\:1.*$"
