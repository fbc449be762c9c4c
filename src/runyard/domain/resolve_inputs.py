"""What goes into a decision: what was asked, what the admin prepared, and what the project has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from runyard.spec.kinds.registry import DEFAULT_KIND
from runyard.spec.policy import Policy
from runyard.spec.profile import Profile
from runyard.spec.run_fields import Action, RunFields


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a user asked, in the three places where a user can ask."""

    project: str
    action: Action
    kind: str = DEFAULT_KIND
    run: RunFields = field(default_factory=RunFields)
    task: RunFields | None = None
    function: RunFields | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRules:
    """What the admin prepared."""

    profiles: Mapping[str, Profile] = field(default_factory=lambda: MappingProxyType({}))
    policy: Policy = field(default_factory=Policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectInventory:
    """What the project owns and a run may refer to by name. What is not here does not exist for the run."""

    secrets: frozenset[str] = frozenset()
    volumes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Kept volumes by the name users gave them, and the claim behind each."""
    claims: frozenset[str] = frozenset()
    """Claims that were not made by the platform and belong to the project."""
    config_maps: frozenset[str] = frozenset()
