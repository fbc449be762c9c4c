"""The inputs of `resolve`: the request, the admin's rules, and the project's inventory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from runyard.spec.config_maps import ConfigMap
from runyard.spec.kinds.registry import DEFAULT_KIND
from runyard.spec.policy import Policy
from runyard.spec.profile import Profile
from runyard.spec.run_fields import Action, RunFields


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a user requests, in run, task and function."""

    project: str
    action: Action
    kind: str = DEFAULT_KIND
    run: RunFields = field(default_factory=RunFields)
    task: RunFields | None = None
    function: RunFields | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRules:
    """The admin's profiles and policy."""

    profiles: Mapping[str, Profile] = field(default_factory=lambda: MappingProxyType({}))
    policy: Policy = field(default_factory=Policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectInventory:
    """What the project has and a run may refer to by name; nothing else exists for the run."""

    secrets: frozenset[str] = frozenset()
    volumes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Kept volumes by the name users gave them, and the claim behind each."""
    claims: frozenset[str] = frozenset()
    """Claims that were not made by the platform and belong to the project."""
    config_maps: Mapping[str, ConfigMap] = field(default_factory=lambda: MappingProxyType({}))
    """The config maps that the request and its profile name, by `NAME` or `NAME:VERSION`."""
    config_map_names: frozenset[str] = frozenset()
    """Names of config maps, to suggest one where a reference is unknown."""
