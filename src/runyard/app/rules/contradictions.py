"""Contradictions between a profile and the policy, found by resolving a bare run with that profile. Pure."""

from collections.abc import Iterable, Iterator

from runyard.domain.rehearsal import RecordedRequest, assume_inventory
from runyard.domain.resolution import Resolution, resolve
from runyard.domain.resolve_inputs import AdminRules, Request
from runyard.spec.policy import Policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, find_nearest, list_words, shorten
from runyard.spec.profile import Profile
from runyard.spec.run_fields import Action, RunFields

ACTIONS: tuple[Action, ...] = ("job", "serve")
NOWHERE = ""
"""Stands for a project that the policy does not name: only the platform's rules apply."""


def find_contradictions(profile: Profile, policy: Policy, *, projects: Iterable[str] = (NOWHERE,)) -> list[Problem]:
    """Profile values that a lock overrides, and rules that refuse every run with the profile; each once."""
    found: dict[tuple[str, str], Problem] = {}
    for project in projects:
        for action in ACTIONS:
            for problem in _play(profile, policy, project, action):
                # Report a problem of all projects only once.
                found.setdefault((problem.code, problem.where), problem)
    return list(found.values())


def find_unknown_profiles(policy: Policy, names: Iterable[str]) -> list[Problem]:
    """Default profiles of the policy that do not exist: runs that get them are refused."""
    known = sorted(names)
    return [
        Problem(
            Code.PROFILE_UNKNOWN,
            path,
            f"unknown profile `{name}`: every run that gets it is refused",
            value=name,
            allowed=list_words(known) if known else "no profiles are loaded",
            suggestion=find_nearest(name, known),
        )
        for path, name in iter_default_profiles(policy)
        if name not in known
    ]


def iter_default_profiles(policy: Policy) -> Iterator[tuple[tuple[str, ...], str]]:
    """The default profiles of a policy, with their paths."""
    places = [((), policy.scope), *((("projects", name), scope) for name, scope in policy.projects.items())]
    for path, scope in places:
        rule = scope.rules.get("profile")
        if rule is not None and rule.default is not None:
            yield (*path, "profile", "default"), str(rule.default)


def assume_recorded(run_id: str, request: Request, profiles: Iterable[Profile]) -> RecordedRequest:
    """A stored request, in a project that has everything that the request and the profiles name."""
    named = [profile.fields for profile in profiles]
    inventory = assume_inventory(request.function, request.task, request.run, *named)
    return RecordedRequest(id=run_id, request=request, inventory=inventory)


def _play(profile: Profile, policy: Policy, project: str, action: Action) -> Iterator[Problem]:
    inventory = assume_inventory(profile.fields, *profile.base.values())
    bare = Request(project=project, action=action)
    named = Request(project=project, action=action, run=RunFields(profile=profile.id))
    before = resolve(bare, AdminRules(policy=policy), inventory)
    after = resolve(named, AdminRules(policy=policy, profiles={profile.id: profile}), inventory)
    place = f" in project {project}" if project != NOWHERE else ""
    yield from _iter_overridden(profile, after, place)
    known = {(problem.code, problem.path) for problem in before.refusals}
    for problem in after.refusals:
        if (problem.code, problem.path) not in known:
            message = f"runs of this profile are refused{place}: {problem.message}"
            yield Problem(Code.PROFILE_REFUSED, problem.path, message, value=problem.value, allowed=problem.allowed)


def _iter_overridden(profile: Profile, played: Resolution, place: str) -> Iterator[Problem]:
    own = {f"profile {profile.id}", *(f"base {kind} of {profile.id}" for kind in profile.base)}
    for leaf in played.leaves:
        for other in leaf.replaced:
            if other.by in own and leaf.source not in own:
                message = f"{leaf.source} locks {shorten(leaf.value)}{place}; the profile's value is ignored"
                yield Problem(Code.PROFILE_OVERRIDDEN, leaf.path, message, value=shorten(other.value))
