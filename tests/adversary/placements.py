"""Draws tolerations, affinities and spreads: legal ones in both spellings, and tricks."""

import re
from typing import Any

from tests.adversary import words
from tests.adversary.draws import Draws

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
FREE_KEYS = frozenset({"matchLabels"})
"""Keys whose content is free text and is not respelled."""


def draw_toleration(draws: Draws, *, is_sly: bool = False) -> dict[str, Any]:
    operator = draws.pick("Exists", "Exists", "Equal", None, "")
    toleration: dict[str, Any] = {} if operator is None else {"operator": operator}
    keys = words.TAINT_KEYS if is_sly else words.TAINT_KEYS[:3]
    if not is_sly or operator != "Exists" or draws.chance():
        toleration["key"] = draws.pick_of(keys)
    if operator != "Exists":
        toleration["value"] = draws.pick("true", "a", "")
    if draws.chance():
        toleration["effect"] = draws.pick_of(words.EFFECTS) if draws.chance(0.9) else ""
    if toleration.get("effect") == "NoExecute" and draws.chance():
        toleration["tolerationSeconds"] = draws.pick(0, 300, -5, 2**63 - 1)
    return toleration


def draw_bad_toleration(draws: Draws) -> Any:
    return draws.pick(
        {"operator": "Equal", "value": "x"},
        {"key": "", "operator": "Exists"},
        {"key": "*", "operator": "Exists"},
        {"key": "spot", "operator": "exists"},
        {"key": "spot", "operator": "Exists", "value": "x"},
        {"key": "spot", "Key": "gpu"},
        {"key": "spot", "effect": "NoSchedule", "toleration_seconds": 5},
        {"key": "spot", "tolerationSeconds": 5, "toleration_seconds": 6, "effect": "NoExecute"},
        {"key": "spоt", "operator": "Exists"},
        {"key": None, "operator": "Exists"},
        {"key": "spot", "operator": "Exists", "effect": "*"},
        {"key": "node-role.kubernetes.io/control-plane ", "operator": "Exists"},
        {"key": "NODE-ROLE.kubernetes.io/control-plane", "operator": "Exists"},
        {},
        [],
        "spot",
    )


def draw_affinity(draws: Draws, *, is_sly: bool = False) -> dict[str, Any]:
    affinity: dict[str, Any] = {}
    if draws.chance(0.7):
        affinity["nodeAffinity"] = _draw_node_affinity(draws, is_sly=is_sly)
    if draws.chance(0.4):
        affinity["podAffinity"] = _draw_pod_affinity(draws, is_sly=is_sly)
    if draws.chance(0.4):
        affinity["podAntiAffinity"] = _draw_pod_affinity(draws, is_sly=is_sly)
    return affinity


def _draw_node_affinity(draws: Draws, *, is_sly: bool) -> dict[str, Any]:
    terms = draws.some(lambda: _draw_node_term(draws, is_sly=is_sly), least=1, most=2)
    if draws.chance():
        return {REQUIRED: {"nodeSelectorTerms": terms}}
    return {PREFERRED: [{"weight": draws.pick(1, 50, 100), "preference": term} for term in terms]}


def _draw_node_term(draws: Draws, *, is_sly: bool) -> dict[str, Any]:
    if is_sly and draws.chance():
        return {
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [draws.pick("node-1", "control-1")]}]
        }
    return {"matchExpressions": [_draw_requirement(draws, draws.pick_of(list(words.NODE_LABELS)))]}


def _draw_requirement(draws: Draws, key: str) -> dict[str, Any]:
    operator = draws.pick("In", "NotIn", "Exists", "DoesNotExist")
    return {"key": key, "operator": operator} | ({"values": ["a", "b"]} if operator in ("In", "NotIn") else {})


def _draw_pod_affinity(draws: Draws, *, is_sly: bool) -> dict[str, Any]:
    terms = draws.some(lambda: _draw_pod_term(draws, is_sly=is_sly), least=1, most=2)
    if draws.chance():
        return {REQUIRED: terms}
    return {PREFERRED: [{"weight": 7, "podAffinityTerm": term} for term in terms]}


def _draw_pod_term(draws: Draws, *, is_sly: bool) -> dict[str, Any]:
    term: dict[str, Any] = {"topologyKey": draws.pick("kubernetes.io/hostname", "topology.kubernetes.io/zone")}
    if draws.chance(0.8):
        term["labelSelector"] = draws.pick(
            {"matchLabels": {"app": "a", "match_labels": "b"}},
            {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            {},
        )
    if is_sly and draws.chance():
        term["namespaces"] = draws.sample(words.NAMESPACES[:3], draws.number(0, 2))
    if is_sly and draws.chance(0.3):
        term["namespaceSelector"] = draws.pick({}, {"matchLabels": {"team": "b"}}, None)
    return term


def draw_bad_affinity(draws: Draws) -> Any:
    return draws.pick(
        {"nodeAffinity": []},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [{"key": "spec.x", "operator": "In"}]}]}}},
        {"podAffinity": {REQUIRED: [{"topologyKey": "", "namespaces": ["*"]}]}},
        {"podAffinity": {REQUIRED: [{"topologyKey": "a", "namespaces": ["Kube-System"]}]}},
        {"podAffinity": {REQUIRED: [{"topology_key": "a", "topologyKey": "b"}]}},
        {"node_affinity": {}, "nodeAffinity": {}},
        {"__proto__": {}},
        {"podAffinity": {REQUIRED: [{"topologyKey": "a", "namespaceselector": {}}]}},
        [],
        "nodeAffinity",
    )


def draw_spread(draws: Draws) -> list[dict[str, Any]]:
    keys = draws.sample(("kubernetes.io/hostname", "topology.kubernetes.io/zone"), draws.number(1, 2))
    return [
        {
            "maxSkew": draws.number(1, 3),
            "topologyKey": key,
            "whenUnsatisfiable": draws.pick("DoNotSchedule", "ScheduleAnyway"),
            "labelSelector": {"matchLabels": {"team": "a"}},
        }
        for key in keys
    ]


def respell(draws: Draws, value: Any, *, probability: float = 0.5) -> Any:
    """The value, at times with all keys in snake_case."""
    return to_snake(value) if draws.chance(probability) else value


def to_snake(value: Any) -> Any:
    if isinstance(value, list):
        return [to_snake(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {spell_snake(key): item if key in FREE_KEYS else to_snake(item) for key, item in value.items()}


def spell_snake(key: str) -> str:
    return re.sub("([A-Z])", lambda match: f"_{match[1].lower()}", key)


def spell_camel(key: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), key)
