"""A client of the server that a command talks to. Errors of the SDK end the command with one line."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from runyard.cli.findings import Failed
from runyard.cli.output import clean, clean_lines
from runyard.cli.server_problems import to_finding
from runyard.sdk.credentials import find_credentials
from runyard.sdk.errors import ApiError, NotFound, RunyardError
from runyard.sdk.sync.client import Client
from runyard.sdk.sync.project import Project
from runyard.sdk.sync.run import Run
from runyard.spec.problems import find_nearest

DEFAULT_PROJECT = "default"
RETRY_SECONDS = 3.0
"""How long a command tries to reach the server; a followed log goes on for longer."""
MOST_SEARCHED = 100
"""Runs among which a part of an id is searched."""
Flags = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Session:
    """A client, and the project of the command."""

    client: Client
    project_name: str

    def get_project(self) -> Project:
        """The project; raises `ClickException` that says how to get one."""
        try:
            return self.client.get_project(self.project_name)
        except NotFound:
            names = [project.name for project in self.client.list_projects(limit=MOST_SEARCHED)]
            nearest = find_nearest(self.project_name, names)
            meant = (
                f"did you mean {nearest}?" if nearest else "name one with --project; `runyard project ls` lists them"
            )
            raise click.ClickException(f"there is no project {clean(self.project_name)}; {meant}") from None

    def get_run(self, given: str | None) -> Run:
        """A run by its id or the beginning of it; None is the newest one."""
        project = self.get_project()
        if given is not None:
            try:
                return project.get_run(given)
            except NotFound:
                pass
        runs = project.list_runs(limit=1 if given is None else MOST_SEARCHED)
        if given is None:
            if not runs:
                raise click.ClickException(f"project {clean(self.project_name)} has no runs")
            return runs[0].refresh()
        return _choose_run(given, runs, project=self.project_name).refresh()


def _choose_run(given: str, runs: list[Run], *, project: str) -> Run:
    matching = [run for run in runs if run.id.startswith(given) or run.name == given]
    if len(matching) == 1:
        return matching[0]
    if matching:
        listed = ", ".join(run.id for run in matching[:10])
        raise click.ClickException(f"several runs begin with {clean(given)}: {listed}")
    nearest = find_nearest(given, [run.id for run in runs])
    meant = f"did you mean {nearest}?" if nearest else "`runyard ps --all` lists them"
    raise click.ClickException(f"project {clean(project)} has no run {clean(given)}; {meant}")


@contextmanager
def open_session(flags: Flags, *, project: str | None = None) -> Iterator[Session]:
    """Connect to the server that options, environment and contexts name."""
    with report_errors(), connect(flags) as client:
        named = flags.get("project") or project or client.credentials.project
        yield Session(client, named or DEFAULT_PROJECT)


def connect(flags: Flags) -> Client:
    """A client of the server that options, environment and contexts name. Nothing is sent yet."""
    return Client(flags.get("endpoint"), context=flags.get("context"), retry_seconds=RETRY_SECONDS)


def has_server(flags: Flags) -> bool:
    """Whether a server is configured, by options, environment or contexts; the default address does not count."""
    with report_errors():
        found = find_credentials(endpoint=flags.get("endpoint"), context=flags.get("context"))
    return found.source != "default"


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn errors of the SDK into errors of a command: one line, or one for each problem."""
    try:
        yield
    except ApiError as error:
        if error.problems:
            raise Failed(to_finding(problem) for problem in error.problems) from None
        raise click.ClickException(clean_lines(error.message)) from None
    except RunyardError as error:
        raise click.ClickException(clean_lines(str(error))) from None
