"""Read and write profiles and the policy. They are validated before they are stored, and every revision is kept."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.errors import Missing, NotPossible
from runyard.app.model import Json, Principal, Revision
from runyard.app.rules.contradictions import (
    NOWHERE,
    find_contradictions,
    find_unknown_profiles,
    iter_default_profiles,
)
from runyard.app.rules.current_rules import POLICY_NAME, load_current, read_profile_document
from runyard.app.rules.revisions import check_storable, put_revision
from runyard.spec.policy import Policy, lint_policy, read_policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.profile import Profile
from runyard.spec.readers import expect_list

MOST_PROFILES = 1000
_ALONE = ("documents", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfile:
    """A stored profile: its document, the parsed profile, and its warnings."""

    revision: Revision
    profile: Profile
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPolicy:
    """The current policy; without a revision it is the built-in one."""

    revision: Revision | None
    policy: Policy
    warnings: tuple[Problem, ...] = ()


async def list_profiles(core: Core) -> Sequence[StoredProfile]:
    """All current profiles, by name."""
    async with core.store.begin(is_read_only=True) as unit:
        revisions = await unit.revisions.list_current(kind="profile")
        profiles = (await load_current(unit)).admin_rules.profiles
    return [StoredProfile(revision=one, profile=profiles[one.name]) for one in revisions]


async def get_profile(core: Core, name: str) -> StoredProfile:
    """One profile, with warnings under the current platform rules; raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        revision = await unit.revisions.find("profile", name)
        policy = (await load_current(unit)).admin_rules.policy
    if revision is None or revision.document is None:
        raise Missing("profile", name)
    profile, warnings = read_profile(revision.document, name)
    # Anyone may read, so the costly check against all projects' rules is done only on writes.
    return StoredProfile(
        revision=revision, profile=profile, warnings=(*warnings, *find_contradictions(profile, policy))
    )


async def put_profile(
    core: Core,
    who: Principal,
    name: str,
    document: Any,
    *,
    expected_revision: int | None = None,
    is_strict: bool = False,
) -> StoredProfile:
    """Create or replace a profile. An unchanged document adds no revision. Raises `Refused`, `Conflict`.

    With `is_strict`, contradictions with the policy are refused; otherwise they are warnings.
    """
    profile, warnings = await compute(lambda: read_profile(document, name), over=document)
    stored = _name_documents(document, name)
    async with core.store.begin(is_read_only=True) as unit:
        current = await load_current(unit)
    contradictions = await _compare(profile, current.admin_rules.policy)
    if is_strict and contradictions:
        raise Refused(contradictions)
    if name not in current.admin_rules.profiles and len(current.admin_rules.profiles) >= MOST_PROFILES:
        raise NotPossible(Code.PROFILE_TOO_MANY, f"there are {MOST_PROFILES} profiles, which is the limit")
    revision = await put_revision(core, who, "profile", name, stored, expected_revision=expected_revision)
    return StoredProfile(revision=revision, profile=profile, warnings=(*warnings, *contradictions))


