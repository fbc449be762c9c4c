"""`runyard policy check`."""

import click

from runyard.cli.lazy_commands import load

EXAMPLES = """\b
Examples:
  runyard policy check policy.yaml
  runyard policy check core.env

\b
Exit codes:
  0 valid    1 refused    2 usage error
"""


@click.command(epilog=EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
def check(file: str) -> None:
    """Check a policy FILE for errors and likely mistakes.

    FILE is Runyard's YAML, or DigitalHub's settings: KEY=VALUE lines or a YAML mapping, with K8S_… names.
    """
    load("runyard.cli.rehearsal_report:print_check")(file)
