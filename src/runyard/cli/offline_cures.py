"""Rewords refusals for the command line, which knows no server: each names the option that would cure it."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from runyard.domain.resolve_inputs import ProjectInventory
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, list_words


@dataclass(frozen=True, slots=True)
class _Declaration:
    """Something that a project has on a server: the option that declares it offline, and what was declared."""

    noun: str
    option: str
    declared: Collection[str]


def propose_options(
    refusals: Iterable[Problem], inventory: ProjectInventory, *, has_profiles: bool, has_function: bool
) -> Iterator[Problem]:
    """Yield the refusals with their cures; leaves out questions whose answer cannot matter.

    A policy that denies a claim does so whether or not the project has it.
    """
    listed = tuple(refusals)
    denied = {problem.path for problem in listed if problem.code is Code.DENIED_CLAIM}
    declarations = {
        Code.SECRET_UNKNOWN: _Declaration("secret", "--secret {}", inventory.secrets),
        Code.VOLUME_UNKNOWN: _Declaration("volume", "--volume {}", inventory.volumes),
        Code.CLAIM_UNKNOWN: _Declaration("claim", "--claim {}", inventory.claims),
        Code.CONFIG_MAP_UNKNOWN: _Declaration(
            "config map", "--config-map {}=PATH, or the files in `data`", inventory.config_maps
        ),
    }
    for problem in listed:
        if problem.code is Code.CLAIM_UNKNOWN and problem.path in denied:
            continue
        if problem.code in declarations:
            yield _propose_declaration(problem, declarations[problem.code])
        elif problem.code is Code.PROFILE_UNKNOWN:
            yield _propose_profiles(problem, has_profiles=has_profiles)
        elif problem.code is Code.DENIED_CLAIM:
            rule = f"volumes.claim_name: {{allowed: [{problem.value}]}}"
            yield replace(problem, allowed=f"{problem.allowed}, or a --policy with `{rule}`")
        elif (problem.code, problem.path) == (Code.FIELD_MISSING, ("image",)):
            yield _propose_image(problem, has_function=has_function)
        else:
            yield problem


def _propose_declaration(problem: Problem, declaration: _Declaration) -> Problem:
    option = declaration.option.format(problem.value)
    return replace(
        problem,
        message=f"{declaration.noun} `{problem.value}` is not declared",
        allowed=list_words(sorted(declaration.declared)) or None,
        suggestion=f"{problem.suggestion}, or {option}" if problem.suggestion else option,
    )


def _propose_profiles(problem: Problem, *, has_profiles: bool) -> Problem:
    cure = "--profiles DIR, with the directory of its file"
    return replace(
        problem,
        allowed=problem.allowed if has_profiles else "no profiles are loaded",
        suggestion=f"{problem.suggestion}, or {cure}" if problem.suggestion else cure,
    )


def _propose_image(problem: Problem, *, has_function: bool) -> Problem:
    known = "; the function's image is known only to a server" if has_function else ""
    return replace(problem, allowed=f"`image` in the file, or --image IMAGE{known}")