async def delete_profile(core: Core, who: Principal, name: str, *, expected_revision: int | None = None) -> None:
    """Delete a profile; its revisions stay. Not while it is the policy's default. Raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        policy = (await load_current(unit)).admin_rules.policy
    if name in {default for _, default in iter_default_profiles(policy)}:
        message = f"the policy gives profile {name} to runs that name none: change the policy first"
        raise NotPossible(Code.PROFILE_IN_USE, message)
    await put_revision(core, who, "profile", name, None, expected_revision=expected_revision)


async def get_policy(core: Core, *, visible_projects: Collection[str] | None = None) -> StoredPolicy:
    """The current policy and its warnings, with the rules of the visible projects only; None: of all projects."""
    async with core.store.begin(is_read_only=True) as unit:
        revision = await unit.revisions.find("policy", POLICY_NAME)
        current = await load_current(unit)
    policy = current.admin_rules.policy
    warnings = [*lint_policy(policy), *find_unknown_profiles(policy, current.admin_rules.profiles)]
    stored = StoredPolicy(revision=revision, policy=policy, warnings=tuple(warnings))
    return stored if visible_projects is None else _hide_projects(stored, visible_projects)


async def put_policy(
    core: Core, who: Principal, document: Any, *, expected_revision: int | None = None, is_strict: bool = False
) -> StoredPolicy:
    """Replace the policy for future runs. With `is_strict`, warnings are refused. Raises `Refused`, `Conflict`."""
    policy = await compute(lambda: read_policy(check_storable(document)), over=document)
    async with core.store.begin(is_read_only=True) as unit:
        profiles = (await load_current(unit)).admin_rules.profiles
    warnings = await asyncio.to_thread(_doubt, policy, profiles)
    if is_strict and warnings:
        raise Refused(warnings)
    revision = await put_revision(core, who, "policy", POLICY_NAME, document, expected_revision=expected_revision)
    return StoredPolicy(revision=revision, policy=policy, warnings=tuple(warnings))


async def delete_policy(core: Core, who: Principal, *, expected_revision: int | None = None) -> None:
    """Return to the built-in policy; the revisions stay. Raises `Missing` if none is stored."""
    await put_revision(core, who, "policy", POLICY_NAME, None, expected_revision=expected_revision)


def read_profile(document: Any, name: str) -> tuple[Profile, list[Problem]]:
    """Read a profile of that name, with warnings. Raises `Refused`, with paths as in the document."""
    check_storable(document)
    if set(document) == {"documents"}:
        expect_list(document["documents"], of="documents")
    try:
        profile, warnings = read_profile_document(document, name=name)
    except Refused as refused:
        raise Refused(_place(document, refused.problems)) from None
    return profile, _place(document, warnings)


def _hide_projects(stored: StoredPolicy, visible: Collection[str]) -> StoredPolicy:
    """The policy without the rules of the other projects, and without the warnings about them."""
    revision = stored.revision
    if revision is not None and revision.document is not None and "projects" in revision.document:
        others = {name: rules for name, rules in revision.document.items() if name != "projects"}
        shown = {name: rules for name, rules in (revision.document["projects"] or {}).items() if name in visible}
        revision = replace(revision, document={**others, "projects": shown} if shown else others)
    return StoredPolicy(
        revision=revision,
        policy=replace(
            stored.policy,
            projects={name: scope for name, scope in stored.policy.projects.items() if name in visible},
        ),
        warnings=tuple(
            problem for problem in stored.warnings if problem.path[:1] != ("projects",) or problem.path[1] in visible
        ),
    )


async def _compare(profile: Profile, policy: Policy) -> list[Problem]:
    projects = (NOWHERE, *policy.projects)
    return await asyncio.to_thread(find_contradictions, profile, policy, projects=projects)


def _doubt(policy: Policy, profiles: Mapping[str, Profile]) -> list[Problem]:
    """Rules of a policy without effect, and its contradictions with profiles."""
    found = [*lint_policy(policy), *find_unknown_profiles(policy, profiles)]
    for name, profile in profiles.items():
        found += [problem.under("profiles", name) for problem in find_contradictions(profile, policy)]
    return found


def _name_documents(document: Any, name: str) -> Json:
    """The document, with the id from the URL if it has none."""
    documents = document.get("documents") if set(document) == {"documents"} else None
    if documents is not None:
        return {"documents": [_name_documents(each, name) if isinstance(each, dict) else each for each in documents]}
    return document if "id" in document or "kind" in document else {"id": name, **document}


def _place(document: Any, problems: Sequence[Problem]) -> list[Problem]:
    """Remove `documents[0]` from paths if the document is the profile itself."""
    if set(document) == {"documents"}:
        return list(problems)
    cut = len(_ALONE)
    return [replace(one, path=one.path[cut:]) if one.path[:cut] == _ALONE else one for one in problems]
