"""Turns the command line into the input of `resolve_run`: reads every file and reports all their problems at once."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar, get_args

import click

from runyard.cli.config_map_files import load_config_maps
from runyard.cli.findings import Failed, Finding
from runyard.cli.offline_cures import propose_options
from runyard.cli.options import RunOptions
from runyard.cli.policies import LoadedPolicy, load_policy
from runyard.cli.profile_files import load_profiles
from runyard.cli.run_definitions import choose_kind
from runyard.cli.run_files import LoadedRun, load_run
from runyard.domain.effective_spec import USERS, Leaf
from runyard.domain.resolution import NOT_USED, Resolution
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.manifests.renderability import resolve_run
from runyard.spec.config_maps import ConfigMap
from runyard.spec.policy import BUILT_IN, Policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, Refused
from runyard.spec.readers import to_snake_case
from runyard.spec.resources import LIMITS, REQUESTS
from runyard.spec.run_fields import Action, RunFields, read_run_fields

T = TypeVar("T")

DEFAULT_PROJECT = "default"
DEFAULT_ACTION: Action = "job"
ID_CHARACTERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything that was read, and the warnings about it."""

    options: RunOptions
    loaded: LoadedRun
    request: Request
    admin_rules: AdminRules
    inventory: ProjectInventory
    run_id: str
    is_id_made: bool
    warnings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """The resolution; warnings and refusals with their places in files and options."""

    resolution: Resolution
    warnings: tuple[Finding, ...]
    refusals: tuple[Finding, ...]


def read_inputs(options: RunOptions) -> Inputs:
    """Read every file; raises `Failed` with the problems of all of them."""
    failures: list[Failed] = []
    flags = _read_flags(options)
    loaded = _attempt(load_run, options.file, failures)
    profiles, profile_doubts = _attempt(load_profiles, options.profiles, failures) or (MappingProxyType({}), ())
    policy = (_attempt(load_policy, options.policy, failures) if options.policy else None) or LoadedPolicy(Policy())
    config_maps = _attempt(load_config_maps, options.config_maps, failures) or MappingProxyType({})
    if failures or loaded is None:
        raise Failed(
            [error for failed in failures for error in failed.errors],
            [warning for failed in failures for warning in failed.warnings],
        )
    return Inputs(
        options=options,
        loaded=loaded,
        request=_make_request(loaded, flags, options),
        admin_rules=AdminRules(profiles=profiles, policy=policy.policy),
        inventory=_make_inventory(options, config_maps),
        run_id=options.run_id or loaded.run.id or make_id(options, loaded.content),
        is_id_made=not (options.run_id or loaded.run.id),
        warnings=(*policy.warnings, *profile_doubts, *loaded.warnings, *_iter_replaced(loaded, options)),
    )


def decide(inputs: Inputs, *, has_launcher: bool = False) -> Decision:
    """Resolve and refuse what could not be rendered; with `--strict`, also values that would not be used.

    With `has_launcher`, decide as a server whose engine starts functions.
    """
    resolution = resolve_run(inputs.request, inputs.admin_rules, inputs.inventory, has_launcher=has_launcher)
    resolution = replace(resolution, leaves=tuple(_iter_owned(inputs, resolution.leaves)))
    not_used = [problem for problem in resolution.warnings if problem.code in NOT_USED and inputs.options.strict]
    doubts = [problem for problem in resolution.warnings if problem not in not_used]
    return Decision(
        resolution,
        warnings=(*inputs.warnings, *(locate(inputs, problem) for problem in doubts)),
        refusals=tuple(
            Finding(problem) if _is_admins(problem.path, resolution.leaves) else locate(inputs, problem)
            for problem in propose_options(
                resolution.refusals,
                inputs.inventory,
                has_profiles=bool(inputs.admin_rules.profiles),
                has_function=inputs.loaded.run.function is not None,
            )
        )
        + tuple(locate(inputs, problem) for problem in not_used),
    )


