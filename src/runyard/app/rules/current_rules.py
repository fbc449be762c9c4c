"""What the admin prepared, as it stands in the store: profiles and policy, parsed once per revision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from runyard.app.model import Json, Revision
from runyard.app.ports import UnitOfWork
from runyard.domain.resolve_inputs import AdminRules
from runyard.spec.policy import Policy, read_policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.profile import Profile
from runyard.spec.profile_documents import read_profiles
from runyard.spec.readers import expect_list

POLICY_NAME = "platform"
"""There is one policy; it has parts for projects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRules:
    """What holds now, and at which revisions."""

    admin_rules: AdminRules = field(default_factory=AdminRules)
    profile_revisions: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    policy_revision: int | None = None


async def load_current(unit: UnitOfWork) -> CurrentRules:
    """Profiles and policy as they hold in this unit of work."""
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
    """One profile from its document, `{documents: […]}` where base objects stand beside it; and warnings.

    Raises `Refused` with everything that is wrong with it.
    """
    is_several = isinstance(given, dict) and set(given) == {"documents"}
    documents = expect_list(given["documents"], of="documents") if is_several else [given]
    documents = [{"id": name, **each} if _is_unnamed(each, name) else each for each in documents]
    profiles, warnings = read_profiles(documents)
    problems = []
    if len(profiles) != 1:
        problems.append(Problem(Code.PROFILE_COUNT, (), f"must be one profile, not {len(profiles)}"))
    elif name is not None and profiles[0].id != name:
        message = f"the address names the profile `{name}`"
        problems.append(Problem(Code.PROFILE_OTHER, ("id",), message, value=profiles[0].id, suggestion=name))
    if problems:
        raise Refused(problems)
    return profiles[0], warnings


def _is_unnamed(document: Any, name: str | None) -> bool:
    """A profile's own document that does not repeat the name of its address."""
    return name is not None and isinstance(document, dict) and "id" not in document and "kind" not in document


class _Frozen:
    """A revision as a key: the same name and revision are the same document."""

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
    """The profile of a stored revision, which was read once before it was stored."""
    return read_profile_document(frozen.document)[0]


@lru_cache(maxsize=64)
def parse_policy(frozen: _Frozen) -> Policy:
    """The policy of a stored revision."""
    return read_policy(frozen.document)
