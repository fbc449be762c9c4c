"""Every clause of every ruled field, each in a policy that one run violates; without the clause the run is legal."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.adversary.cases import Case, World


def _volume(kind: str, name: str, **spec: str) -> dict[str, Any]:
    return {"volume_type": kind, "name": name, "mount_path": f"/{name}", "spec": spec}


_RUN: dict[str, Any] = {
    "image": "ghcr.io/acme/train:2",
    "resources": {
        "cpu": {"requests": 2, "limits": 4},
        "mem": {"requests": "2Gi", "limits": "4Gi"},
        "gpu": 2,
        "disk": "10Gi",
    },
    "volumes": [
        _volume("persistent_volume_claim", "data", size="5Gi", storage_class="fast"),
        _volume("ephemeral", "cache", size="5Gi", storage_class="fast"),
        _volume("empty_dir", "tmp", size_limit="5Gi"),
        _volume("persistent_volume_claim", "old", claim_name="legacy"),
    ],
    "node_selector": {"pool": "gpu"},
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "disktype", "operator": "Exists"}]}]
            }
        }
    },
    "envs": {"HF_HOME": "/data"},
    "secrets": ["TOKEN"],
    "profile": "plain",
    "runtime_class": "nvidia",
    "priority_class": "low",
    "image_pull_policy": "Always",
    "run_as_user": 2000,
    "run_as_group": 2000,
    "fs_group": 2000,
    "pending_timeout": "2h",
    "grace_period": "2h",
}
JOB = Case(run={**_RUN, "backoff_limit": 2, "timeout": "2h", "ttl": "2h"})
SERVICE = Case(action="serve", run={**_RUN, "replicas": 2, "service_type": "NodePort"})
BARE = {"job": Case(run={"image": "busybox:1.36"}), "serve": Case(action="serve", run={"image": "busybox:1.36"})}
SECRET_VARIABLE = Case(run={"image": "busybox:1.36", "secrets": ["TOKEN"]})
"""Without a mount path the secret sets a variable, and no other field does."""

_BASE: dict[str, Any] = {"volumes.claim_name": {"allowed": ["legacy"]}}
WORLD = World(policy=_BASE, profiles=[[{"id": "plain"}], [{"id": "other"}]], secrets={"TOKEN": "t"}, claims=["legacy"])

_FIGURES: Mapping[str, tuple[Any, Any]] = {
    **{f"resources.cpu{side}": (1, 8) for side in ("", ".requests", ".limits")},
    **{f"resources.mem{side}": ("1Gi", "8Gi") for side in ("", ".requests", ".limits")},
    "resources.gpu": (1, 4),
    "resources.disk": ("1Gi", "20Gi"),
    "volumes.size": ("1Gi", "20Gi"),
    "volumes.size_limit": ("1Gi", "20Gi"),
    **dict.fromkeys(("run_as_user", "run_as_group", "fs_group"), (1000, 3000)),
    **dict.fromkeys(("backoff_limit", "replicas"), (1, 3)),
    **dict.fromkeys(("timeout", "pending_timeout", "ttl", "grace_period"), ("1h", "3h")),
}
_NAMES: Mapping[str, tuple[str, str]] = {
    "volumes.storage_class": ("fast", "slow"),
    "runtime_class": ("nvidia", "gvisor"),
    "priority_class": ("low", "high"),
    "image": ("ghcr.io/acme/*", "python:3.11"),
    "image_pull_policy": ("Always", "Never"),
    "service_type": ("NodePort", "ClusterIP"),
    "profile": ("plain", "other"),
    "volumes.type": ("e*", "config_map"),
    "secrets": ("TOK*", "kaggle"),
    "node_selector": ("pool", "disktype*x"),
    "envs": ("HF_*", "EPOCHS"),
    "volumes.claim_name": ("leg*", "other"),
}
"""A pattern of what the run says, and another name."""
_WITHOUT_DEFAULT = frozenset({"volumes.type", "secrets", "volumes.claim_name"})
_MAPS: Mapping[str, Any] = {"node_selector": {"pool": "cpu"}, "envs": {"HF_HOME": "/other"}}
_ONLY_SERVED = frozenset({"replicas", "service_type"})


def iter_tightenings() -> Iterator[tuple[str, Case, World]]:
    """A name, the run, and the world whose policy the run violates."""
    for field, clause, rule in (*_iter_figures(), *_iter_names(), *_iter_placements()):
        case = SERVICE if field in _ONLY_SERVED else JOB
        yield f"{field} {clause}", case, _tighten(field, rule)
        yield f"{field} {clause} of the project", case, _tighten(field, rule, project=case.project)
    for field in (
        "resources.cpu",
        "resources.mem",
        "resources.disk",
        "node_selector",
        "runtime_class",
        "run_as_user",
        "timeout",
    ):
        yield f"{field} required", BARE["job"], _tighten(field, {"required": True})
    for clause, rule in (("locked", {"locked": True}), ("locked default", {"default": {"A": "1"}, "locked": True})):
        yield f"envs {clause} beside a secret", SECRET_VARIABLE, _tighten("envs", rule)
        yield f"envs {clause} of the project beside a secret", SECRET_VARIABLE, _tighten("envs", rule, project="vision")
    for field in ("node_selector", "envs"):
        yield f"{field} key required", BARE["serve"], _tighten(field, {"required": ["pool"]})


def _tighten(field: str, rule: Mapping[str, Any], *, project: str | None = None) -> World:
    rules: dict[str, Any] = {field: dict(rule)}
    if field == "volumes.claim_name" and project is None:
        rules = {field: {**_BASE[field], **rule}}
    policy: dict[str, Any] = {**_BASE, **rules} if project is None else {**_BASE, "projects": {project: rules}}
    return World(
        policy=policy, profiles=WORLD.profiles, secrets=WORLD.secrets, volumes=WORLD.volumes, claims=WORLD.claims
    )


def _iter_figures() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for field, (low, high) in _FIGURES.items():
        yield field, "max", {"max": low}
        yield field, "min", {"min": high}
        yield field, "options", {"options": [low, high]}
        yield field, "locked", {"locked": True}
        yield field, "locked default", {"default": high, "locked": True}


def _iter_names() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for field, (pattern, other) in _NAMES.items():
        yield field, "allowed", {"allowed": [other]}
        yield field, "denied", {"denied": [pattern]}
        if field in _WITHOUT_DEFAULT:
            continue
        yield field, "locked default", {"default": _MAPS.get(field, other), "locked": True}
        yield field, "locked", {"locked": True}
        if field not in _MAPS:
            yield field, "options", {"options": [other]}


def _iter_placements() -> Iterator[tuple[str, str, dict[str, Any]]]:
    yield "tolerations", "allowed", {"allowed": [{"key": "gpu"}]}
    yield "tolerations", "allowed with another effect", {"allowed": [{"key": "spot", "effect": "NoExecute"}]}
    yield "tolerations", "allowed with one value", {"allowed": [{"key": "spot", "value": "a"}]}
    yield "tolerations", "denied", {"denied": [{"key": "s*"}]}
    yield "tolerations", "denied with its effect", {"denied": [{"key": "spot", "effect": "NoSchedule"}]}
    yield "tolerations", "locked", {"locked": True}
    yield "tolerations", "locked default", {"default": [{"key": "gpu", "operator": "Exists"}], "locked": True}
    yield "affinity", "locked", {"locked": True}
    yield "affinity", "locked default", {"default": {"podAffinity": {}}, "locked": True}
    yield "node_selector", "denied by affinity", {"denied": ["disktype"]}
    yield "node_selector", "allowed without the affinity's", {"allowed": ["pool"]}
    yield "volumes.type", "options", {"options": ["config_map", "image"]}
