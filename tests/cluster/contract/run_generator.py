"""Legal runs by the thousand: every field, every form, names as long as they may be. Each must become objects."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.manifests.identity import RunIdentity
from runyard.spec.config_maps import ConfigMap
from runyard.spec.policy import read_policy
from runyard.spec.profile_documents import read_profiles
from runyard.spec.run_fields import Action, read_run_fields
from tests.adversary import words
from tests.adversary.draws import Draws
from tests.adversary.placements import draw_affinity, draw_spread, draw_toleration, respell

SERVICE_ACCOUNTS = ("trainer", "robot.x")
PRIORITY_CLASSES = ("low", "c" * 253)
RUNTIME_CLASSES = ("nvidia", "kata.fc")
SECRETS = {"TOKEN": "t0ken", "kaggle": '{"key": "ü"}', "hf.token": "", "_x-1": "a\nb", "S" * 253: "long"}
POLICY: dict[str, Any] = {
    "service_type": {"allowed": ["*", "LoadBalancer"]},
    "affinity.namespaces": {"allowed": ["*"]},
    "tolerations": {"allowed": [{"key": "*"}, {"key": ""}, *({"key": key} for key in words.TAINT_KEYS)]},
    "volumes.claim_name": {"allowed": ["*"]},
}
_LONG_LABEL, _LONG_NAME = "L" + "x._-" * 15 + "y9", "a" + ".b-c0" * 50
_LABEL_KEYS = ("pool", "gpu.example.com/model", "A_b.c", _LONG_LABEL, f"{_LONG_NAME}/{_LONG_LABEL}", "1")
_LABEL_VALUES: tuple[Any, ...] = ("", "gpu", _LONG_LABEL, True, 42, 1.5)
_IDS = ("r1", "0", "-", "a" * 40, "a" * 41, "x" * 253, "Run_1+a.b", "+._-+", "run-r1", "UPPER", "a--b", "1" * 253)
_CPUS: tuple[Any, ...] = (0, 1, "8", "500m", "0.5", ".5", "1.", "1e3", "2E2", "1n", "100u", 0.1, "1k", "2147483647")
_SIZES: tuple[Any, ...] = (
    *("1", 1024, "1.5Gi", "32Gi", "32G", "0.5Ti", "1e9", "1E9", "123456789", "1Ki", "500Pi", "100M", "7k", "129e6"),
    *("1.000000001Gi", "0.1Mi", 2.5e9),
)
_ODD_SIZES: tuple[Any, ...] = ("1m", "1500m", "1n", "0.0001", "1e-3")
_DURATIONS: tuple[Any, ...] = (1, "90s", "15m", "2h", "7d", "1h30m", "10w", "3650d", 3600)
_USERS: tuple[Any, ...] = (1, "1000", 65534, 2**31 - 1, "2147483647", 1000.0)
_TEXTS = ("", "plain", "ü 漢字 🚀 \u202e", "a\nb\tc\r\n", "$(HOME) $$ `x` \\", "x" * 4096, "'\"{}[]: #", "\u0085\u2028")
_IMAGES = (
    *("busybox:1.36", "busybox", "docker.io/library/python:3.11-slim", "registry.example.com:5000/a/b/c:" + "t" * 128),
    *("ghcr.io/acme/train@sha256:" + "a" * 64, "localhost/x:1", "ghcr.io/acme/train:2@sha256:" + "b" * 64),
)
_PATHS = ("/data", "/work/a", "/opt/app/x.y", "/d/" + "p" * 200, "/ü", "/with space", "/shared/x", "/var/lib/x", "/a$b")


@dataclass(frozen=True, slots=True)
class LegalRun:
    """A run that must be accepted, and where it goes."""

    request: Request
    admin_rules: AdminRules
    inventory: ProjectInventory
    identity: RunIdentity
    raw: dict[str, Any]


class RunGenerator:
    """Draws from a seed: the same seed, the same runs."""

    def __init__(self, seed: int, *, has_image_volumes: bool) -> None:
        self._draws = Draws(f"legal runs {seed}")
        self._has_image_volumes = has_image_volumes
        self._count = 0

    def draw(self, namespace: str) -> LegalRun:
        draws = self._draws
        self._count += 1
        action = draws.pick("job", "job", "serve", "deploy")
        profile_id = draws.pick("p", "1xa100", "P+" + "q" * 250)
        file = self._draw_profile(profile_id) if draws.chance(0.4) else []
        run = self._draw_run(action)
        if file:
            run["profile"] = profile_id
        policy = {**POLICY, "platform": self._draw_platform()}
        profiles = read_profiles(file)[0] if file else []
        can_be_python = "command" in run and action != "deploy"
        kind = "python" if can_be_python and draws.chance(0.2) else "container"
        request = Request(
            project=draws.pick("vision", "p" * 38, "0-9"),
            action=cast("Action", action),
            kind=kind,
            run=read_run_fields(run),
        )
        identity = RunIdentity(
            run_id=f"{draws.pick_of(_IDS)}"[: 253 - 5] + (f"-{self._count}" if draws.chance() else ""),
            run_uid=f"{self._count:032x}",
            project=request.project,
            namespace=namespace,
            user=draws.pick(None, "ada", "ada@example.com", "ü" * 100),
            function=draws.pick(None, "train", "F" * 253),
            run_name=draws.pick(None, "nightly ü"),
        )
        inventory = ProjectInventory(
            secrets=frozenset(SECRETS),
            volumes={"models": "run-old.models"},
            claims=frozenset({"legacy", "c" * 253}),
            config_maps={"settings": ConfigMap(name="settings", version="v1", data={"a.toml": "x = 1\n"})},
        )
        admin_rules = AdminRules(profiles={profile.id: profile for profile in profiles}, policy=read_policy(policy))
        return LegalRun(request, admin_rules, inventory, identity, {"run": run, "file": file, "policy": policy})

    def _draw_run(self, action: str) -> dict[str, Any]:
        draws = self._draws
        served = ("service_ports", "service_type", "service_name", "readiness_path") if action == "serve" else ()
        timed = ("backoff_limit", "timeout", "ttl") if action == "job" else ("replicas",)
        names = (*_FIELDS, *served, *timed)
        chosen = draws.sample(names, draws.number(1, 9))
        return {"image": draws.pick_of(_IMAGES), **{name: _DRAWERS[name](self) for name in chosen}}

    def _draw_platform(self) -> dict[str, Any]:
        table: dict[str, Any] = {
            "mem_tolerance": (1, 1.1, "1.5", 10),
            "gpu_resources": ("nvidia.com/gpu", ["amd.com/gpu", "nvidia.com/gpu"]),
            "disk_medium": ("ephemeral", "empty_dir"),
            "image_pull_secrets": (["registry-a", "registry-b"],),
        }
        return self._draws.pairs(table, least=0, most=3)

    def draw_resources(self) -> dict[str, Any]:
        draws = self._draws
        sizes = _SIZES if draws.chance(0.8) else _ODD_SIZES
        amounts: dict[str, Any] = {
            "cpu": draws.pick_of(_CPUS),
            "mem": draws.pick_of(sizes),
            "gpu": draws.pick(0, 1, "2", "8", 16),
            "disk": draws.pick_of(sizes),
        }
        return {name: self._draw_form(amounts[name]) for name in draws.sample(tuple(amounts), draws.number(1, 4))}

    def _draw_form(self, amount: Any) -> Any:
        asked = (amount, {"requests": amount})
        # A limit of 0 is none at all, and refused.
        limited = ({"limits": amount}, {"requests": amount, "limits": amount}) if amount else ()
        return self._draws.pick_of((*asked, *limited))

    def draw_volumes(self) -> list[dict[str, Any]]:
        draws = self._draws
        count = draws.number(1, 4)
        names = draws.sample(("data", "v" * 63, "0", "a-b", "models"), count)
        paths = draws.sample(_PATHS, count)
        return [
            _spell(draws, self._draw_volume(name, path)) for name, path in zip(names, paths, strict=True)
        ] + self._draw_shared_memory()

    def _draw_shared_memory(self) -> list[dict[str, Any]]:
        volume = {"volume_type": "empty_dir", "name": "shm", "mount_path": "/dev/shm", "spec": {"size_limit": "1Gi"}}
        return [volume] if self._draws.chance(0.2) else []

    def _draw_volume(self, name: str, path: str) -> dict[str, Any]:
        draws = self._draws
        kinds = ["persistent_volume_claim", "config_map", "empty_dir", "ephemeral", "shared_volume"]
        kind = draws.pick_of([*kinds, *(["image"] if self._has_image_volumes else [])])
        size = {"size": draws.pick_of(_SIZES)} if draws.chance(0.7) else {}
        storage = {"storage_class": draws.pick("fast", "gold.x", "c" * 253)} if draws.chance(0.4) else {}
        lifetime = {"lifetime": draws.pick("run", "keep", "7d")} if draws.chance(0.4) else {}
        specs: dict[str, Callable[[], dict[str, Any]]] = {
            "persistent_volume_claim": lambda: draws.pick(
                {**size, **storage, **lifetime}, {"claim_name": draws.pick("legacy", "c" * 253)}
            ),
            "config_map": lambda: draws.pick({"name": "settings"}, {"data": self._draw_data()}),
            "empty_dir": lambda: size | ({"medium": "Memory"} if draws.chance() else {}),
            "ephemeral": lambda: {**size, **storage},
            "shared_volume": lambda: {"claim_name": "models"},
            "image": lambda: {"image": draws.pick_of(_IMAGES)},
        }
        sub_path = {"sub_path": draws.pick("a", "a/b c", "ü")} if draws.chance(0.2) else {}
        return {"volume_type": kind, "name": name, "mount_path": path, "spec": {**specs[kind](), **sub_path}}

    def _draw_data(self) -> dict[str, Any]:
        texts = ("a: 1\n", "ü", "", "x" * 50_000, 5, 1.5, "\ttab\r\n")
        names = self._draws.sample(("a.yaml", "_x", "-", "K" * 253, "0", ".hidden"), self._draws.number(1, 4))
        return {name: self._draws.pick_of(texts) for name in names}

    def draw_secrets(self) -> list[Any]:
        uses = self._draws.sample(tuple(SECRETS), self._draws.number(1, 4))
        return [
            name if self._draws.chance() else {"name": name, "mount_path": f"/secrets/{index}.json"}
            for index, name in enumerate(uses)
        ]

    def draw_envs(self) -> Any:
        names = self._draws.sample(("A", "my.odd-name", "_", "E" * 253, "http_proxy"), self._draws.number(1, 4))
        values = (*_TEXTS, 3, 0.5, True, False)
        envs = {name: self._draws.pick_of(values) for name in names}
        return [{"name": key, "value": value} for key, value in envs.items()] if self._draws.chance() else envs

    def draw_labels(self, key: str) -> Any:
        keys = self._draws.sample(_LABEL_KEYS, self._draws.number(1, 4))
        labels = {name: self._draws.pick_of(_LABEL_VALUES) for name in keys}
        return [{key: name, "value": value} for name, value in labels.items()] if self._draws.chance() else labels

    def draw_ports(self) -> list[Any]:
        draws = self._draws
        numbers = draws.sample(range(1, 65536), draws.pick(1, 2, 5, 32))
        return [
            number
            if draws.chance()
            else {"port": number, "target_port": draws.number(1, 65535), "name": f"p{index}-abcdefghij"}
            for index, number in enumerate(numbers)
        ]

    def _draw_profile(self, profile_id: str) -> list[dict[str, Any]]:
        draws = self._draws
        table: dict[str, Callable[[], Any]] = {
            "resources": lambda: draws.pick(
                {"requests": {"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 1}},
                {"limits": {"example.com/nic": "2", "ephemeral-storage": "1Gi"}},
                {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}},
                {"cpu": {"requests": "1", "limits": "2"}},
            ),
            "labels": lambda: self.draw_labels("name"),
            "image_pull_secrets": lambda: ["registry-a", {"name": "c" * 253}],
            "scheduler_name": lambda: draws.pick("other", "s.x"),
            "service_account": lambda: draws.pick_of(SERVICE_ACCOUNTS),
            "host_aliases": lambda: [{"ip": draws.pick("10.1.2.3", "::1"), "hostnames": ["store", "a.b-c"]}],
            "topology_spread": lambda: respell(draws, draw_spread(draws)),
            "node_selector": lambda: self.draw_labels("key"),
            "envs": self.draw_envs,
            "run_as_user": lambda: draws.pick_of(_USERS),
        }
        names = draws.sample(tuple(table), draws.number(1, 5))
        profile = {"id": profile_id, "description": "ü", **{name: table[name]() for name in names}}
        pod = {"containers": [{"name": "x", "env": [{"name": "BASE", "value": "1"}]}], "nodeSelector": {"base": "1"}}
        bases = [
            {"apiVersion": "batch/v1", "kind": "Job", "spec": {"backoffLimit": 3, "template": {"spec": pod}}},
            {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2, "template": {"spec": pod}}},
            {
                "apiVersion": "v1",
                "kind": "Service",
                "spec": {"type": "NodePort", "ports": [{"port": 80, "targetPort": 81}]},
            },
        ]
        return [profile, *(bases if draws.chance(0.3) else [])]

    def pick_of(self, values: tuple[Any, ...]) -> Any:
        return self._draws.pick_of(values)

    def draw_tolerations(self) -> Any:
        draws = self._draws
        return respell(draws, draws.some(lambda: draw_toleration(draws, is_sly=True), least=1, most=4))

    def draw_affinity(self) -> Any:
        return respell(self._draws, draw_affinity(self._draws, is_sly=True))


def _spell(draws: Draws, volume: dict[str, Any]) -> dict[str, Any]:
    if draws.chance():
        return volume
    camel = {"volume_type": "volumeType", "mount_path": "mountPath", "size_limit": "sizeLimit", "sub_path": "subPath"}
    camel |= {"storage_class": "storageClass", "claim_name": "claimName"}
    spec = {camel.get(key, key): value for key, value in volume["spec"].items()}
    return {**{camel.get(key, key): value for key, value in volume.items()}, "spec": spec}


def _one(values: tuple[Any, ...]) -> Callable[[RunGenerator], Any]:
    return lambda generator: generator.pick_of(values)


_WORDS: tuple[Any, ...] = (["python", "train.py"], ["sh", "-c", "a\nb"], [*_TEXTS[1:]], ["a", 1, True, 0.5])
_DRAWERS: dict[str, Callable[[RunGenerator], Any]] = {
    "resources": RunGenerator.draw_resources,
    "volumes": RunGenerator.draw_volumes,
    "secrets": RunGenerator.draw_secrets,
    "envs": RunGenerator.draw_envs,
    "node_selector": lambda generator: generator.draw_labels("key"),
    "tolerations": RunGenerator.draw_tolerations,
    "affinity": RunGenerator.draw_affinity,
    "runtime_class": _one(RUNTIME_CLASSES),
    "priority_class": _one(PRIORITY_CLASSES),
    "command": _one(("program", *_WORDS)),
    "args": _one(_WORDS),
    "working_dir": _one(("/", "/app", "/a b/ü")),
    "image_pull_policy": _one(("Always", "IfNotPresent", "Never")),
    **{name: _one(_USERS) for name in ("run_as_user", "run_as_group", "fs_group")},
    **{name: _one(_DURATIONS) for name in ("timeout", "pending_timeout", "ttl", "grace_period")},
    "replicas": _one((0, 1, "2", 1000)),
    "backoff_limit": _one((0, 1, "6", 100)),
    "disruptions": _one(("ignore", "count")),
    "service_ports": RunGenerator.draw_ports,
    "service_type": _one(("ClusterIP", "NodePort", "LoadBalancer")),
    "service_name": _one(("main", "s" * 63, "a-1")),
    "readiness_path": _one(("/", "/healthz?full=1", "/" + "p" * 1000, "/%20")),
}
_FIELDS = tuple(
    name
    for name in _DRAWERS
    if name
    not in (
        "timeout",
        "ttl",
        "replicas",
        "backoff_limit",
        "service_ports",
        "service_type",
        "service_name",
        "readiness_path",
    )
)
