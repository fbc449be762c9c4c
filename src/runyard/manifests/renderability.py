"""Resolve that also refuses what cannot be rendered. Submit, explain and render all decide by `resolve_run`."""

from dataclasses import replace

from runyard.domain.resolution import Resolution, resolve
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.manifests.checks import find_missing_launcher, find_unrenderable
from runyard.spec.problems import Problem


def resolve_run(
    request: Request,
    admin_rules: AdminRules,
    inventory: ProjectInventory,
    *,
    is_started: bool = True,
    has_launcher: bool = False,
) -> Resolution:
    """Resolve a run, with a refusal for each reason why it cannot be rendered. Never raises on a parsed request.

    Without `is_started` nothing will start the run (a server without engine). A missing launcher is then a warning.
    """
    resolution = resolve(request, admin_rules, inventory)
    problems = find_unrenderable(resolution.spec, has_launcher=has_launcher)
    launcher = None if is_started else find_missing_launcher(resolution.spec)
    refusals = [problem for problem in problems if problem != launcher and not _follows(problem, resolution)]
    warnings = () if launcher is None else (launcher,)
    return replace(
        resolution,
        refusals=(*resolution.refusals, *refusals),
        warnings=(*resolution.warnings, *warnings),
    )


def _follows(problem: Problem, resolution: Resolution) -> bool:
    """Whether it may only follow from an earlier refusal: of the same field, or of the profile that would fill it."""
    refused = {refusal.path[0] for refusal in resolution.refusals if refusal.path}
    return "profile" in refused or problem.path[0] in refused
