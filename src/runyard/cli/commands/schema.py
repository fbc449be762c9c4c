"""`runyard schema`."""

from types import MappingProxyType

import click

from runyard.cli.lazy_commands import load

KINDS = MappingProxyType(
    {
        "run-file": "A run as a file: what it is, and what it asks for.",
        "profile": "An admin's named shape of a run.",
        "policy": "An admin's defaults, limits and permissions.",
        "project": "A project, in DigitalHub's form.",
        "function": "A function: what to run.",
        "task": "A task: a function and an action.",
        "run": "A run, in DigitalHub's form.",
        "secret": "A secret that the platform stores.",
        "configmap": "A config map: files that runs mount.",
    }
)
"""Repeated from `runyard.spec.json_schema`, so that completion need not import it. A test compares the two."""

EXAMPLES = """\b
Examples:
  runyard schema
  runyard schema run-file > run-file.schema.json
  runyard schema policy -o yaml

\b
Exit codes:
  0 printed    2 usage error
"""


@click.command(epilog=EXAMPLES)
@click.argument("kind", type=click.Choice(list(KINDS)), metavar="[KIND]", required=False)
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), default="json", show_default=True)
def schema(kind: str | None, output: str) -> None:
    """Print the JSON Schema of a KIND of document; without KIND, list the kinds."""
    if kind is None:
        width = max(map(len, KINDS))
        for name, line in KINDS.items():
            click.echo(f"{name:<{width}}  {line}")
        return
    load("runyard.cli.output:print_data")(load("runyard.spec.json_schema:build_schema")(kind), output=output)
