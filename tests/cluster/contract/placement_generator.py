"""Tolerations, affinities and spreads by the thousand, in camelCase: legal ones, and ones that are nearly so."""

import copy
import random
import re
from collections.abc import Iterator
from typing import Any

Field = str
"""`tolerations`, `affinity` or `topologySpreadConstraints`."""
FIELDS: tuple[Field, ...] = ("tolerations", "affinity", "topologySpreadConstraints")

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
KEYS = ("app", "tier", "example.com/role", "kubernetes.io/hostname", "A_b.c", "x" * 63, "1")
VALUES = ("", "web", "GPU-A100", "a.b_c", "42", "y" * 63)
NUMBERS = ("0", "7", "007", "9223372036854775807")
ODD_TEXTS = (
    *KEYS,
    *VALUES,
    *("in", "IN", "exists", "Exist", "Equal", "Gt", "Lt", "In", "noSchedule", "NoExecute", "Honor", "DoNotSchedule"),
    *(" ", "a b", "-a", "a-", "_a", "a_", ".a", "a.", "x" * 64, "a/b/c", "/a", "a/", "A/b", "a_b/c", "-a/b", "a..b/c"),
    *(
        "ä",
        "a\n",
        "a\t",
        "a\u0000",
        "*",
        "true",
        "null",
        "metadata.name",
        "metadata.namespace",
        "node-1",
        "Node",
        "n.o.d.e",
    ),
    *("a" * 254, f"{'a' * 253}/b", f"{'a' * 254}/b", f"b/{'a' * 63}", f"b/{'a' * 64}", "kube-system", "kube_system"),
)
ODD_NUMBERS = (0, -1, 1, 2, 99, 100, 101, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, -(2**63), 5.0, 1.5)
WORDS = {
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", ""),
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute", "NoAdmit", ""),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway", "Never", ""),
    "nodeAffinityPolicy": ("Honor", "Ignore", ""),
    "nodeTaintsPolicy": ("Honor", "Ignore", "honor"),
}
STRANGE_KEYS = ("key", "values", "weight", "labelSelector", "matchlabels", "matchExpression", "topologykey", "x", "")


