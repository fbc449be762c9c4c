"""What the admin said, as the wall needs it: rules of all scopes, and the values that any profile may set.

A policy's lists bind users, not profiles. The apiserver does not know which profile a pod comes from, so a value that
some profile sets passes the lists for every pod of the project. Bounds and locks bind profiles too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from runyard.domain.admission.admin_inputs import AdminInputs
from runyard.domain.resolve_inputs import AdminRules
from runyard.spec.launcher import Launcher
from runyard.spec.policy import BUILT_IN
from runyard.spec.volumes import Volume


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDefaults:
    """What the cluster itself adds to pods and claims before the wall sees them."""

    priority_class: str | None = None
    """The PriorityClass with `globalDefault`."""
    storage_class: str | None = None
    """The default StorageClass."""
    node_selector: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Labels that RuntimeClasses add, with their values."""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    """Tolerations that RuntimeClasses add."""


class WallInputs(AdminInputs):
    """Policy and all profiles of a project, the platform's own values, and the cluster's defaults."""

    def __init__(
        self,
        rules: AdminRules,
        *,
        project: str,
        launcher: Launcher | None = None,
        endpoint: str | None = None,
        package_index: str | None = None,
        defaults: ClusterDefaults | None = None,
    ) -> None:
        super().__init__(rules.policy, project=project, profile=None, is_job=True)
        profiles = [rules.profiles[name] for name in sorted(rules.profiles)]
        self._layers = tuple(layer for profile in profiles for layer in (profile.fields, *profile.base.values()))
        self.launcher = launcher
        self.endpoint = endpoint
        self.package_index = package_index
        self.defaults = defaults or ClusterDefaults()

    def list_values(self, name: str) -> list[Any]:
        """The values that profiles and defaults of the policy set for a field."""
        return [*self.iter_profile_values(name), *self.iter_defaults(name)]

    def list_profile_volumes(self) -> list[Volume]:
        """The volumes of all profiles."""
        return [volume for volumes in self.iter_profile_values("volumes") for volume in volumes]

    def can_be_blank(self, name: str) -> bool:
        """Whether a run may leave the field blank, so that the apiserver's default stands in the pod."""
        rules = [rule for scope, rule in self.iter_rules(name) if scope is not BUILT_IN]
        return not any(rule.required or rule.default is not None for rule in rules)
