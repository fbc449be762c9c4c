"""Output of `runyard explain` and `runyard render` when a server answers. Nothing is stored there."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from runyard.cli.client_session import Session, open_session
from runyard.cli.explanation import format_verdict
from runyard.cli.findings import Failed, print_warnings
from runyard.cli.inputs import make_id
from runyard.cli.manifest_output import print_objects
from runyard.cli.options import RunOptions
from runyard.cli.output import clean, print_data, print_note
from runyard.cli.plan_output import explanation_to_data, print_plan
from runyard.cli.run_definitions import RunDefinition, SubmitOptions, define_run
from runyard.cli.run_submission import draft_run, locate_errors
from runyard.cli.server_problems import to_findings
from runyard.sdk.errors import ServerUnreachable
from runyard.sdk.explanations import Explanation, Rendering

Flags = Mapping[str, Any]


def print_explanation(flags: Flags, options: RunOptions, *, output: str) -> None:
    """Print what the server says a run would get: the table, warnings, refusals and the verdict."""
    with _answer_refusals(output, answered_by=None):
        definition = _define(options)
    with (
        _ask(flags, options, definition) as session,
        _answer_refusals(output, answered_by=session.client.endpoint),
        locate_errors(definition),
    ):
        explanation = draft_run(session, definition).explain(strict=options.strict)
    if output == "table":
        click.echo(f"{clean(definition.name)}, {definition.action}, project {clean(session.project_name)}\n")
        print_plan(explanation, source=definition.source, is_answer=True)
    else:
        print_data(_to_data(session, definition, explanation), output=output)
    if explanation.refusals:
        raise click.exceptions.Exit(1)


def print_manifests(flags: Flags, options: RunOptions, *, output: str) -> None:
    """Print the objects that the server would make of a run."""
    definition = _define(options)
    content = definition.loaded.content if definition.loaded is not None else b""
    run_id = definition.run_id or make_id(options, content)
    with _ask(flags, options, definition) as session, locate_errors(definition):
        rendering = draft_run(session, definition).render(id=run_id, strict=options.strict)
    _print_warnings(rendering, definition)
    if definition.run_id is None:
        print_note(f"the run id is {run_id}, derived from its content; set another with --id")
    print_objects(rendering.objects, answered_by=session.client.endpoint, output=output)


def _define(options: RunOptions) -> RunDefinition:
    return define_run(
        SubmitOptions(
            file=options.file,
            image=options.image,
            profile=options.profile,
            action=options.action,
            run_id=options.run_id,
        )
    )


@contextmanager
def _ask(flags: Flags, options: RunOptions, definition: RunDefinition) -> Iterator[Session]:
    """A session at the server, which is named on standard error when it has answered."""
    with open_session({**flags, "project": options.project}, project=definition.project) as session:
        given = session.client.credentials
        note = f"answered by {given.endpoint} ({given.source})"
        try:
            yield session
        except (Failed, click.exceptions.Exit):
            print_note(note)
            raise
        except ServerUnreachable as error:
            raise click.ClickException(f"{clean(str(error))} (--offline answers without a server)") from None
        print_note(note)


def _to_data(session: Session, definition: RunDefinition, explanation: Explanation) -> dict[str, Any]:
    return {
        "answered_by": session.client.endpoint,
        "run": {"id": definition.run_id, "project": session.project_name},
        **explanation_to_data(explanation, source=definition.source),
        "profile_revision": explanation.profile_revision,
        "policy_revision": explanation.policy_revision,
    }


@contextmanager
def _answer_refusals(output: str, *, answered_by: str | None) -> Iterator[None]:
    """Print a run that cannot be read as the answer, and end the command."""
    try:
        yield
    except Failed as failed:
        if output == "table":
            failed.show()
            click.echo(format_verdict(failed.errors, failed.warnings))
        else:
            found = {"warnings": failed.warnings, "refusals": failed.errors}
            shown = {name: [finding.to_dict() for finding in findings] for name, findings in found.items()}
            print_data({"answered_by": answered_by, "effective": None, "provenance": [], **shown}, output=output)
        raise click.exceptions.Exit(failed.exit_code) from None


def _print_warnings(rendering: Rendering, definition: RunDefinition) -> None:
    read = definition.loaded.warnings if definition.loaded is not None else ()
    print_warnings([*read, *to_findings(rendering.warnings, definition.source)])
