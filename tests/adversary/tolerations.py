"""The judge's own comparison of tolerations with matchers, by the taints that both cover."""

from collections.abc import Mapping
from typing import Any

from tests.adversary.images import glob

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PROBES = ("", "a", "true", "some-other-value-that-nobody-names")


def is_within(matcher: Mapping[str, str], toleration: Mapping[str, Any]) -> bool:
    """Whether every taint that it tolerates is one that the matcher names."""
    key, operator = toleration.get("key", ""), toleration.get("operator", "Equal")
    if key and not glob(matcher["key"], key):
        return False
    if not key and matcher["key"].strip("*"):
        return False
    if "effect" in matcher and not _covers(matcher["effect"], toleration.get("effect"), EFFECTS):
        return False
    value = None if operator == "Exists" else toleration.get("value", "")
    if "value" in matcher and not _covers(matcher["value"], value, _PROBES):
        return False
    return "operator" not in matcher or glob(matcher["operator"], operator)


def _covers(pattern: str, said: str | None, everything: tuple[str, ...]) -> bool:
    return all(glob(pattern, each) for each in everything) if said is None else glob(pattern, said)


def meets(matcher: Mapping[str, str], toleration: Mapping[str, Any]) -> bool:
    """Whether any taint that it tolerates is one that the matcher names."""
    key, operator = toleration.get("key", ""), toleration.get("operator", "Equal")
    if key and not glob(matcher["key"], key):
        return False
    effect = toleration.get("effect")
    if "effect" in matcher and effect is not None and not glob(matcher["effect"], effect):
        return False
    value = None if operator == "Exists" else toleration.get("value", "")
    if "value" in matcher and value is not None and not glob(matcher["value"], value):
        return False
    return "operator" not in matcher or glob(matcher["operator"], operator)