class PlacementGenerator:
    """Draws from a seed: the same seed, the same questions."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def draw(self) -> tuple[Field, Any]:
        """A field and a value for it: some as they should be, most changed in one to three places; half stay legal."""
        field = self._random.choices(FIELDS, weights=(4, 8, 4))[0]
        while True:
            value = self._draw_legal(field)
            if self._chance(0.8):
                for _ in range(self._random.choice((1, 1, 1, 2, 3))):
                    self._change(value)
            if not any(iter_narrower(field, value)):
                return field, value

    def spell_differently(self, value: Any, *, parent: str = "") -> Any:
        """The same with some keys in snake_case; labels are nobody's to spell."""
        if isinstance(value, list):
            return [self.spell_differently(item, parent=parent) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            self._spell(key, parent=parent): self.spell_differently(item, parent=key) for key, item in value.items()
        }

    def _spell(self, key: str, *, parent: str) -> str:
        snake = re.sub("([A-Z])", lambda match: f"_{match[1].lower()}", key)
        is_schema = key in SCHEMA_KEYS and parent != "matchLabels"
        return snake if is_schema and self._random.random() < 0.5 else key

    def _draw_legal(self, field: Field) -> Any:
        if field == "tolerations":
            return self._some(self._draw_toleration, most=4)
        if field == "topologySpreadConstraints":
            return self._some(self._draw_constraint, most=2)
        return self._maybe_each(
            nodeAffinity=self._draw_node_affinity,
            podAffinity=self._draw_pod_affinity,
            podAntiAffinity=self._draw_pod_affinity,
        )

    def _draw_toleration(self) -> dict[str, Any]:
        operator = self._pick("Equal", "Exists", None)
        toleration: dict[str, Any] = {"operator": operator} if operator or self._chance() else {}
        if operator != "Exists" or self._chance():
            toleration["key"] = self._pick(*KEYS)
        if operator != "Exists" and self._chance(0.7):
            toleration["value"] = self._pick(*VALUES)
        if self._chance(0.8):
            toleration["effect"] = self._pick("NoSchedule", "PreferNoSchedule", "NoExecute")
        if toleration.get("effect") == "NoExecute" and self._chance():
            toleration["tolerationSeconds"] = self._pick(0, -5, 300, 2**63 - 1)
        return toleration

    def _draw_node_affinity(self) -> dict[str, Any]:
        return self._maybe_each(
            **{
                REQUIRED: lambda: {"nodeSelectorTerms": self._some(self._draw_node_term, least=1)},
                PREFERRED: lambda: self._some(
                    lambda: {"weight": self._pick(1, 50, 100), "preference": self._draw_node_term()}
                ),
            }
        )

    def _draw_node_term(self) -> dict[str, Any]:
        return self._maybe_each(
            matchExpressions=lambda: self._some(lambda: self._draw_requirement("Gt", "Lt")),
            matchFields=lambda: self._some(
                lambda: {
                    "key": "metadata.name",
                    "operator": self._pick("In", "NotIn"),
                    "values": [self._pick("a", "n.1")],
                }
            ),
        )

    def _draw_requirement(self, *more: str) -> dict[str, Any]:
        operator = self._pick("In", "NotIn", "Exists", "DoesNotExist", *more)
        requirement = {"key": self._pick(*KEYS), "operator": operator}
        if operator in ("In", "NotIn"):
            requirement["values"] = [self._pick(*VALUES) for _ in range(self._random.randint(1, 3))]
        elif operator in ("Gt", "Lt"):
            requirement["values"] = [self._pick(*NUMBERS)]
        elif self._chance(0.2):
            requirement["values"] = []
        return requirement

    def _draw_selector(self) -> dict[str, Any]:
        return self._maybe_each(
            matchLabels=lambda: {self._pick(*KEYS): self._pick(*VALUES) for _ in range(self._random.randint(0, 2))},
            matchExpressions=lambda: self._some(self._draw_requirement),
        )

    def _draw_pod_affinity(self) -> dict[str, Any]:
        return self._maybe_each(
            **{
                REQUIRED: lambda: self._some(self._draw_pod_term),
                PREFERRED: lambda: self._some(
                    lambda: {"weight": self._pick(1, 50, 100), "podAffinityTerm": self._draw_pod_term()}
                ),
            }
        )

    def _draw_pod_term(self) -> dict[str, Any]:
        term = self._maybe_each(
            labelSelector=self._draw_selector,
            namespaceSelector=self._draw_selector,
            namespaces=lambda: self._some(lambda: self._pick("default", "team-1", "9")),
        )
        term["topologyKey"] = self._pick(*KEYS)
        self._add_label_keys(term, "matchLabelKeys", "mismatchLabelKeys")
        return term

    def _draw_constraint(self) -> dict[str, Any]:
        action = self._pick("DoNotSchedule", "ScheduleAnyway")
        constraint: dict[str, Any] = {"maxSkew": self._pick(1, 5), "topologyKey": self._pick(*KEYS)}
        constraint["whenUnsatisfiable"] = action
        constraint |= self._maybe_each(
            labelSelector=self._draw_selector,
            nodeAffinityPolicy=lambda: self._pick("Honor", "Ignore"),
            nodeTaintsPolicy=lambda: self._pick("Honor", "Ignore"),
        )
        if action == "DoNotSchedule" and self._chance():
            constraint["minDomains"] = self._pick(1, 3)
        self._add_label_keys(constraint, "matchLabelKeys")
        return constraint

    def _add_label_keys(self, term: dict[str, Any], *names: str) -> None:
        """Mostly by the rules: only beside a selector, and of keys that it does not use."""
        if "labelSelector" not in term or self._chance(0.6):
            return
        selector = term["labelSelector"]
        used = {*selector.get("matchLabels", {}), *(item["key"] for item in selector.get("matchExpressions", ()))}
        free = [key for key in KEYS if key not in used]
        self._random.shuffle(free)
        for name in names:
            term[name] = [free.pop() for _ in range(self._random.randint(0, 2)) if free]

    def _change(self, value: Any) -> None:
        """One small change somewhere inside."""
        places = list(_iter_places(value))
        leaves = [place for place in places if not isinstance(place[0][place[1]], (dict, list))]
        if not places:
            return
        container, key, _ = self._random.choice(leaves if leaves and self._chance(0.75) else places)
        if isinstance(container, dict) and self._chance(0.3):
            self._add_what_may_not_fit(container)
        elif isinstance(container, dict) and self._chance(0.25):
            self._change_keys(container, key)
        else:
            container[key] = self._change_value(container[key], key)

    def _add_what_may_not_fit(self, container: dict[str, Any]) -> None:
        """A field whose worth depends on its neighbours."""
        if "nodeSelectorTerms" in container:
            container["nodeSelectorTerms"] = self._pick([], [{}], None)
        elif "weight" in container:
            container["weight"] = self._pick(True, 0, 1, 100, 101, "5", None)
        elif "whenUnsatisfiable" in container and self._chance():
            container[self._pick("minDomains", "maxSkew")] = self._pick(0, 1, 2**31 - 1, 2**31)
        elif "topologyKey" in container:
            name = self._pick("matchLabelKeys", "matchLabelKeys", "mismatchLabelKeys", "namespaces", "labelSelector")
            labels = [self._pick(*KEYS[:4]) for _ in range(self._random.randint(1, 3))]
            others = {"namespaces": [self._pick("a.b", "a", "A", "")], "labelSelector": self._draw_selector()}
            container[name] = others.get(name, labels)
        elif container.keys() & {"effect", "value"}:
            container["tolerationSeconds"] = self._pick(0, 1, 2**63, True)
        elif "operator" in container:
            container["values"] = self._pick([], ["web"], ["7"], ["a", "b"], ["a", "a"])

    def _change_keys(self, container: dict[str, Any], key: str) -> None:
        change = self._random.randrange(4)
        if change == 0:
            del container[key]
        elif change == 1:
            container[self._pick(*STRANGE_KEYS)] = self._pick(None, "a", 1, [], {})
        elif change == 2:
            container[key.swapcase() if self._chance() else f"{key}s"] = container.pop(key)
        else:
            container[key] = None

    def _change_value(self, old: Any, key: str | int) -> Any:
        if self._chance(0.1):
            return self._pick("a", 1, True, 2.0, ["a"], {}, {"a": "b"}, [], None if isinstance(key, str) else "")
        if isinstance(key, str) and key in WORDS:
            return self._pick(*WORDS[key])
        if isinstance(old, str):
            return self._pick(*(NUMBERS if self._chance(0.1) else ODD_TEXTS))
        if isinstance(old, int):
            return self._pick(*ODD_NUMBERS)
        if isinstance(old, list) and str(key).endswith("LabelKeys"):
            return [self._pick(*KEYS, "a/b/c") for _ in range(self._random.randint(0, 3))]
        if isinstance(old, list):
            return self._pick([], old[1:], [*old, *copy.deepcopy(old)], [*old, "web"], old[::-1])
        return self._pick({}, [], "a") if isinstance(old, dict) else old

    def _maybe_each(self, **draws: Any) -> dict[str, Any]:
        return {name: draw() for name, draw in draws.items() if self._chance(0.6)}

    def _some(self, draw: Any, *, least: int = 0, most: int = 2) -> list[Any]:
        return [draw() for _ in range(self._random.randint(least, most))]

    def _chance(self, share: float = 0.5) -> bool:
        return self._random.random() < share

    def _pick(self, *options: Any) -> Any:
        return self._random.choice(options)


