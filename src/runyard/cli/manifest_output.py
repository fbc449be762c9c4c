"""Output of `runyard render`: the Kubernetes objects of a run."""

from collections.abc import Iterator
from typing import Any

import click

from runyard.cli.findings import Failed, Finding, format_finding, print_warnings
from runyard.cli.inputs import Decision, Inputs, decide, locate, make_uid, read_inputs
from runyard.cli.options import RunOptions
from runyard.cli.output import print_data, print_documents, print_note
from runyard.domain.admission import check_objects
from runyard.manifests.environment import get_platform_envs
from runyard.manifests.identity import RunIdentity
from runyard.manifests.render import render_run
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem

Objects = list[dict[str, Any]]


def print_manifests(options: RunOptions, *, output: str) -> None:
    """Print a run's objects as YAML documents or a `v1` List; raises `Failed` with every reason why it is refused."""
    inputs = read_inputs(options)
    decision = decide(inputs)
    if decision.refusals:
        raise Failed(decision.refusals, decision.warnings)
    # Values of secrets are not known offline.
    values = dict.fromkeys(inputs.options.secrets, "")
    objects = render_run(decision.resolution.spec, _identify(inputs), secret_values=values)
    _check(objects, inputs, decision)
    print_warnings([*decision.warnings, *_iter_empty_secrets(inputs, decision)])
    if inputs.is_id_made:
        print_note(f"the run id is {inputs.run_id}, derived from its content; set another with --id")
    if output == "json":
        print_data({"apiVersion": "v1", "kind": "List", "items": objects}, output="json")
    else:
        print_documents(objects)


def _identify(inputs: Inputs) -> RunIdentity:
    run = inputs.loaded.run
    return RunIdentity(
        run_id=inputs.run_id,
        run_uid=inputs.options.run_uid or make_uid(inputs.request.project, inputs.run_id),
        project=inputs.request.project,
        namespace=inputs.options.namespace,
        function=run.function,
        run_name=run.name,
    )


def _check(objects: Objects, inputs: Inputs, decision: Decision) -> None:
    """Check exactly the objects that would be printed. A violation is a bug: resolve should have refused the run."""
    problems = _find_violations(objects, inputs, decision)
    if problems:
        lines = [format_finding(Finding(problem), "error") for problem in problems]
        raise click.ClickException(
            "internal error: the rendered objects break a rule for which the run should have been refused:\n"
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
        platform_envs=get_platform_envs(_identify(inputs)),
    )


def _iter_empty_secrets(inputs: Inputs, decision: Decision) -> Iterator[Finding]:
    for use in decision.resolution.spec.secrets:
        message = "is rendered empty; its value is not known offline"
        yield locate(inputs, Problem(Code.SECRET_EMPTY, ("secrets", use.name), message))
