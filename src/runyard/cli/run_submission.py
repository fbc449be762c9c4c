"""Implements `runyard run`: shows the plan, asks, submits under an id of its own, and follows the run to its end."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from runyard.cli.client_session import Session, open_session
from runyard.cli.findings import Failed, print_warnings
from runyard.cli.log_output import INTERRUPTED, follow_to_the_end, keep_running
from runyard.cli.output import clean, print_note
from runyard.cli.plan_output import print_plan
from runyard.cli.questions import confirm
from runyard.cli.run_definitions import RunDefinition, SubmitOptions, define_run
from runyard.cli.server_problems import to_findings
from runyard.sdk.errors import AlreadyExists, ApiError, ServerUnreachable
from runyard.sdk.explanations import Explanation
from runyard.sdk.sync.run import Run
from runyard.sdk.sync.run_draft import RunDraft

Flags = Mapping[str, Any]
ID_BYTES = 5


def run(flags: Flags, options: SubmitOptions, *, yes: bool, detach: bool, dry_run: bool, strict: bool) -> None:
    """Run it; ends with the outcome of the run as the exit code."""
    definition = define_run(options)
    with open_session(flags, project=definition.project) as session:
        if definition.loaded is not None:
            print_warnings(definition.loaded.warnings)
        draft = draft_run(session, definition)
        with locate_errors(definition):
            explanation = draft.explain(strict=strict)
        _print_plan(explanation, definition, session=session, makes_project=draft.makes_project, is_answer=dry_run)
        if explanation.refusals:
            raise click.exceptions.Exit(1)
        if dry_run:
            return
        if not yes:
            confirm("Start it?", is_yes_default=True)
        submitted = _submit(draft, definition, strict=strict)
        if draft.makes_project:
            print_note(f"project {session.project_name} is created")
        if detach:
            click.echo(submitted.id)
            print_note(f"follow it with `runyard logs -f {submitted.id}`")
            return
        with keep_running(submitted):
            print_note(f"run {submitted.id} of project {session.project_name}")
            follow_to_the_end(submitted)


def draft_run(session: Session, definition: RunDefinition) -> RunDraft:
    """The run before anything of it is stored. The same definition of a function is the same version."""
    if not definition.function_fields:
        function = session.get_project().get_function(definition.name)
        return function.draft_run(definition.action, dict(definition.run_fields))
    return session.client.draft_run(
        session.project_name,
        definition.name,
        definition.kind,
        function=definition.function_fields,
        spec=definition.run_fields,
        action=definition.action,
        folder=definition.folder,
    )


@contextmanager
def locate_errors(definition: RunDefinition) -> Iterator[None]:
    """Show the server's problems with the lines of the user's file."""
    try:
        yield
    except ApiError as error:
        if isinstance(error, AlreadyExists) or not error.problems:
            raise
        raise Failed(to_findings(error.problems, definition.source)) from None


def _submit(draft: RunDraft, definition: RunDefinition, *, strict: bool) -> Run:
    """Submit; says how to look for the run if nobody knows whether it arrived."""
    run_id = definition.run_id or f"{definition.name}-{secrets.token_hex(ID_BYTES)}"
    try:
        with locate_errors(definition):
            return draft.submit(id=run_id, strict=strict)
    except AlreadyExists:
        raise click.ClickException(
            f"there is another run {run_id} in this project, of another request; choose an id with --id"
        ) from None
    except ServerUnreachable as error:
        raise click.ClickException(f"{clean(str(error))}; {_say_uncertain(run_id)}") from None
    except KeyboardInterrupt:
        click.echo(err=True)
        print_note(f"interrupted; {_say_uncertain(run_id)}")
        raise click.exceptions.Exit(INTERRUPTED) from None


def _say_uncertain(run_id: str) -> str:
    return f"the run may have been submitted: `runyard describe {run_id}` says so"


def _print_plan(
    explanation: Explanation, definition: RunDefinition, *, session: Session, makes_project: bool, is_answer: bool
) -> None:
    """Every value and its owner, then warnings, refusals and the verdict."""
    project = f"{'new project' if makes_project else 'project'} {session.project_name}"
    action = f"{definition.name}, {definition.action}, {project}"
    click.echo(f"{clean(action)}, by {clean(session.client.endpoint)}\n", err=not is_answer)
    print_plan(explanation, source=definition.source, is_answer=is_answer)
