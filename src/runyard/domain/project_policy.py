"""The policy as it applies to one project: defaults, locks, and the rules to check."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from runyard.domain.board import Offer
from runyard.domain.effective_spec import Owner
from runyard.spec.policy import BUILT_IN, Policy, Scope
from runyard.spec.rule_grammar import Rule


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that the policy sets, and whether it is locked."""

    value: Any
    scope: Scope
    is_locked: bool

    def offer(self, rule: str | None = None) -> Offer:
        """As an offer for the board."""
        return offer_of(self.scope, self.value, rule)


class ProjectPolicy:
    """The scopes that apply to a project, the widest first."""

    def __init__(self, policy: Policy, project: str) -> None:
        self.scopes = policy.get_scopes(project)
        self.platform_wide = policy.scope
        self._rules: dict[str, list[tuple[Rule, Scope]]] = {}
        for name, rule, scope in self.iter_rules():
            self._rules.setdefault(name, []).append((rule, scope))

    def iter_rules(self) -> Iterator[tuple[str, Rule, Scope]]:
        """Every rule of every scope; all of them apply."""
        for scope in self.scopes:
            for name, rule in scope.rules.items():
                yield name, rule, scope

    def find_rules(self, name: str) -> Sequence[tuple[Rule, Scope]]:
        """The rules of one field, the widest scope's first."""
        return self._rules.get(name, ())

    def find_default(self, name: str) -> Choice | None:
        """The narrowest scope's default, unless a wider scope locks the field; a lock alone locks the wider default."""
        choice = None
        for rule, scope in self.find_rules(name):
            if rule.default is not None:
                choice = Choice(rule.default, scope, rule.locked)
            if rule.locked:
                return choice if choice is None or choice.scope is BUILT_IN else replace(choice, is_locked=True)
        return choice

    def find_lock(self, name: str) -> Scope | None:
        """The scope that locks the field, or None."""
        return next((scope for rule, scope in self.find_rules(name) if rule.locked), None)

    def max_for(self, *names: str) -> tuple[Any, Scope] | None:
        """The smallest `max` of these fields."""
        caps = [(rule.max, scope) for name in names for rule, scope in self.find_rules(name) if rule.max is not None]
        return min(caps, key=lambda cap: cap[0]) if caps else None

    @property
    def pod_security(self) -> Offer:
        """Restricted, unless the platform's policy relaxes it; a project's policy can only tighten it."""
        if self.platform_wide.platform.pod_security == "baseline":
            return self.get_platform("pod_security")
        strict = (scope for scope in (self.platform_wide, BUILT_IN) if scope.platform.pod_security == "restricted")
        return offer_of(next(strict), "restricted")

    def get_platform(self, name: str) -> Offer:
        """The narrowest scope's value of a platform choice."""
        scope = next(scope for scope in reversed(self.scopes) if getattr(scope.platform, name) is not None)
        return offer_of(scope, getattr(scope.platform, name))

    @property
    def gpu_resources(self) -> tuple[str, ...]:
        """The resource names of GPUs; `gpu` stands for the first.

        Those of every scope: a project that names others cannot exempt the platform's GPUs from its rules.
        """
        said = [scope.platform.gpu_resources for scope in reversed(self.scopes) if scope is not BUILT_IN]
        named = [name for names in said for name in names or ()]
        built_in: tuple[str, ...] = self.get_platform("gpu_resources").value
        return tuple(dict.fromkeys(named)) or built_in

    @property
    def mem_tolerance(self) -> tuple[Decimal, Offer]:
        """The factor between a memory request and its limit, and who set it."""
        said = [scope for scope in self.scopes if scope.platform.mem_tolerance is not None and scope is not BUILT_IN]
        scope = min(said or [BUILT_IN], key=lambda scope: scope.platform.mem_tolerance or Decimal(0))
        offer = offer_of(scope, scope.platform.mem_tolerance)
        return offer.value, offer

    def get_images(self, platform_choice: str) -> Mapping[str, str]:
        """The image of each version under a platform choice such as `python_images`; narrower scopes win."""
        images: dict[str, str] = {}
        for scope in self.scopes:
            images |= getattr(scope.platform, platform_choice) or {}
        return images


def offer_of(scope: Scope, value: Any, rule: str | None = None) -> Offer:
    """A value of a scope as an offer: built-in values are the platform's, all others the policy's."""
    owner: Owner = "platform" if scope is BUILT_IN else "policy"
    return Offer(value, owner, scope.name, rule)
