"""What `runyard render` does: files in, manifests out."""

from collections.abc import Iterator
from typing import Any

import click

from runyard.cli.findings import Failed, Finding, format_finding, print_findings
from runyard.cli.inputs import Decision, Inputs, decide, locate, read_inputs
from runyard.cli.options import RunOptions
from runyard.cli.output import print_data, print_documents, print_note
from runyard.domain.admission import check_objects
from runyard.manifests.environment import get_platform_envs
from runyard.manifests.identity import RunIdentity
from runyard.manifests.render import render_run
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused

Objects = list[dict[str, Any]]


def print_manifests(options: RunOptions, *, output: str) -> None:
    """Print a run's objects as YAML documents or a `v1` List, or everything that stands against it."""
    inputs = read_inputs(options)
    decision = decide(inputs)
    if decision.refusals:
        raise Failed(decision.refusals, decision.warnings)
    objects = _render(inputs, decision)
    _check(objects, inputs, decision)
    print_findings([*decision.warnings, *_iter_empty_secrets(inputs, decision)], "warning")
    if inputs.is_id_made:
        print_note(f"the run's id is {inputs.run_id}, made of its content; --id chooses another")
    if output == "json":
        print_data({"apiVersion": "v1", "kind": "List", "items": objects}, output="json")
    else:
        print_documents(objects)


def _render(inputs: Inputs, decision: Decision) -> Objects:
    values = dict.fromkeys(inputs.options.secrets, "")
    try:
        return render_run(decision.resolution.spec, _identify(inputs), secret_values=values)
    except Refused as refused:
        raise Failed(
            (locate(inputs, problem) for problem in map(_propose, refused.problems)), decision.warnings
        ) from None


def _identify(inputs: Inputs) -> RunIdentity:
    run = inputs.loaded.run
    return RunIdentity(
        run_id=inputs.run_id,
        project=inputs.request.project,
        namespace=inputs.options.namespace,
        function=run.function,
        run_name=run.name,
    )


def _propose(problem: Problem) -> Problem:
    """What only the command line knows: which option says what the file leaves out."""
    if (problem.code, problem.path) != (Code.FIELD_MISSING, ("image",)):
        return problem
    return Problem(problem.code, problem.path, problem.message, allowed="`image` in the file, or --image IMAGE")


def _check(objects: Objects, inputs: Inputs, decision: Decision) -> None:
    """The last look at exactly what would be printed. What it finds is our mistake: the resolver let it pass."""
    problems = _find_violations(objects, inputs, decision)
    if problems:
        lines = [format_finding(Finding(problem), "error") for problem in problems]
        raise click.ClickException(
            "internal error: what was rendered breaks a rule for which the run should have been refused:\n"
            + "\n".join(lines)
            + "\nNothing is printed. This is a bug in Runyard; please report it, with the command and the files."
        )


def _find_violations(objects: Objects, inputs: Inputs, decision: Decision) -> list[Problem]:
    inventory = inputs.inventory
    return check_objects(
        objects,
        policy=inputs.admin_rules.policy,
        project=inputs.request.project,
        profile=decision.resolution.profile,
        project_claims=inventory.claims,
        shared_claims=frozenset(inventory.volumes.values()),
        project_config_maps=inventory.config_maps,
        platform_envs=get_platform_envs(_identify(inputs)),
    )


def _iter_empty_secrets(inputs: Inputs, decision: Decision) -> Iterator[Finding]:
    for use in decision.resolution.spec.secrets:
        message = "is rendered empty: its value is the platform's and is not known offline"
        yield locate(inputs, Problem(Code.SECRET_EMPTY, ("secrets", use.name), message))
