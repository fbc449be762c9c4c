"""The effective spec: the complete result of `resolve`, and the owner of each of its leaves (provenance)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal

from runyard.spec.environment import SecretUse
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.problems import Path, format_path
from runyard.spec.resources import Sides
from runyard.spec.services import ServicePort
from runyard.spec.volumes import Volume

Owner = Literal["platform", "base", "function", "task", "you", "profile", "policy"]
"""Who may set a value, weakest first."""
OWNERS: tuple[Owner, ...] = ("platform", "base", "function", "task", "you", "profile", "policy")
USERS: frozenset[Owner] = frozenset({"function", "task", "you"})
"""The layers that users write; the others are the admin's."""

SECONDS = ("timeout", "pending_timeout", "ttl", "grace_period")

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """Scratch space at `/shared`."""

    size: Quantity
    medium: Literal["ephemeral", "empty_dir"] = "ephemeral"
    storage_class: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSpec:
    """Every value of a run. A value that is None or empty was left blank, and Kubernetes decides."""

    kind: str
    action: Literal["job", "serve", "deploy", "build"]
    profile: str | None = None
    image: str | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str | None = None
    image_pull_policy: str | None = None
    image_pull_secrets: tuple[str, ...] = ()

    resources: Mapping[str, Sides] = field(default_factory=lambda: _EMPTY)
    """`cpu`, `mem`, and what admins set by its Kubernetes name (`ephemeral-storage`, `example.com/nic`)."""
    gpu: int | None = None
    """None if nobody set it; 0 if somebody set it to no GPU."""
    gpu_resource: str | None = None
    """The resource name of the GPUs, such as `nvidia.com/gpu`; set if `gpu` is more than 0."""
    disk: Disk | None = None

    node_selector: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    """In Kubernetes' own form."""
    affinity: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    """In Kubernetes' own form."""
    topology_spread: tuple[Mapping[str, Any], ...] = ()
    runtime_class: str | None = None
    priority_class: str | None = None
    scheduler_name: str | None = None
    service_account: str | None = None
    host_aliases: tuple[Mapping[str, Any], ...] = ()
    labels: Mapping[str, str] = field(default_factory=lambda: _EMPTY)

    volumes: tuple[Volume, ...] = ()
    """`claim_name` is set if the claim exists already: existing claims and shared volumes."""
    envs: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    secrets: tuple[SecretUse, ...] = ()

    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None
    pod_security: Literal["restricted", "baseline"] = "restricted"

    replicas: int | None = None
    service_ports: tuple[ServicePort, ...] = ()
    service_type: str | None = None
    service_name: str | None = None
    readiness_path: str | None = None

    backoff_limit: int | None = None
    disruptions: Literal["ignore", "count"] | None = None
    """Blank means `ignore`: pods that are evicted, preempted or drained use up no retry."""
    timeout_seconds: int | None = None
    pending_timeout_seconds: int | None = None
    ttl_seconds: int | None = None
    grace_period_seconds: int | None = None

    parameters: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    inputs: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    init_parameters: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    source: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    """Of a python function: its code and handler, as given."""
    python_version: str | None = None
    requirements: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON with the field names of a run; amounts as canonical text, times as seconds, no blanks."""
        plain = {item.name: to_plain(getattr(self, item.name)) for item in fields(self)}
        gpu, gpu_resource, disk = plain.pop("gpu"), plain.pop("gpu_resource"), plain.pop("disk")
        if gpu_resource is not None:
            plain["resources"]["gpu"] = {"limits": Quantity.from_int(gpu).text, "resource": gpu_resource}
        elif gpu is not None:
            plain["resources"]["gpu"] = {"limits": "0"}
        if disk is not None:
            plain["resources"]["disk"] = disk
        for name in SECONDS:
            plain[name] = plain.pop(f"{name}_seconds")
        return {name: value for name, value in plain.items() if value is not None and value not in ({}, [])}


@dataclass(frozen=True, slots=True)
class Replaced:
    """A value that was replaced."""

    by: str
    value: Any


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value of the effective spec: who set it, by which rule, and what it replaced (strongest first)."""

    path: Path
    value: Any
    owner: Owner
    source: str
    """The owner for people: `profile 1xa100`, `policy of project vision`, `you`."""
    rule: str | None = None
    """How the value was derived, if it was: `requests × 1.1`, `limits alone: requests = limits`."""
    replaced: tuple[Replaced, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the same in API and CLI."""
        return {
            "path": format_path(self.path),
            "value": self.value,
            "set_by": self.owner,
            "source": self.source,
            "rule": self.rule,
            "replaced": [{"by": other.by, "value": other.value} for other in self.replaced],
        }


def iter_leaves(spec: Mapping[str, Any], *prefix: str | int) -> Iterator[tuple[Path, Any]]:
    """Every leaf of `EffectiveSpec.to_dict()`. Lists are one leaf, except volumes, secrets and tolerations."""
    for key, value in spec.items():
        path = (*prefix, key)
        if isinstance(value, Mapping) and key not in WHOLE:
            yield from iter_leaves(value, *path)
        elif isinstance(value, Sequence) and not isinstance(value, str) and path in KEYED:
            for index, entry in enumerate(value):
                name = entry.get("name", index) if isinstance(entry, Mapping) else index
                yield from _iter_entry(entry, (*path, name))
        else:
            yield path, value


WHOLE = frozenset({"affinity", "parameters", "inputs", "init_parameters", "source"})
"""Mappings that are one leaf."""
KEYED = frozenset({("volumes",), ("secrets",), ("tolerations",)})
"""Lists with one leaf per entry."""


def _iter_entry(entry: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if path[0] != "volumes":
        yield path, entry
        return
    for key, value in entry.items():
        yield (*path, key), value


_SCALARS = frozenset({str, int, float, bool, type(None)})
_RECORDS: Mapping[type, tuple[str, ...]] = {
    kind: tuple(item.name for item in fields(kind)) for kind in (Sides, Volume, Disk, SecretUse, ServicePort)
}


def to_plain(value: Any) -> Any:
    """Plain JSON of any value of an effective spec."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Quantity):
        return value.text
    if (names := _RECORDS.get(type(value))) is not None:
        return {name: to_plain(item) for name in names if (item := getattr(value, name)) is not None}
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return [to_plain(item) for item in value]
    return value
