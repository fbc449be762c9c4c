"""Draws legal policies: every clause of every field that can be ruled, platform-wide and for projects."""

from collections.abc import Callable, Sequence
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity
from tests.adversary import words
from tests.adversary.draws import Draws
from tests.adversary.placements import draw_affinity, draw_toleration, respell

_COUNTS = (0, 1, 2, 3, 7, 100)
_IDS = (1, 1000, 3000, 65534, 2**31 - 1)
_FIGURES: dict[str, Sequence[Any]] = {
    **{f"resources.cpu{side}": words.CPUS for side in ("", ".requests", ".limits")},
    **{f"resources.mem{side}": words.MEMORIES for side in ("", ".requests", ".limits")},
    **{f"resources.ephemeral-storage{side}": words.SIZES for side in ("", ".requests", ".limits")},
    "resources.gpu": (0, 1, 2, 4, 8),
    "resources.disk": words.SIZES,
    "volumes.size": words.SIZES,
    "volumes.size_limit": words.SIZES,
    **dict.fromkeys(("run_as_user", "run_as_group", "fs_group"), _IDS),
    **dict.fromkeys(("replicas", "backoff_limit"), _COUNTS),
    **dict.fromkeys(("timeout", "pending_timeout", "ttl", "grace_period"), words.SECONDS),
}
_NAMES: dict[str, Sequence[str]] = {
    "resources.disk.storage_class": words.STORAGE_CLASSES,
    "volumes.storage_class": words.STORAGE_CLASSES,
    "profile": words.PROFILES,
    "runtime_class": words.RUNTIME_CLASSES,
    "priority_class": words.PRIORITY_CLASSES,
    "image": words.IMAGES,
    "image_pull_policy": words.PULL_POLICIES,
    "service_type": words.SERVICE_TYPES,
}
_PATTERNS: dict[str, Sequence[str]] = {
    "image": words.IMAGE_PATTERNS,
    "envs": (
        *("*", "HF_*", "EPOCHS", "*_PROXY", "TOKEN", "LD_*", "my.odd-name", "RUN_ID", "DHCORE_*", "kaggle", "DEBUG"),
        *("PATH", "*PATH", "PYTHON*"),
    ),
    "node_selector": ("*", "pool", "disktype", "gpu.example.com/*", "*kubernetes.io/*", "metadata.name", "p*"),
    "secrets": ("*", "TOKEN", "k*", "hf.*", "db-password", "LD_*", "*PATH"),
    "volumes.claim_name": ("legacy", "legacy*", "*", "speech-*"),
    "affinity.namespaces": ("speech", "kube-*", "*", "vision"),
    "volumes.type": ("*", "empty_dir", "persistent_volume_claim", "e*", "image", "shared_volume", "config_map"),
}


