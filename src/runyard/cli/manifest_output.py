"""Output of `runyard render`: the Kubernetes objects of a run."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from runyard.cli.findings import Failed, Finding, format_finding, print_warnings
from runyard.cli.inputs import Decision, Inputs, decide, locate, read_inputs
from runyard.cli.options import RunOptions
from runyard.cli.output import print_data, print_documents, print_note
from runyard.cli.plan_sources import OFFLINE
from runyard.domain.admission import admit
from runyard.manifests.environment import get_platform_envs
from runyard.manifests.identity import RunIdentity
from runyard.manifests.metadata import PREFIX
from runyard.manifests.names import make_preview_uid
from runyard.manifests.render import render_run
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused

Objects = list[dict[str, Any]]


def print_manifests(options: RunOptions, *, reason: str, output: str) -> None:
    """Print a run's objects as YAML documents or a `v1` List; raises `Failed` with every reason why it is refused."""
    inputs = read_inputs(options)
    print_note(f"answered offline, {reason}")
    decision = decide(inputs)
    if decision.refusals:
        raise Failed(decision.refusals, decision.warnings)
    # Values of secrets are not known offline.
    values = dict.fromkeys(inputs.options.secrets, "")
    objects = _admit(render_run(decision.resolution.spec, _identify(inputs), secret_values=values), inputs, decision)
    print_warnings([*decision.warnings, *_iter_empty_secrets(inputs, decision)])
    if inputs.is_id_made:
        print_note(f"the run id is {inputs.run_id}, derived from its content; set another with --id")
    print_objects(objects, answered_by=OFFLINE, output=output)


def print_objects(objects: Sequence[Mapping[str, Any]], *, answered_by: str, output: str) -> None:
    """Print them as YAML documents, or as a `v1` List that says who rendered them."""
    if output == "yaml":
        print_documents(objects)
        return
    metadata = {"annotations": {f"{PREFIX}answered-by": answered_by}}
    print_data({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": list(objects)}, output="json")


def _identify(inputs: Inputs) -> RunIdentity:
    run = inputs.loaded.run
    return RunIdentity(
        run_id=inputs.run_id,
        run_uid=inputs.options.run_uid or make_preview_uid(inputs.request.project, inputs.run_id),
        project=inputs.request.project,
        namespace=inputs.options.namespace,
        function=run.function,
        run_name=run.name,
    )


def _admit(objects: Objects, inputs: Inputs, decision: Decision) -> Objects:
    """The objects as admission read them. A violation is a bug: resolve should have refused the run."""
    inventory = inputs.inventory
    try:
        admitted = admit(
            objects,
            policy=inputs.admin_rules.policy,
            project=inputs.request.project,
            profile=decision.resolution.profile,
            project_claims=inventory.claims,
            shared_claims=frozenset(inventory.volumes.values()),
            platform_envs=get_platform_envs(_identify(inputs)),
        )
    except Refused as refused:
        lines = [format_finding(Finding(problem), "error") for problem in refused.problems]
        raise click.ClickException(
            "internal error: the rendered objects break a rule for which the run should have been refused:\n"
            + "\n".join(lines)
            + "\nNothing is printed. This is a bug in Runyard; please report it, with the command and the files."
        ) from None
    return [json.loads(item.body) for item in admitted]


def _iter_empty_secrets(inputs: Inputs, decision: Decision) -> Iterator[Finding]:
    for use in decision.resolution.spec.secrets:
        message = "is rendered empty; its value is not known offline"
        yield locate(inputs, Problem(Code.SECRET_EMPTY, ("secrets", use.name), message))
