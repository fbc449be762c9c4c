"""What a profile and the policy say against each other, found by playing a bare run of that profile. Pure."""

from collections.abc import Iterable, Iterator

from runyard.domain.rehearsal import Recorded, assume_inventory
from runyard.domain.resolution import Resolution, resolve
from runyard.domain.resolve_inputs import AdminRules, Request
from runyard.spec.policy import Policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, find_nearest, list_words, shorten
from runyard.spec.profile import Profile
from runyard.spec.run_fields import Action, RunFields

ACTIONS: tuple[Action, ...] = ("job", "serve")
NOWHERE = ""
"""A project that no policy names: the platform's rules alone."""


def find_contradictions(profile: Profile, policy: Policy, *, projects: Iterable[str] = (NOWHERE,)) -> list[Problem]:
    """Values of the profile that a lock replaces, and rules that refuse every run of it; each once."""
    found: dict[tuple[str, str], Problem] = {}
    for project in projects:
        for action in ACTIONS:
            for problem in _play(profile, policy, project, action):
                # What holds everywhere is not told again for each project.
                found.setdefault((problem.code, problem.where), problem)
    return list(found.values())


def find_unknown_profiles(policy: Policy, names: Iterable[str]) -> list[Problem]:
    """Profiles that the policy sets by default and that are not there: every run would be refused."""
    known = sorted(names)
    return [
        Problem(
            Code.PROFILE_UNKNOWN,
            path,
            f"there is no profile `{name}`: every run that gets it is refused",
            value=name,
            allowed=list_words(known) if known else "no profiles are loaded",
            suggestion=find_nearest(name, known),
        )
        for path, name in iter_default_profiles(policy)
        if name not in known
    ]


def iter_default_profiles(policy: Policy) -> Iterator[tuple[tuple[str, ...], str]]:
    """The profiles that a policy gives to runs, and where it says so."""
    places = [((), policy.scope), *((("projects", name), scope) for name, scope in policy.projects.items())]
    for path, scope in places:
        rule = scope.rules.get("profile")
        if rule is not None and rule.default is not None:
            yield (*path, "profile", "default"), str(rule.default)


def assume_recorded(run_id: str, request: Request, profiles: Iterable[Profile]) -> Recorded:
    """A stored request, in a project that has what it and the profiles name."""
    named = [profile.fields for profile in profiles]
    inventory = assume_inventory(request.function, request.task, request.run, *named)
    return Recorded(id=run_id, request=request, inventory=inventory)


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
                message = f"{leaf.source} locks {shorten(leaf.value)}{place}; the profile's value is not used"
                yield Problem(Code.PROFILE_OVERRIDDEN, leaf.path, message, value=shorten(other.value))