class PolicyDraws:
    """Draws policies; `strictness` is the share of fields with a rule."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws

    def draw_policy(self) -> dict[str, Any]:
        draws = self.draws
        strictness = draws.pick(0.0, 0.03, 0.06, 0.1, 0.2)
        wide = self._draw_rules(strictness)
        if draws.chance(0.15):
            # Variables are set in several ways (`envs`, secrets, profiles), so they are ruled more often than the rest.
            wide["envs"] = self.draw_rule("envs") or {"locked": True}
        if draws.chance(0.2):
            wide["image"] = self.draw_rule("image") or {"allowed": draws.sample(words.IMAGE_PATTERNS, 5)}
        elif draws.chance(0.05):
            wide["image"] = {"denied": draws.sample(words.ADDRESS_PATTERNS, 1)}
        narrowed = [project for project in words.PROJECTS if draws.chance(0.4)]
        scopes = {project: self._draw_rules(strictness) for project in narrowed}
        for narrow in scopes.values():
            unlock_sides(wide, narrow)
        # Only now: the locks of a project can take one from the platform.
        policy = self._finish_scope(wide)
        if scopes:
            policy["projects"] = {project: self._finish_scope(narrow) for project, narrow in scopes.items()}
        return policy

    def draw_rule(self, field: str) -> dict[str, Any]:
        """A rule of one field; may be empty."""
        return _RULES[field](self)

    def _draw_rules(self, strictness: float) -> dict[str, Any]:
        rules = {name: draw(self) for name, draw in _RULES.items() if self.draws.chance(strictness)}
        rules = {name: rule for name, rule in rules.items() if rule}
        unlock_sides(rules, rules)
        return rules

    def _finish_scope(self, rules: dict[str, Any]) -> dict[str, Any]:
        scope = _nest(rules) if self.draws.chance(0.3) else dict(rules)
        if self.draws.chance(0.5):
            scope["platform"] = self._draw_platform()
        return scope

    def _draw_platform(self) -> dict[str, Any]:
        draws = self.draws
        table: dict[str, Sequence[Any]] = {
            "pod_security": ("restricted", "baseline"),
            "mem_tolerance": (1, 1.1, "1.25", 2, 10),
            "gpu_resources": ("nvidia.com/gpu", ["amd.com/gpu"], ["amd.com/gpu", "nvidia.com/gpu"]),
            "disk_medium": ("ephemeral", "empty_dir"),
            "image_pull_secrets": (["registry-a"], ["registry-a", "registry-b"], []),
            "python_images": ({"PYTHON3_11": "ghcr.io/acme/python:3.11"}, {"PYTHON3_13": "python:3.13"}),
        }
        return draws.pairs(table, least=1, most=3)

    def draw_figure(self, name: str) -> dict[str, Any]:
        draws = self.draws
        low, middle, high = draws.ladder(_FIGURES[name], 3)
        rule: dict[str, Any] = {}
        if draws.chance(0.5):
            rule["max"] = high
        if draws.chance(0.2):
            rule["min"] = low
        if draws.chance(0.5):
            rule["default"] = middle
        if draws.chance(0.15):
            rule["options"] = list(dict.fromkeys([middle, *draws.sample(list(_FIGURES[name]), 4)]))
        return self._draw_force(rule, name)

    def draw_name(self, name: str) -> dict[str, Any]:
        draws = self.draws
        default, *others = draws.sample(_NAMES[name], draws.number(1, 3))
        rule: dict[str, Any] = {"default": default} if draws.chance(0.4) else {}
        if draws.chance(0.25):
            rule["options"] = [default, *others]
        return self._draw_force(self._draw_lists(rule, name, _PATTERNS.get(name, ("*", *_NAMES[name]))), name)

    def draw_map(self, name: str, table: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
        draws = self.draws
        rule: dict[str, Any] = {"default": draws.pairs(table, most=2)} if draws.chance(0.5) else {}
        rule = self._draw_force(self._draw_lists(rule, name, _PATTERNS[name]), name)
        if rule.get("required"):
            rule["required"] = draws.pick(True, draws.sample(list(table), 1))
        return rule

    def draw_tolerations(self) -> dict[str, Any]:
        draws = self.draws
        rule: dict[str, Any] = {}
        if draws.chance(0.4):
            rule["default"] = respell(draws, draws.some(lambda: draw_toleration(draws, is_sly=True), least=1, most=2))
        if draws.chance(0.4):
            rule["allowed"] = draws.some(self._draw_matcher, least=1)
        if draws.chance(0.4):
            rule["denied"] = draws.some(self._draw_matcher, least=1, most=2)
        return rule | ({"locked": True} if draws.chance(0.15) else {})

    def _draw_matcher(self) -> dict[str, str]:
        draws = self.draws
        matcher = {"key": draws.pick("spot", "gpu", "*", "", "team.*", *words.TAINT_KEYS[3:6], "s*")}
        if draws.chance(0.3):
            matcher["effect"] = draws.pick("NoSchedule", "No*", "*", "NoExecute")
        if draws.chance(0.2):
            matcher["value"] = draws.pick("a", "*", "", "t*")
        if draws.chance(0.1):
            matcher["operator"] = draws.pick("Exists", "Equal", "*")
        return matcher

    def draw_affinity(self) -> dict[str, Any]:
        rule: dict[str, Any] = {"default": draw_affinity(self.draws)} if self.draws.chance(0.6) else {}
        return rule | ({"locked": True} if self.draws.chance(0.3) else {})

    def draw_lists(self, name: str) -> dict[str, Any]:
        return self._draw_lists({}, name, _PATTERNS[name])

    def _draw_lists(self, rule: dict[str, Any], name: str, patterns: Sequence[str]) -> dict[str, Any]:
        draws = self.draws
        if draws.chance(0.35):
            rule["allowed"] = draws.sample(patterns, draws.number(2, 5))
        if draws.chance(0.3) and name != "affinity.namespaces":
            rule["denied"] = draws.sample(patterns[1:], draws.number(1, 2))
        return rule

    def _draw_force(self, rule: dict[str, Any], name: str) -> dict[str, Any]:
        if self.draws.chance(0.12):
            rule["locked"] = True
        if self.draws.chance(0.03) and not name.startswith("volumes.") and name != "resources.disk.storage_class":
            rule["required"] = True
        return rule


def unlock_sides(wide: dict[str, Any], narrow: dict[str, Any]) -> None:
    """Remove locks of an amount and its sides that contradict each other: reading refuses such a policy."""
    for name in ("cpu", "mem", "ephemeral-storage"):
        whole, *sides = (f"resources.{name}{side}" for side in ("", ".requests", ".limits"))
        if any(scope.get(whole, {}).get("locked") for scope in (wide, narrow)):
            _unlock(sides, wide, narrow)
        request, limit = ([scope[side] for scope in (wide, narrow) if side in scope] for side in sides)
        if any(rule.get("locked") for rule in request) and any(rule.get("locked") for rule in limit):
            most, least = (
                [Quantity.parse(rule["default"]) for rule in rules if "default" in rule] for rules in (request, limit)
            )
            if most and least and max(most) > min(least):
                _unlock(sides[1:], wide, narrow)


def _unlock(fields: list[str], *scopes: dict[str, Any]) -> None:
    for scope in scopes:
        for field in fields:
            scope.get(field, {}).pop("locked", None)


def _nest(rules: dict[str, Any]) -> dict[str, Any]:
    """The same rules, with dotted names as nested mappings."""
    nested: dict[str, Any] = {}
    for name, rule in rules.items():
        place = nested
        *parents, last = name.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = {**place.get(last, {}), **rule}
    return nested


_RULES: dict[str, Callable[[PolicyDraws], dict[str, Any]]] = {
    **{name: lambda draws, name=name: draws.draw_figure(name) for name in _FIGURES},  # type: ignore[misc]
    **{name: lambda draws, name=name: draws.draw_name(name) for name in _NAMES},  # type: ignore[misc]
    **{
        name: lambda draws, name=name: draws.draw_lists(name)  # type: ignore[misc]
        for name in ("secrets", "volumes.claim_name", "affinity.namespaces", "volumes.type")
    },
    "node_selector": lambda draws: draws.draw_map("node_selector", words.NODE_LABELS),
    "envs": lambda draws: draws.draw_map("envs", words.ENVS),
    "tolerations": lambda draws: draws.draw_tolerations(),
    "affinity": lambda draws: draws.draw_affinity(),
}
FIELDS: tuple[str, ...] = tuple(_RULES)
