"""The current profiles and policy of the store, parsed once per revision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from runyard.app.model import Json, Revision, RuleRevisions
from runyard.app.ports import UnitOfWork
from runyard.domain.resolve_inputs import AdminRules
from runyard.spec.policy import Policy, read_policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.profile import Profile
from runyard.spec.profile_documents import read_profiles
from runyard.spec.readers import expect_list

POLICY_NAME = "platform"
"""There is one policy, with sections for projects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRules:
    """The current profiles and policy, and their revisions."""

    admin_rules: AdminRules = field(default_factory=AdminRules)
    profile_revisions: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    policy_revision: int | None = None

    @property
    def revisions(self) -> RuleRevisions:
        """Which they are: other rules have others."""
        return self.policy_revision, self.profile_revisions


async def load_current(unit: UnitOfWork) -> CurrentRules:
    """Load the current profiles and policy."""
    revisions = await unit.revisions.list_current()
    profiles = [one for one in revisions if one.kind == "profile"]
    policy = next((one for one in revisions if (one.kind, one.name) == ("policy", POLICY_NAME)), None)
    return CurrentRules(
        admin_rules=AdminRules(
            profiles=MappingProxyType({one.name: parse_profile(_freeze(one)) for one in profiles}),
            policy=Policy() if policy is None else parse_policy(_freeze(policy)),
        ),
        profile_revisions=MappingProxyType({one.name: one.revision for one in profiles}),
        policy_revision=None if policy is None else policy.revision,
    )


def read_profile_document(given: Any, *, name: str | None = None) -> tuple[Profile, list[Problem]]:
    """Read one profile and its warnings from a document; `{documents: […]}` if it has base objects.

    Raises `Refused` with every problem.
    """
    is_several = isinstance(given, dict) and set(given) == {"documents"}
    documents = expect_list(given["documents"], of="documents") if is_several else [given]
    documents = [{"id": name, **each} if _is_unnamed(each, name) else each for each in documents]
    profiles, warnings = read_profiles(documents)
    problems = []
    if len(profiles) != 1:
        problems.append(Problem(Code.PROFILE_COUNT, (), f"must be one profile, not {len(profiles)}"))
    elif name is not None and profiles[0].id != name:
        message = f"the URL names the profile `{name}`"
        problems.append(Problem(Code.PROFILE_OTHER, ("id",), message, value=profiles[0].id, suggestion=name))
    if problems:
        raise Refused(problems)
    return profiles[0], warnings


def _is_unnamed(document: Any, name: str | None) -> bool:
    """Whether it is a profile's own document without an `id`, which the URL then supplies."""
    return name is not None and isinstance(document, dict) and "id" not in document and "kind" not in document


class _Frozen:
    """A revision as a cache key: the same name, revision and time mean the same document."""

    __slots__ = ("_key", "document")

    def __init__(self, revision: Revision) -> None:
        self._key = (revision.kind, revision.name, revision.revision, revision.at)
        self.document: Json = revision.document or {}

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and self._key == other._key


def _freeze(revision: Revision) -> _Frozen:
    return _Frozen(revision)


@lru_cache(maxsize=2048)
def parse_profile(frozen: _Frozen) -> Profile:
    """Parse the profile of a stored revision, which was validated before it was stored."""
    return read_profile_document(frozen.document)[0]


@lru_cache(maxsize=64)
def parse_policy(frozen: _Frozen) -> Policy:
    """Parse the policy of a stored revision."""
    return read_policy(frozen.document)
