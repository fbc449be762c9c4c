"""Output of `runyard doctor`: one line for each check, as soon as it is made."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import click

from runyard.cli.client_session import connect
from runyard.cli.output import LEVEL_MARKS, clean, count_things, print_data
from runyard.sdk.checks import Check
from runyard.sdk.errors import ConfigurationError


def print_diagnosis(flags: Mapping[str, Any], *, output: str) -> None:
    """Print the checks and the verdict; ends with 1 if something is wrong."""
    checks: list[Check] = []
    for check in _iter_checks(flags):
        checks.append(check)
        if output == "text":
            click.echo(f"{LEVEL_MARKS[check.level]}{clean(str(check))}")
    errors, warnings = (sum(check.level == level for check in checks) for level in ("error", "warning"))
    if output == "text":
        verdict = f"{count_things(errors, 'error')}, {count_things(warnings, 'warning')}"
        click.echo("nothing is wrong" if not errors and not warnings else verdict)
    else:
        print_data({"is_healthy": not errors, "checks": [asdict(check) for check in checks]}, output=output)
    if errors:
        raise click.exceptions.Exit(1)


def _iter_checks(flags: Mapping[str, Any]) -> Iterator[Check]:
    """A configuration that cannot be used is a finding, too."""
    try:
        with connect(flags) as client:
            yield from client.diagnose(flags.get("project"))
    except ConfigurationError as error:
        yield Check(name="configuration", level="error", message=str(error))