def locate(inputs: Inputs, problem: Problem) -> Finding:
    """The problem with its place: the option that set the value, or the line of the run's file."""
    first = problem.path[0] if problem.path else None
    if first in ("image", "profile") and getattr(inputs.options, str(first)) is not None:
        return Finding(problem, f"--{first}")
    return inputs.loaded.source.locate(problem)


def _iter_owned(inputs: Inputs, leaves: Iterable[Leaf]) -> Iterator[Leaf]:
    """The leaves, with the defaults of the command line owned by the platform."""
    run, options = inputs.loaded.run, inputs.options
    unsaid = {("kind",): run.kind is None, ("action",): run.action is None and options.action is None}
    for leaf in leaves:
        is_default = unsaid.get((str(leaf.path[0]),), False)
        yield replace(leaf, owner="platform", source=BUILT_IN.name) if is_default else leaf


def _is_admins(path: Path, leaves: Iterable[Leaf]) -> bool:
    """Whether a profile, and no user, set the value at a path or the request that it follows from."""
    causes = {path, (*path[:2], REQUESTS)} if path[:1] == ("resources",) and path[-1] == LIMITS else {path}
    owners = {leaf.owner for leaf in leaves if leaf.path in causes}
    return not owners.isdisjoint({"profile", "base"}) and owners.isdisjoint(USERS)


def make_id(options: RunOptions, content: bytes) -> str:
    """An id derived from the run's content and the options that change it: the same call renders the same objects."""
    said = json.dumps([options.image, options.action, options.profile, options.project])
    return hashlib.sha256(content + b"\0" + said.encode()).hexdigest()[:ID_CHARACTERS]


def _attempt(reader: Callable[[Any], T], given: Any, failures: list[Failed]) -> T | None:
    try:
        return reader(given)
    except Failed as failed:
        failures.append(failed)
        return None


def _read_flags(options: RunOptions) -> RunFields:
    """The run fields that options set; an invalid one is a usage error."""
    said = {"profile": options.profile, "image": options.image}
    try:
        return read_run_fields({name: value for name, value in said.items() if value is not None})
    except Refused as refused:
        problem = refused.problems[0]
        raise click.BadParameter(problem.message, param_hint=f"--{problem.path[0]}") from None


def _make_request(loaded: LoadedRun, flags: RunFields, options: RunOptions) -> Request:
    run = loaded.run
    said = {name: value for name in ("profile", "image") if (value := getattr(flags, name)) is not None}
    return Request(
        project=options.project or run.project or DEFAULT_PROJECT,
        action=_get_action(options.action) or run.action or DEFAULT_ACTION,
        kind=run.kind or choose_kind({*map(to_snake_case, map(str, loaded.source.get_root() or ())), *said}).name,
        run=run.fields.model_copy(update=said),
        task=run.task_layer,
        function=run.function_layer,
    )


def _get_action(given: str | None) -> Action | None:
    return next((action for action in get_args(Action) if action == given), None)


def _make_inventory(options: RunOptions, config_maps: Mapping[str, ConfigMap]) -> ProjectInventory:
    return ProjectInventory(
        secrets=frozenset(options.secrets),
        volumes=MappingProxyType(dict(options.volumes)),
        claims=frozenset(options.claims),
        config_maps=config_maps,
        config_map_names=frozenset(each.name for each in config_maps.values()),
    )


def _iter_replaced(loaded: LoadedRun, options: RunOptions) -> Iterator[Finding]:
    """A warning for each value of the file that an option overrides."""
    run, fields = loaded.run, loaded.run.fields
    pairs = (
        ("image", fields.image, options.image),
        ("profile", fields.profile, options.profile),
        ("action", run.action, options.action),
        ("project", run.project, options.project),
        ("id", run.id, options.run_id),
    )
    for name, written, said in pairs:
        if written is not None and said is not None and written != said:
            problem = Problem(
                Code.OPTION_REPLACES, (name,), f"--{name} {said} is used; `{written}` is not", value=written
            )
            yield loaded.source.locate(problem)
