"""Draws requests: plain ones, sly ones that look harmless, and hostile ones."""

from collections.abc import Callable
from typing import Any, Literal

from tests.adversary import words
from tests.adversary.draws import Draws
from tests.adversary.placements import (
    draw_affinity,
    draw_bad_affinity,
    draw_bad_toleration,
    draw_toleration,
    respell,
    spell_camel,
)
from tests.adversary.user_volumes import draw_secret, draw_sly_volume, draw_volume

Mood = Literal["plain", "sly", "hostile"]

_WEIGHTS = {
    "resources": 5,
    "node_selector": 2,
    "tolerations": 2,
    "affinity": 2,
    "runtime_class": 1,
    "priority_class": 1,
    "volumes": 3,
    "secrets": 2,
    "envs": 3,
    "fs_group": 1,
    "run_as_user": 1,
    "run_as_group": 1,
    "command": 1,
    "args": 1,
    "working_dir": 1,
    "image_pull_policy": 1,
    "replicas": 1,
    "service_ports": 1,
    "service_type": 1,
    "service_name": 1,
    "readiness_path": 1,
    "backoff_limit": 1,
    "disruptions": 1,
    "timeout": 1,
    "pending_timeout": 1,
    "ttl": 1,
    "grace_period": 1,
    "parameters": 1,
    "inputs": 1,
    "init_parameters": 1,
    "python_version": 1,
    "source": 1,
    "requirements": 1,
}
_CHOICES = tuple(name for name, weight in _WEIGHTS.items() for _ in range(weight))
FIELDS: tuple[str, ...] = tuple(_WEIGHTS)


class UserDraws:
    """Draws the fields of runs, tasks and functions."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws

    def draw_layer(self, mood: Mood, *, most: int, has_image: bool) -> dict[str, Any]:
        """One layer: a run's, a task's or a function's fields."""
        draws = self.draws
        names = dict.fromkeys(draws.pick_of(_CHOICES) for _ in range(draws.number(0, most)))
        layer: dict[str, Any] = {"image": self.draw_image(mood)} if has_image else {}
        if draws.chance(0.45 if mood == "plain" else 0.3):
            layer["profile"] = self.draw_profile(mood)
        layer |= {name: self.draw_field(name, mood) for name in names}
        if mood != "plain" and draws.chance(0.2):
            layer = {spell_camel(name) if draws.chance() else name: value for name, value in layer.items()}
        return layer

    def draw_field(self, name: str, mood: Mood) -> Any:
        plain, sly, odd = _DRAWERS[name]
        chance = self.draws.chance_of()
        if mood == "plain" or chance > 0.5:
            return plain(self)
        if mood == "sly" or chance > 0.2:
            return sly(self)
        return odd(self)

    def draw_image(self, mood: Mood) -> Any:
        draws = self.draws
        if mood == "hostile" and draws.chance(0.1):
            return draws.pick_of(words.ODD_IMAGES)
        if mood == "plain" or not draws.chance(0.4):
            return draws.pick_of(words.IMAGES)
        return draws.pick_of(words.ILLEGAL_IMAGES if draws.chance(0.1) else words.SLY_IMAGES)

    def draw_profile(self, mood: Mood) -> Any:
        is_odd = mood == "hostile" and self.draws.chance(0.3)
        return self.draws.pick_of(words.ODD_PROFILES) if is_odd else self.draws.pick_of(words.PROFILES)

    def draw_resources(self) -> dict[str, Any]:
        draws = self.draws
        table = {"cpu": words.CPUS, "mem": words.MEMORIES, "gpu": words.GPUS, "disk": words.SIZES}
        names = draws.sample(("cpu", "mem", "cpu", "mem", "gpu", "disk"), draws.number(1, 3))
        return {name: self._draw_sides(table[name], is_one=name in ("gpu", "disk")) for name in names}

    def _draw_sides(self, steps: tuple[Any, ...], *, is_one: bool) -> Any:
        low, high = self.draws.ladder(steps, 2)
        return self.draws.pick(
            high,
            high,
            {"requests": high},
            {"limits": high},
            {"requests": high if is_one else low, "limits": high},
        )

    def draw_sly_resources(self) -> dict[str, Any]:
        draws = self.draws
        resources = self.draw_resources()
        amount = draws.pick_of(words.ODD_AMOUNTS[:38])
        resources[draws.pick("cpu", "mem", "gpu", "disk")] = draws.pick(
            amount, {"limits": amount}, {"requests": amount}, {"requests": None, "limits": amount}
        )
        if draws.chance(0.2):
            resources["limits"] = {draws.pick("cpu", "memory", "mem", "gpu", "disk"): amount}
        return resources

    def draw_odd_resources(self) -> Any:
        draws = self.draws
        amount = draws.pick_of(words.ODD_AMOUNTS)
        return draws.pick(
            {draws.pick("cpu", "mem", "gpu", "disk"): amount},
            {"cpu": {"requests": amount, "limits": draws.pick_of(words.ODD_AMOUNTS)}},
            {"mem": {"requests": "2Gi", "limits": "1Gi"}},
            {"requests": {"nvidia.com/gpu": 1}},
            {"limits": {"ephemeral-storage": "1Gi"}, "cpu": 1},
            {"nvidia.com/gpu": 1},
            {"gpu": {"requests": 1, "limits": 2}},
            {"mem": "1Gi", "requests": {"memory": "2Gi"}},
            {draws.pick_of(words.STRANGE_KEYS): 1},
            draws.pick_of(words.JUNK),
        )

    def draw_pairs(self, table: dict[str, tuple[Any, ...]], key: str) -> Any:
        pairs = self.draws.pairs(table, least=1, most=3)
        return [{key: name, "value": value} for name, value in pairs.items()] if self.draws.chance() else pairs

    def draw_odd_pairs(self, names: tuple[str, ...], values: tuple[Any, ...], key: str) -> Any:
        name, value = self.draws.pick_of(names), self.draws.pick_of(values)
        return self.draws.pick(
            {name: value},
            [{key: name, "value": value}],
            [{key: name, "value": "a"}, {key: name, "value": "b"}],
            [{key: name}],
            [{key: name, "value": "a", "valueFrom": {"secretKeyRef": {"name": "speech-secret", "key": "x"}}}],
            {name: "a"},
            self.draws.pick_of(words.JUNK),
        )

    def draw_ports(self) -> list[Any]:
        numbers = self.draws.sample((80, 443, 8080, 9000, 65535), self.draws.number(1, 3))
        return [
            number if self.draws.chance() else {"port": number, "target_port": 8080, "name": f"p{number}"}
            for number in numbers
        ]


