"""Tolerations, affinity and topology spread: forms, rules, messages. tests/cluster compares with the apiserver."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.spec.kubernetes.placement import (
    iter_affinity_namespaces,
    iter_node_keys,
    read_affinity,
    read_tolerations,
    read_topology_spread,
)
from runyard.spec.problems import Refused
from tests.unit.spec.refusals import find_problem, find_problems

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SNAKE_REQUIRED = "required_during_scheduling_ignored_during_execution"
SNAKE_PREFERRED = "preferred_during_scheduling_ignored_during_execution"

# As DigitalHub's SDK sends it, field by field of its models.
SDK_AFFINITY: dict[str, Any] = {
    "node_affinity": {
        SNAKE_REQUIRED: {
            "node_selector_terms": [
                {
                    "match_expressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}],
                    "match_fields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}],
                }
            ]
        },
        SNAKE_PREFERRED: [
            {"weight": 5, "preference": {"match_expressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]}}
        ],
    },
    "pod_affinity": {
        SNAKE_REQUIRED: [
            {
                "label_selector": {"match_labels": {"some_label": "x"}, "match_expressions": None},
                "topology_key": "kubernetes.io/hostname",
                "namespaces": ["team-a"],
            }
        ]
    },
    "pod_anti_affinity": {
        SNAKE_PREFERRED: [
            {"weight": 1, "pod_affinity_term": {"topology_key": "zone", "namespace_selector": {}, "label_selector": {}}}
        ]
    },
}
AFFINITY: dict[str, Any] = {
    "nodeAffinity": {
        REQUIRED: {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}],
                    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}],
                }
            ]
        },
        PREFERRED: [
            {"weight": 5, "preference": {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]}}
        ],
    },
    "podAffinity": {
        REQUIRED: [
            {
                "labelSelector": {"matchLabels": {"some_label": "x"}},
                "topologyKey": "kubernetes.io/hostname",
                "namespaces": ["team-a"],
            }
        ]
    },
    "podAntiAffinity": {
        PREFERRED: [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaceSelector": {}, "labelSelector": {}}}
        ]
    },
}


def node_requirement(**fields: Any) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [fields]}]}}}


def node_field(**fields: Any) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [fields]}]}}}


def pod_term(**fields: Any) -> dict[str, Any]:
    return {"podAffinity": {REQUIRED: [{"topologyKey": "zone", **fields}]}}


def test_affinity_is_camel_case_when_sdk_sends_snake_case() -> None:
    given_before = copy.deepcopy(SDK_AFFINITY)
    assert read_affinity(SDK_AFFINITY) == AFFINITY
    assert given_before == SDK_AFFINITY
    assert read_affinity(AFFINITY) == AFFINITY


def test_labels_keep_their_spelling_when_keys_are_folded() -> None:
    selector = {"match_labels": {"my_label": "a", "myLabel": "b", "match_labels": "c"}}
    read = read_affinity(pod_term(labelSelector=selector))
    assert read["podAffinity"][REQUIRED][0]["labelSelector"] == {"matchLabels": selector["match_labels"]}


@pytest.mark.parametrize("blank", [None, {}, {"nodeAffinity": None, "pod_affinity": None}])
def test_affinity_is_empty_when_nothing_is_given(blank: Any) -> None:
    assert read_affinity(blank) == {}


def test_tolerations_are_camel_case_and_in_order_when_they_are_read() -> None:
    given_tolerations = [
        {"key": "spot", "operator": "Exists", "effect": "NoExecute", "toleration_seconds": 30},
        {"key": "nvidia.com/gpu", "value": "a", "effect": "", "operator": "", "tolerationSeconds": None},
        {"operator": "Exists", "key": "", "value": ""},
    ]
    assert read_tolerations(given_tolerations) == [
        {"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
        {"key": "nvidia.com/gpu", "value": "a"},
        {"operator": "Exists"},
    ]
    assert read_tolerations(None) == read_tolerations([]) == []


@pytest.mark.parametrize(
    ("toleration", "where", "words"),
    [
        ({"key": "a b"}, "[0].key", "letters"),
        ({"value": "a"}, "[0].operator", "Exists"),
        ({"key": "a", "operator": "exists"}, "[0].operator", "not an operator"),
        ({"key": "a", "operator": "Gt", "value": "5"}, "[0].operator", "not an operator"),
        ({"key": "a", "operator": "Exists", "value": "b"}, "[0].value", "takes no value"),
        ({"key": "a", "value": "b c"}, "[0].value", "must be empty"),
        ({"key": "a", "effect": "NoAdmit"}, "[0].effect", "not an effect"),
        ({"key": "a", "tolerationSeconds": 5}, "[0].effect", "needs the effect NoExecute"),
        ({"key": "a", "effect": "NoExecute", "tolerationSeconds": "5"}, "[0].tolerationSeconds", "whole number"),
        ({"key": "a", "effect": "NoExecute", "toleration_seconds": 2**63}, "[0].toleration_seconds", "out of range"),
        ({"key": "a", "value": True}, "[0].value", "must be text, not a boolean"),
        ({"key": "a", "vlaue": "b"}, "[0].vlaue", "unknown field `vlaue`"),
        ("spot", "[0]", "must be a mapping"),
        (None, "[0]", "must be a mapping"),
    ],
)
def test_toleration_is_refused_when_it_breaks_a_rule(toleration: Any, where: str, words: str) -> None:
    problem = find_problem(read_tolerations, [toleration])
    assert problem.where == where
    assert words in problem.message


def test_nearest_word_is_proposed_when_one_is_misspelt() -> None:
    assert find_problem(read_tolerations, [{"key": "a", "operator": "exists"}]).suggestion == "Exists"
    assert find_problem(read_tolerations, [{"key": "a", "effect": "Noschedule"}]).suggestion == "NoSchedule"
    assert find_problem(read_tolerations, [{"key": "a", "value": 5}]).suggestion == '"5"'
    assert find_problem(read_tolerations, [{"key": "a", "value": True}]).suggestion == '"true"'
    weight = {"podAffinity": {PREFERRED: [{"weight": "5", "podAffinityTerm": {"topologyKey": "zone"}}]}}
    assert find_problem(read_affinity, weight).suggestion == "5"


def test_nearest_field_has_the_users_spelling_when_a_key_is_unknown() -> None:
    snake = find_problem(read_affinity, {"node_afinity": {}})
    assert (snake.where, snake.suggestion) == ("node_afinity", "node_affinity")
    assert snake.allowed == "node_affinity, pod_affinity, pod_anti_affinity"
    camel = find_problem(read_affinity, {"nodeAfinity": {}})
    assert (camel.where, camel.suggestion) == ("nodeAfinity", "nodeAffinity")
    assert camel.allowed == "nodeAffinity, podAffinity, podAntiAffinity"
    mixed = find_problem(read_affinity, {"pod_affinity": {SNAKE_REQUIRED: [{"label_selector": {}}]}})
    assert mixed.where == f"pod_affinity.{SNAKE_REQUIRED}[0].topology_key"


@pytest.mark.parametrize("value", [{}, None])
def test_key_is_refused_when_it_stands_in_both_spellings(value: Any) -> None:
    problem = find_problem(read_affinity, {"nodeAffinity": {}, "node_affinity": value})
    assert (problem.code, problem.where) == ("field.twice", "node_affinity")


def test_every_problem_is_told_when_there_are_many() -> None:
    problems = find_problems(
        read_affinity,
        {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": []},
                PREFERRED: [{"weight": 0, "preference": {"matchExpressions": [{"key": "a b", "operator": "in"}]}}],
            },
            "podAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": {"-": "ok", "ok": "a b"}}}]},
            "podAntiAffinity": {PREFERRED: [{"weight": 101}, 5]},
            "other": {},
        },
    )
    preferred = f"nodeAffinity.{PREFERRED}[0]"
    assert set(problems) == {
        f"nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        f"{preferred}.weight",
        f"{preferred}.preference.matchExpressions[0].key",
        f"{preferred}.preference.matchExpressions[0].operator",
        f"podAffinity.{REQUIRED}[0].labelSelector.matchLabels.-",
        f"podAffinity.{REQUIRED}[0].labelSelector.matchLabels.ok",
        f"podAffinity.{REQUIRED}[0].topologyKey",
        f"podAntiAffinity.{PREFERRED}[0].weight",
        f"podAntiAffinity.{PREFERRED}[0].podAffinityTerm",
        f"podAntiAffinity.{PREFERRED}[1]",
        "other",
    }


@pytest.mark.parametrize(
    "affinity",
    [
        node_requirement(key="a", operator="In"),
        node_requirement(key="a", operator="NotIn", values=[]),
        node_requirement(key="a", operator="Exists", values=["b"]),
        node_requirement(key="a", operator="DoesNotExist", values=["b"]),
        node_requirement(key="a", operator="Gt"),
        node_requirement(key="a", operator="Gt", values=["1", "2"]),
        node_requirement(key="a", operator="Lt", values=["four"]),
        node_requirement(key="a", operator="Lt", values=["9223372036854775808"]),
        node_requirement(key="a", operator="Lt", values=["١"]),
        node_requirement(key="a", operator="In", values=["a b"]),
        node_requirement(key="a", operator="In", values=[None]),
        node_requirement(key="a", operator="In", values="b"),
        node_requirement(key="a", operator="Equal", values=["b"]),
        node_requirement(key="a"),
        node_requirement(operator="Exists"),
        node_field(key="metadata.name", operator="In", values=["a", "b"]),
        node_field(key="metadata.name", operator="In"),
        node_field(key="metadata.name", operator="Exists"),
        node_field(key="metadata.namespace", operator="In", values=["a"]),
        node_field(key="metadata.name", operator="In", values=["A"]),
        {"nodeAffinity": {REQUIRED: {}}},
        {"nodeAffinity": {REQUIRED: []}},
        {"nodeAffinity": {PREFERRED: [{"preference": {}}]}},
        {"nodeAffinity": {PREFERRED: [{"weight": True, "preference": {}}]}},
        {"podAffinity": {REQUIRED: [{}]}},
        {"podAffinity": {PREFERRED: [{"weight": 1}]}},
        pod_term(topologyKey=""),
        pod_term(topologyKey="a b"),
        pod_term(namespaces=["a.b"]),
        pod_term(labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
        pod_term(labelSelector={"matchLabels": {"a": None}}),
        pod_term(labelSelector={"matchLabels": {1: "a"}}),
        pod_term(labelSelector={"matchLabels": []}),
        pod_term(namespaceSelector={"matchLabels": {"a": "b c"}}),
        pod_term(matchLabelKeys=["a"]),
        pod_term(mismatchLabelKeys=["a"]),
        pod_term(labelSelector={}, matchLabelKeys=["a b"]),
        pod_term(labelSelector={"matchLabels": {"a": "b"}}, matchLabelKeys=["a"]),
        pod_term(labelSelector={"matchExpressions": [{"key": "a", "operator": "Exists"}]}, matchLabelKeys=["a"]),
        pod_term(labelSelector={}, matchLabelKeys=["a"], mismatchLabelKeys=["a"]),
        pod_term(labelSelector={}, matchLabelKeys=["a", "a"]),
        {1: {}},
        [],
        "affinity",
    ],
)
def test_affinity_is_refused_for_one_reason_when_it_breaks_a_rule(affinity: Any) -> None:
    find_problem(read_affinity, affinity)


@pytest.mark.parametrize(
    "affinity",
    [
        node_requirement(key="a", operator="In", values=["", "b"]),
        node_requirement(key="a", operator="Exists", values=[]),
        node_requirement(key="a", operator="Gt", values=["9223372036854775807"]),
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}, PREFERRED: [{"weight": 100}]}},
        {"nodeAffinity": {}, "podAffinity": {REQUIRED: [], PREFERRED: []}},
        pod_term(labelSelector={"matchLabels": {"a": "b"}}, mismatchLabelKeys=["a", "a"], matchLabelKeys=["c"]),
        pod_term(matchLabelKeys=[]),
    ],
)
def test_affinity_is_taken_as_it_is_when_it_keeps_the_rules(affinity: dict[str, Any]) -> None:
    assert read_affinity(affinity) == affinity


CONSTRAINT: dict[str, Any] = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def test_spread_is_camel_case_when_it_is_given_in_snake_case() -> None:
    given_constraint = {
        "max_skew": 1,
        "topology_key": "zone",
        "when_unsatisfiable": "DoNotSchedule",
        "min_domains": 2,
        "label_selector": {"match_labels": {"a": "b"}},
        "match_label_keys": ["c"],
        "node_taints_policy": "Honor",
    }
    assert read_topology_spread([given_constraint]) == [
        {
            **CONSTRAINT,
            "minDomains": 2,
            "labelSelector": {"matchLabels": {"a": "b"}},
            "matchLabelKeys": ["c"],
            "nodeTaintsPolicy": "Honor",
        }
    ]
    assert read_topology_spread(None) == []


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"maxSkew": 0}, "[0].maxSkew"),
        ({"maxSkew": 2**31}, "[0].maxSkew"),
        ({"maxSkew": 1.0}, "[0].maxSkew"),
        ({"maxSkew": None}, "[0].maxSkew"),
        ({"topologyKey": ""}, "[0].topologyKey"),
        ({"whenUnsatisfiable": "Never"}, "[0].whenUnsatisfiable"),
        ({"whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1}, "[0].minDomains"),
        ({"minDomains": 0}, "[0].minDomains"),
        ({"nodeAffinityPolicy": ""}, "[0].nodeAffinityPolicy"),
        ({"matchLabelKeys": ["a"]}, "[0].matchLabelKeys"),
        ({"mismatchLabelKeys": ["a"], "labelSelector": {}}, "[0].mismatchLabelKeys"),
    ],
)
def test_spread_is_refused_when_it_breaks_a_rule(changes: dict[str, Any], where: str) -> None:
    assert find_problem(read_topology_spread, [{**CONSTRAINT, **changes}]).where == where


def test_spread_is_refused_when_it_stands_twice() -> None:
    assert find_problem(read_topology_spread, [CONSTRAINT, {**CONSTRAINT, "maxSkew": 2}]).code == "spread.twice"
    other = {**CONSTRAINT, "whenUnsatisfiable": "ScheduleAnyway"}
    assert read_topology_spread([CONSTRAINT, other]) == [CONSTRAINT, other]


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (read_tolerations, [{"key": "a"}] * 101),
        (read_topology_spread, [CONSTRAINT] * 101),
        (read_affinity, node_requirement(key="a", operator="In", values=["b"] * 101)),
        (read_affinity, {"podAffinity": {REQUIRED: [{"topologyKey": "a"}] * 101}}),
        (read_affinity, pod_term(labelSelector={"matchLabels": {f"a{number}": "" for number in range(101)}})),
    ],
)
def test_lists_are_refused_when_they_are_too_long(read: Any, value: Any) -> None:
    assert find_problem(read, value).code == "size.entries"


def test_namespaces_beyond_its_own_are_found_when_terms_reach_there() -> None:
    assert list(iter_affinity_namespaces(AFFINITY)) == [
        (("podAffinity", REQUIRED, 0, "namespaces", 0), "team-a"),
        (("podAntiAffinity", PREFERRED, 0, "podAffinityTerm", "namespaceSelector"), "*"),
    ]
    assert list(iter_affinity_namespaces({})) == []
    assert list(iter_affinity_namespaces(pod_term(namespaces=[]))) == []


def test_node_labels_and_fields_are_found_when_node_affinity_uses_them() -> None:
    term = ("nodeAffinity", REQUIRED, "nodeSelectorTerms", 0)
    assert list(iter_node_keys(AFFINITY)) == [
        ((*term, "matchExpressions", 0, "key"), "gpu"),
        ((*term, "matchFields", 0, "key"), "metadata.name"),
        (("nodeAffinity", PREFERRED, 0, "preference", "matchExpressions", 0, "key"), "cores"),
    ]
    assert list(iter_node_keys({"nodeAffinity": {PREFERRED: [{"weight": 1}]}})) == []


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["nodeAffinity", "podAffinity", REQUIRED, PREFERRED, "nodeSelectorTerms", "key", "values"])
            | st.text(max_size=3)
            | st.integers(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(ANY)
def test_placement_is_read_or_refused_when_it_is_anything(value: Any) -> None:
    for read in (read_tolerations, read_affinity, read_topology_spread):
        try:
            read(value)
        except Refused as refused:
            assert str(refused)  # noqa: PT017 - either outcome is fine, another exception is not
