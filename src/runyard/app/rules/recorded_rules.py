"""The policy and profiles at the revisions that runs were resolved with, parsed once per revision."""

from dataclasses import dataclass
from typing import Literal

from runyard.app.errors import Missing
from runyard.app.lru_map import LruMap
from runyard.app.model import Json
from runyard.app.ports import UnitOfWork
from runyard.app.rules.current_rules import POLICY_NAME, read_profile_document
from runyard.spec.policy import Policy, read_policy
from runyard.spec.profile import Profile

MOST_REVISIONS = 512
"""Parsed revisions in memory. Those that are not used are parsed again when they are needed."""


@dataclass(frozen=True, slots=True)
class _Revision:
    kind: Literal["profile", "policy"]
    name: str
    revision: int


class RecordedRules:
    """Reads rules by revision. A revision never changes, so what was parsed stays valid."""

    def __init__(self) -> None:
        self._policies: LruMap[_Revision, Policy] = LruMap(most=MOST_REVISIONS)
        self._profiles: LruMap[_Revision, Profile] = LruMap(most=MOST_REVISIONS)

    async def get_policy(self, unit: UnitOfWork, revision: int | None) -> Policy:
        """The policy of that revision; None: the built-in one. Raises `Missing`."""
        if revision is None:
            return Policy()
        key = _Revision("policy", POLICY_NAME, revision)
        policy = self._policies.find(key)
        if policy is None:
            policy = read_policy(await _load(unit, key))
            self._policies.put(key, policy)
        return policy

    async def get_profile(self, unit: UnitOfWork, name: str, revision: int) -> Profile:
        """The profile of that name and revision, with its base objects; raises `Missing`."""
        key = _Revision("profile", name, revision)
        profile = self._profiles.find(key)
        if profile is None:
            profile = read_profile_document(await _load(unit, key))[0]
            self._profiles.put(key, profile)
        return profile


async def _load(unit: UnitOfWork, key: _Revision) -> Json:
    found = await unit.revisions.find(key.kind, key.name, revision=key.revision)
    if found is None or found.document is None:
        raise Missing(f"revision of {key.kind}", f"{key.name} {key.revision}")
    return found.document