def _one(plain: tuple[Any, ...], odd: tuple[Any, ...]) -> tuple[Callable[[UserDraws], Any], ...]:
    def draw(user: UserDraws) -> Any:
        return user.draws.pick_of(plain)

    def draw_odd(user: UserDraws) -> Any:
        return user.draws.pick_of(odd)

    return draw, draw, draw_odd


_CODE: tuple[Any, ...] = ({"source": "main.py", "handler": "f"}, {"base64": "cHJpbnQoMSk="}, {})
_VALUES: tuple[Any, ...] = ({"x": 41}, {"a": {"b": [1, None, 2.5]}}, {"__proto__": {"admin": True}}, {})
_COMMANDS: tuple[Any, ...] = ("python", ["python", "train.py"], ["sh", "-c", "id; cat /etc/passwd"], [], ["a", 1, True])

_DRAWERS: dict[str, tuple[Callable[[UserDraws], Any], ...]] = {
    "resources": (
        lambda user: user.draw_resources(),
        lambda user: user.draw_sly_resources(),
        lambda user: user.draw_odd_resources(),
    ),
    "node_selector": (
        lambda user: user.draw_pairs(words.NODE_LABELS, "key"),
        lambda user: {user.draws.pick_of(words.ODD_LABEL_KEYS): "a"},
        lambda user: user.draw_odd_pairs(words.ODD_LABEL_KEYS, words.ODD_LABEL_VALUES, "key"),
    ),
    "tolerations": (
        lambda user: respell(user.draws, user.draws.some(lambda: draw_toleration(user.draws), least=1)),
        lambda user: respell(user.draws, user.draws.some(lambda: draw_toleration(user.draws, is_sly=True), least=1)),
        lambda user: [draw_toleration(user.draws), draw_bad_toleration(user.draws)],
    ),
    "affinity": (
        lambda user: respell(user.draws, draw_affinity(user.draws)),
        lambda user: respell(user.draws, draw_affinity(user.draws, is_sly=True)),
        lambda user: draw_bad_affinity(user.draws),
    ),
    "volumes": (
        lambda user: draw_apart(user.draws, draw_volume, most=2),
        lambda user: user.draws.some(lambda: draw_sly_volume(user.draws, is_odd=False), least=1, most=2),
        lambda user: user.draws.some(lambda: draw_sly_volume(user.draws, is_odd=True), least=1, most=2),
    ),
    "secrets": (
        lambda user: user.draws.some(lambda: draw_secret(user.draws), least=1, most=1),
        lambda user: user.draws.sample(words.SECRETS, user.draws.number(1, 3)),
        lambda user: [user.draws.pick_of(words.ODD_SECRETS)],
    ),
    "envs": (
        lambda user: user.draw_pairs(words.ENVS, "name"),
        lambda user: {user.draws.pick_of(words.ODD_ENV_NAMES): "a", **user.draws.pairs(words.ENVS)},
        lambda user: user.draw_odd_pairs(words.ODD_ENV_NAMES, words.JUNK, "name"),
    ),
    "runtime_class": _one(words.RUNTIME_CLASSES, (*words.JUNK, "Nvidia", "nvidia/x", "x" * 254)),
    "priority_class": _one(words.PRIORITY_CLASSES, (*words.JUNK, "System-Node-Critical")),
    "command": _one(_COMMANDS, (*words.JUNK, [[]], [None], [{"a": 1}], "a" * 40000)),
    "args": _one((["--epochs", 3], ["a\nb", "ü", ""], [], ["$(RUN_ID)"]), (*words.JUNK, "text", [None], ["a"] * 300)),
    "working_dir": _one(("/app", "/", "/a b/ü"), (*words.JUNK, "app", "../x", "/a\nb")),
    "image_pull_policy": _one(words.PULL_POLICIES, (*words.JUNK, "always", "ALWAYS", "if_not_present")),
    "disruptions": _one(("ignore", "count"), (*words.JUNK, "Ignore", "retry")),
    "service_ports": (
        lambda user: user.draw_ports(),
        lambda user: user.draw_ports(),
        lambda user: (
            [user.draws.pick(0, -1, 65536, "80", "http", {"port": 80, "nodePort": 22}, {"port": None}, 80.0)] * 2
        ),
    ),
    "service_type": _one(words.SERVICE_TYPES, (*words.JUNK, "loadbalancer", "LoadBalancer ", "None", "Headless")),
    "service_name": _one(("main", "api-v2"), (*words.JUNK, "1main", "Main", "a.b", "x" * 64, "kubernetes.default")),
    "readiness_path": _one(("/healthz", "/ready?x=1"), (*words.JUNK, "healthz", "/a b", "http://evil/x", "/ü")),
    "python_version": _one(("PYTHON3_11", "PYTHON3_13"), (*words.JUNK, "python3_11", "PYTHON3_9", "3.11")),
    "source": _one(_CODE, words.JUNK),
    "requirements": _one((["numpy==2"], []), (*words.JUNK, [None], ["a\nb"])),
    **{name: _one(_VALUES, words.JUNK) for name in ("parameters", "inputs", "init_parameters")},
    **{name: _one(words.IDS, (*words.ODD_IDS, *words.JUNK)) for name in ("fs_group", "run_as_user", "run_as_group")},
    **{name: _one(words.COUNTS, (*words.ODD_COUNTS, *words.JUNK)) for name in ("replicas", "backoff_limit")},
    **{
        name: _one(words.DURATIONS, (*words.ODD_DURATIONS, *words.JUNK))
        for name in ("timeout", "pending_timeout", "ttl", "grace_period")
    },
}


def draw_apart(draws: Draws, draw: Callable[[Draws], dict[str, Any]], *, most: int) -> list[dict[str, Any]]:
    """Some volumes whose names and paths differ."""
    drawn = draws.some(lambda: draw(draws), least=1, most=most)
    apart = {volume["name"]: volume for volume in drawn}
    paths = {volume.get("mount_path", volume.get("mountPath")): volume for volume in apart.values()}
    return list(paths.values())
