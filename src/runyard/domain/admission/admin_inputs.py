"""The admin's inputs for a run: the chosen profile with its base objects, and the policy of the project.

A policy's lists restrict what users ask for. They do not restrict values that the profile or a policy default sets.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from runyard.pods.security import Level
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.policy import BUILT_IN, Policy, Scope
from runyard.spec.profile import DEFAULT_PROFILE, Profile
from runyard.spec.rule_grammar import Rule
from runyard.spec.run_fields import AdminFields
from runyard.spec.volumes import Volume


class AdminInputs:
    """Profile, base objects and policy scopes. The kind of the workload decides which base objects apply."""

    def __init__(self, policy: Policy, *, project: str, profile: Profile | None, is_job: bool) -> None:
        self.project = project
        self.platform_wide = policy.scope
        self.scopes = policy.get_scopes(project)
        self.profile = profile
        self._layers = tuple(_iter_layers(profile, is_job=is_job))

    @property
    def pod_security(self) -> Level:
        """The Pod Security level. The platform's policy can relax it to baseline; a project can only tighten it."""
        said = [scope.platform.pod_security for scope in self.scopes if scope is not BUILT_IN]
        is_relaxed = self.platform_wide.platform.pod_security == "baseline" and "restricted" not in said
        return "baseline" if is_relaxed else "restricted"

    def get_platform(self, name: str) -> Any:
        """A platform setting; the narrowest scope that sets it wins."""
        said = [getattr(scope.platform, name) for scope in self.scopes]
        return next(value for value in reversed(said) if value is not None)

    @property
    def python_images(self) -> Mapping[str, str]:
        """The image of each version of Python. A scope that names some versions leaves the others as they were."""
        images: dict[str, str] = {}
        for scope in self.scopes:
            images |= scope.platform.python_images or {}
        return images

    @property
    def mem_tolerance(self) -> Decimal:
        """The factor between a memory request and its limit; a project can only make it smaller."""
        said = [scope.platform.mem_tolerance for scope in self.scopes if scope is not BUILT_IN]
        factors = [factor for factor in said if factor is not None]
        built_in: Decimal = self.get_platform("mem_tolerance")
        return min(factors, default=built_in)

    def iter_rules(self, name: str) -> Iterator[tuple[Scope, Rule]]:
        """The rules of one field, widest scope first."""
        for scope in self.scopes:
            if name in scope.rules:
                yield scope, scope.rules[name]

    def find_lock(self, name: str) -> tuple[Scope, Any] | None:
        """The widest scope that locks the field, and its value; None where only profiles may set it."""
        default = None
        for scope, rule in self.iter_rules(name):
            if rule.default is not None and scope is not BUILT_IN:
                default = rule.default
            if rule.locked:
                return scope, default
        return None

    def find_locked_value(self, name: str) -> Any:
        """The value that the policy locks for everybody, profiles included, or None."""
        lock = self.find_lock(name)
        return None if lock is None else lock[1]

    def iter_profile_values(self, field: str) -> Iterator[Any]:
        """The values that the profile and its base objects set for a field."""
        for layer in self._layers:
            value = getattr(layer, field)
            if value is not None:
                yield value

    def iter_defaults(self, rule_name: str) -> Iterator[Any]:
        """The defaults of all scopes for a ruled field."""
        for _, rule in self.iter_rules(rule_name):
            if rule.default is not None:
                yield rule.default

    def sets(self, field: str, value: Any) -> bool:
        """Whether the admin set exactly this value."""
        return any(value == said for said in [*self.iter_profile_values(field), *self.iter_defaults(field)])

    def sets_pair(self, field: str, key: str, value: str) -> bool:
        """Whether the admin set this entry of a mapping."""
        return any(said.get(key) == value for said in [*self.iter_profile_values(field), *self.iter_defaults(field)])

    def sets_item(self, field: str, entry: Any) -> bool:
        """Whether the admin set this item of a list."""
        return any(entry in said for said in [*self.iter_profile_values(field), *self.iter_defaults(field)])

    def uses_secret(self, name: str) -> bool:
        """Whether the profile uses that secret, as a variable or as a file."""
        return any(use.name == name for said in self.iter_profile_values("secrets") for use in said)

    def uses_secret_as_variable(self, name: str) -> bool:
        """Whether the profile sets that variable by a secret."""
        uses = (use for said in self.iter_profile_values("secrets") for use in said)
        return any(use.name == name and use.is_variable for use in uses)

    def implies_profile(self, name: str) -> bool:
        """Whether the profile applies without being named: `default`, or a policy default."""
        return name == DEFAULT_PROFILE or name in self.iter_defaults("profile")

    def sets_image(self, image: str) -> bool:
        """Whether the profile or the policy sets the image, or it is one of the platform's Python images."""
        return self.sets("image", image) or image in self.python_images.values()

    def find_volumes(self, **attributes: Any) -> list[Volume]:
        """The profile's volumes with these attributes."""
        volumes = [volume for said in self.iter_profile_values("volumes") for volume in said]
        return [volume for volume in volumes if all(getattr(volume, key) == value for key, value in attributes.items())]

    def list_amounts(self, *names: str) -> list[Quantity]:
        """Every amount that the admin set for a resource, under any of its names, as request or limit."""
        said = [
            amount
            for resources in self.iter_profile_values("resources")
            for name in names
            if name in resources
            for amount in (resources[name].requests, resources[name].limits)
            if amount is not None
        ]
        rules = [f"resources.{name}{side}" for name in names for side in ("", ".requests", ".limits")]
        return [*said, *(default for rule in rules for default in self.iter_defaults(rule))]

    def list_maxima(self, *rule_names: str) -> list[Quantity]:
        """Every `max` of these fields."""
        return [rule.max for name in rule_names for _, rule in self.iter_rules(name) if rule.max is not None]


def _iter_layers(profile: Profile | None, *, is_job: bool) -> Iterator[AdminFields]:
    if profile is None:
        return
    yield profile.fields
    for kind, base in profile.base.items():
        if (kind == "Job") == is_job:
            yield base
