"""Implements `runyard policy check` and `runyard policy diff`."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from runyard.cli.files import STDIN, Unreadable
from runyard.cli.findings import Finding, print_findings
from runyard.cli.inputs import DEFAULT_ACTION
from runyard.cli.lazy_commands import load
from runyard.cli.output import clean, format_value, print_data
from runyard.cli.policies import LoadedPolicy, load_policy
from runyard.cli.profile_files import load_profiles
from runyard.cli.run_files import LoadedRun, load_runs
from runyard.domain.rehearsal import RecordedRequest, Rehearsal, RehearsedRun, assume_inventory, rehearse
from runyard.domain.resolve_inputs import AdminRules, Request
from runyard.spec.kinds.registry import DEFAULT_KIND
from runyard.spec.policy import Policy
from runyard.spec.problems import format_path
from runyard.spec.profile import Profile

BUILT_IN_ALONE = "none"
HEAD = ("run", "project", "outcome", "field", "before", "after", "decided by")
_OUTCOMES = ("refused", "accepted", "smaller", "larger", "mixed", "changed", "unchanged")


def print_check(file: str) -> None:
    """Print the warnings about a policy and a summary; raises `Failed` with its errors."""
    loaded = load_policy(file)
    print_findings(loaded.warnings, "warning")
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
    print_findings(dict.fromkeys([*old_warnings, *new_warnings]), "warning")
    rehearsal = rehearse(recorded, old=before, new=after)
    shown = [run for run in rehearsal.runs if show_all or run.outcome != "unchanged"]
    if output != "table":
        print_data({"summary": _count(rehearsal), "runs": [run.to_dict() for run in shown]}, output=output)
        return
    if shown:
        rows = [row for run in shown for row in _iter_rows(run)]
        load("runyard.cli.tables:print_table")(HEAD, rows, optional=("project", "decided by"))
        click.echo()
    click.echo(_summarise(rehearsal))


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
            )
            inventory = assume_inventory(run.fields, *(profile.fields for profile in profiles))
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
    parts = [f"{count} {outcome}" for outcome, count in _count(rehearsal).items() if count]
    return ", ".join(parts) or "no runs"


def _iter_rows(run: RehearsedRun) -> Iterator[tuple[str, ...]]:
    head = clean(run.id), run.project, run.direction or run.outcome
    for problem in run.refusals:
        why = f"{problem.message}; allowed: {problem.allowed}" if problem.allowed else problem.message
        yield *head, clean(problem.where), "", clean(why), ""
    for change in run.changes:
        before, after = (_show(change.path, value) for value in (change.old, change.new))
        yield *head, clean(format_path(change.path)), before, after, clean(change.by)
    if not run.refusals and not run.changes:
        yield *head, "", "", "", ""


def _show(path: Any, value: Any) -> str:
    return "-" if value is None else format_value(path, value)
