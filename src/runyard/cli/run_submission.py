"""Implements `runyard run`: shows the plan, asks, submits under an id of its own, and follows the run to its end."""

import secrets
from collections.abc import Mapping
from typing import Any

import click

from runyard.cli.client_session import Session, open_session
from runyard.cli.findings import Failed, print_warnings
from runyard.cli.log_output import follow_to_the_end
from runyard.cli.output import clean, print_note
from runyard.cli.plan_output import print_plan
from runyard.cli.questions import confirm
from runyard.cli.run_definitions import RunDefinition, SubmitOptions, define_run
from runyard.cli.server_problems import to_findings
from runyard.sdk.errors import AlreadyExists, ApiError, NotFound, ServerUnreachable
from runyard.sdk.explanations import Explanation
from runyard.sdk.sync.function import Function
from runyard.sdk.sync.project import Project
from runyard.sdk.sync.run import Run

Flags = Mapping[str, Any]
ID_BYTES = 5


def run(flags: Flags, options: SubmitOptions, *, yes: bool, detach: bool, dry_run: bool, strict: bool) -> None:
    """Run it; ends with the outcome of the run as the exit code."""
    definition = define_run(options)
    with open_session(flags, project=definition.project) as session:
        if definition.loaded is not None:
            print_warnings(definition.loaded.warnings)
        function = _prepare_function(session, definition)
        request = _make_request(function, definition)
        explanation = _explain(function, request, definition, strict=strict)
        _print_plan(explanation, definition, session=session, is_answer=dry_run)
        if explanation.refusals:
            raise click.exceptions.Exit(1)
        if dry_run:
            return
        if not yes:
            confirm("Start it?", is_yes_default=True)
        submitted = _submit(function, request, definition, strict=strict)
        if detach:
            click.echo(submitted.id)
            print_note(f"follow it with `runyard logs -f {submitted.id}`")
            return
        print_note(f"run {submitted.id} of project {session.project_name}")
        follow_to_the_end(submitted)


def _prepare_function(session: Session, definition: RunDefinition) -> Function:
    """The function on the server; the same definition is the same version, so repeating a run creates nothing new."""
    try:
        project = session.client.get_project(session.project_name)
    except NotFound:
        project = session.client.get_or_create_project(session.project_name)
        print_note(f"project {session.project_name} is created")
    if not definition.function_fields:
        return project.get_function(definition.name)
    return _ensure_function(project, definition)


def _ensure_function(project: Project, definition: RunDefinition) -> Function:
    try:
        return project.ensure_function(
            definition.name, definition.kind, definition.function_fields, folder=definition.folder
        )
    except ApiError as error:
        raise _locate(error, definition) from None


def _make_request(function: Function, definition: RunDefinition) -> dict[str, Any]:
    run_id = definition.run_id or f"{definition.name}-{secrets.token_hex(ID_BYTES)}"
    return function.address_request(definition.action, dict(definition.run_fields), id=run_id)


def _explain(function: Function, request: dict[str, Any], definition: RunDefinition, *, strict: bool) -> Explanation:
    try:
        return function.explain_request({**request, "id": None}, strict=strict)
    except ApiError as error:
        raise _locate(error, definition) from None


def _submit(function: Function, request: dict[str, Any], definition: RunDefinition, *, strict: bool) -> Run:
    """Submit; says how to look for the run if nobody knows whether it arrived."""
    run_id = request["id"]
    try:
        return function.submit(request, strict=strict)
    except AlreadyExists:
        raise click.ClickException(
            f"there is another run {run_id} in this project, of another request; choose an id with --id"
        ) from None
    except ApiError as error:
        raise _locate(error, definition) from None
    except (ServerUnreachable, KeyboardInterrupt) as error:
        words = "interrupted" if isinstance(error, KeyboardInterrupt) else clean(str(error))
        message = f"{words}; the run may have been submitted: `runyard describe {run_id}` says so"
        raise click.ClickException(message) from None


def _locate(error: ApiError, definition: RunDefinition) -> click.ClickException | ApiError:
    """The server's problems with the lines of the user's file."""
    return Failed(to_findings(error.problems, definition.source)) if error.problems else error


def _print_plan(explanation: Explanation, definition: RunDefinition, *, session: Session, is_answer: bool) -> None:
    """Every value and its owner, then warnings, refusals and the verdict."""
    action = f"{definition.name}, {definition.action}, project {session.project_name}"
    click.echo(f"{clean(action)}, by {clean(session.client.endpoint)}\n", err=not is_answer)
    print_plan(explanation, source=definition.source, is_answer=is_answer)