SCHEMA_KEYS = frozenset(
    f"""nodeAffinity podAffinity podAntiAffinity {REQUIRED} {PREFERRED} nodeSelectorTerms matchExpressions matchFields
    podAffinityTerm labelSelector namespaceSelector topologyKey matchLabelKeys mismatchLabelKeys matchLabels
    tolerationSeconds maxSkew whenUnsatisfiable minDomains nodeAffinityPolicy nodeTaintsPolicy""".split()
)

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def iter_narrower(field: Field, value: Any) -> Iterator[str]:
    """Where Runyard refuses on purpose what the apiserver takes; each has a test of its own."""
    for container, key, parent in _iter_places(value):
        item = container[key]
        if item is None and (isinstance(container, list) or parent == "matchLabels"):
            yield "an empty item"
        if field == "topologySpreadConstraints" and key == "topologyKey" and item and not _is_key(item):
            yield "a topology key that no label can have"
    if field == "affinity" and isinstance(value, dict):
        yield from _iter_unusable(value.get("nodeAffinity"), is_preferred=False)


def _iter_unusable(value: Any, *, is_preferred: bool) -> Iterator[str]:
    """What the scheduler cannot use in a node affinity."""
    if isinstance(value, list):
        for item in value:
            yield from _iter_unusable(item, is_preferred=is_preferred)
    if not isinstance(value, dict):
        return
    texts = [item for item in value.get("values") or () if isinstance(item, str)] if _is_requirement(value) else []
    if value.get("operator") in ("Gt", "Lt") and any(not re.fullmatch("[0-9]{1,19}", text) for text in texts):
        yield "a comparison with what is no integer"
    if is_preferred and any(len(text) > 63 or not _LABEL_VALUE.fullmatch(text) for text in texts):
        yield "a preferred value that no label can have"
    for key, item in value.items():
        yield from _iter_unusable(item, is_preferred=is_preferred or key == PREFERRED)


def _is_requirement(value: dict[str, Any]) -> bool:
    return isinstance(value.get("values"), list)


def _is_key(item: Any) -> bool:
    return not isinstance(item, str) or item in KEYS


def _iter_places(value: Any, parent: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Every place in a tree: the container, the key or index in it, and the name of the field it belongs to."""
    if isinstance(value, dict):
        for key in list(value):
            yield value, key, parent
            yield from _iter_places(value[key], key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index, parent
            yield from _iter_places(item, parent)
