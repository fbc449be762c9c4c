"""Implements `runyard policy check` and `runyard policy diff`."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from runyard.cli.files import STDIN, Unreadable
from runyard.cli.findings import Finding, print_warnings
from runyard.cli.inputs import DEFAULT_ACTION
from runyard.cli.output import print_data
from runyard.cli.policies import LoadedPolicy, load_policy
from runyard.cli.profile_files import load_profiles
from runyard.cli.rehearsal_tables import OUTCOMES, iter_causes, print_rehearsed, summarise
from runyard.cli.run_files import LoadedRun, load_runs
from runyard.domain.rehearsal import Causes, RecordedRequest, Rehearsal, assume_inventory, rehearse
from runyard.domain.resolve_inputs import AdminRules, Request
from runyard.spec.kinds.registry import DEFAULT_KIND
from runyard.spec.policy import Policy
from runyard.spec.problem_codes import Code
from runyard.spec.profile import Profile

BUILT_IN_ALONE = "none"
_QUIET = ("unchanged", "refused_by_both")
"""Outcomes that are only counted, unless all runs are asked for."""


def print_check(file: str) -> None:
    """Print the warnings about a policy and a summary; raises `Failed` with its errors."""
    loaded = load_policy(file)
    print_warnings(loaded.warnings)
    rules, projects = len(loaded.policy.scope.rules), len(loaded.policy.projects)
    form = "DigitalHub settings" if loaded.is_settings else "policy"
    click.echo(f"{form}: ok; fields with rules: {rules}, projects with their own: {projects}")


def print_rehearsal(
    *,
    old: str,
    new: str,
    runs: tuple[str, ...],
    profiles: tuple[str, ...],
    new_profiles: tuple[str, ...],
    project: str,
    show_all: bool,
    output: str,
) -> None:
    """Print what another policy, or other profiles, would change in recorded runs: per run, and in sum."""
    before, old_warnings = _prepare(old, profiles)
    after, new_warnings = _prepare(new, new_profiles or profiles)
    known = [*before.profiles.values(), *after.profiles.values()]
    recorded = [*_iter_recorded(runs, project=project, profiles=known)]
    print_warnings(dict.fromkeys([*old_warnings, *new_warnings]))
    rehearsal = rehearse(recorded, old=before, new=after)
    shown = [run for run in rehearsal.runs if show_all or run.outcome not in _QUIET]
    causes = [cause.to_dict() for cause in rehearsal.causes.list_first()]
    if output != "table":
        runs_shown = [run.to_dict() for run in shown]
        print_data({"summary": _count(rehearsal), "refused_by_both": causes, "runs": runs_shown}, output=output)
        return
    print_rehearsed(run.to_dict() for run in shown)
    click.echo(summarise(_count(rehearsal)))
    has_profiles = bool(before.profiles or after.profiles)
    for line in iter_causes(causes, left_out=rehearsal.causes.left_out):
        click.echo(line)
    for line in _iter_likely_cause(rehearsal.causes, has_profiles=has_profiles):
        click.echo(line)


def _prepare(policy: str, profiles: tuple[str, ...]) -> tuple[AdminRules, list[Finding]]:
    loaded = LoadedPolicy(Policy()) if policy == BUILT_IN_ALONE else load_policy(check_exists(policy))
    named, profile_warnings = load_profiles(profiles)
    return AdminRules(policy=loaded.policy, profiles=named), [*loaded.warnings, *profile_warnings]


def check_exists(file: str) -> str:
    """The name of a file that exists; raises `Unreadable`, which names the built-in policy."""
    if file != STDIN and not Path(file).is_file():
        raise Unreadable(f"{file}: no such file; allowed: a policy file, or `{BUILT_IN_ALONE}` for the built-in policy")
    return file


def _iter_recorded(files: Iterable[str], *, project: str, profiles: list[Profile]) -> Iterator[RecordedRequest]:
    for file in files:
        for number, loaded in enumerate(load_runs(file), start=1):
            run = loaded.run
            request = Request(
                project=run.project or project,
                action=run.action or DEFAULT_ACTION,
                kind=run.kind or DEFAULT_KIND,
                run=run.fields,
                task=run.task_layer,
                function=run.function_layer,
            )
            inventory = assume_inventory(
                run.function_layer, run.task_layer, run.fields, *(profile.fields for profile in profiles)
            )
            yield RecordedRequest(id=_name_run(loaded, number), request=request, inventory=inventory)


def _name_run(loaded: LoadedRun, number: int) -> str:
    return loaded.run.id or loaded.run.name or f"{loaded.source.file}#{number}"


def _count(rehearsal: Rehearsal) -> Mapping[str, int]:
    """Count runs by outcome; changed runs by direction, if they have one."""
    counted = dict.fromkeys(OUTCOMES, 0)
    for run in rehearsal.runs:
        counted[run.direction or run.outcome] += 1
    return counted


def _iter_likely_cause(causes: Causes, *, has_profiles: bool) -> Iterator[str]:
    if any(cause.code is Code.PROFILE_UNKNOWN for cause in causes.list_first()):
        missing = "does not have all profiles that the runs name" if has_profiles else "is missing"
        yield f"    likely cause: --profiles DIR {missing}"
