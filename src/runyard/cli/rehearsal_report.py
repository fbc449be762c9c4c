"""Implements `runyard policy check` and `runyard policy diff`."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from runyard.cli.files import STDIN, Unreadable
from runyard.cli.findings import Finding, print_warnings
from runyard.cli.inputs import DEFAULT_ACTION
from runyard.cli.lazy_commands import load
from runyard.cli.output import clean, count_things, format_value, print_data
from runyard.cli.policies import LoadedPolicy, load_policy
from runyard.cli.profile_files import load_profiles
from runyard.cli.run_files import LoadedRun, load_runs
from runyard.domain.rehearsal import Causes, RecordedRequest, Rehearsal, RehearsedRun, assume_inventory, rehearse
from runyard.domain.resolve_inputs import AdminRules, Request
from runyard.spec.kinds.registry import DEFAULT_KIND
from runyard.spec.policy import Policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import format_path
from runyard.spec.profile import Profile

BUILT_IN_ALONE = "none"
HEAD = ("run", "project", "outcome", "field", "before", "after", "decided by")
_OUTCOMES = ("refused", "accepted", "smaller", "larger", "mixed", "changed", "unchanged", "refused_by_both")
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
    if output != "table":
        causes = [cause.to_dict() for cause in rehearsal.causes.list_first()]
        runs_shown = [run.to_dict() for run in shown]
        print_data({"summary": _count(rehearsal), "refused_by_both": causes, "runs": runs_shown}, output=output)
        return
    if shown:
        rows = [row for run in shown for row in _iter_rows(run)]
        load("runyard.cli.tables:print_table")(HEAD, rows, optional=("project", "decided by"))
        click.echo()
    click.echo(_summarise(rehearsal))
    for line in _iter_causes(rehearsal.causes, has_profiles=bool(before.profiles or after.profiles)):
        click.echo(line)


def _prepare(policy: str, profiles: tuple[str, ...]) -> tuple[AdminRules, list[Finding]]:
    loaded = LoadedPolicy(Policy()) if policy == BUILT_IN_ALONE else load_policy(_check_exists(policy))
    named, profile_warnings = load_profiles(profiles)
    return AdminRules(policy=loaded.policy, profiles=named), [*loaded.warnings, *profile_warnings]


def _check_exists(file: str) -> str:
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
    counted = dict.fromkeys(_OUTCOMES, 0)
    for run in rehearsal.runs:
        counted[run.direction or run.outcome] += 1
    return counted


def _summarise(rehearsal: Rehearsal) -> str:
    parts = [f"{count} {outcome.replace('_', ' ')}" for outcome, count in _count(rehearsal).items() if count]
    return ", ".join(parts) or "no runs"


def _iter_causes(causes: Causes, *, has_profiles: bool) -> Iterator[str]:
    """Yield why both policies refuse runs, one line per cause, and the likely mistake."""
    listed = causes.list_first()
    if not listed:
        return
    yield "refused by both:"
    for cause in listed:
        where = f"{format_path(cause.path)}: " if cause.path else ""
        yield clean(f"    {count_things(cause.runs, 'run')}: {where}{cause.message}")
    if causes.left_out:
        yield f"    and {count_things(causes.left_out, 'other reason')}"
    if any(cause.code is Code.PROFILE_UNKNOWN for cause in listed):
        missing = "does not have all profiles that the runs name" if has_profiles else "is missing"
        yield f"    likely cause: --profiles DIR {missing}"


def _iter_rows(run: RehearsedRun) -> Iterator[tuple[str, ...]]:
    head = clean(run.id), run.project, (run.direction or run.outcome).replace("_", " ")
    for problem in run.all_refusals:
        why = f"{problem.message}; allowed: {problem.allowed}" if problem.allowed else problem.message
        yield *head, clean(problem.where), "", clean(why), ""
    for change in run.changes:
        before, after = (_show(change.path, value) for value in (change.old, change.new))
        yield *head, clean(format_path(change.path)), before, after, clean(change.by)
    if not run.refusals and not run.changes:
        yield *head, "", "", "", ""


def _show(path: Any, value: Any) -> str:
    return "-" if value is None else format_value(path, value)
