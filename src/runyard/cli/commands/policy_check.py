"""`runyard policy check`."""

import click

from runyard.cli.lazy_commands import load

EXAMPLES = """\b
Examples:
  runyard policy check policy.yaml
  runyard policy check core.env

\b
Exit codes:
  0 it can be used    1 refused    2 wrong use
"""


@click.command(epilog=EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
def check(file: str) -> None:
    """Read a policy FILE and say all that is wrong or doubtful about it.

    The file is Runyard's YAML or DigitalHub's settings: lines KEY=VALUE, or a YAML mapping, with K8S_… names.
    """
    load("runyard.cli.rehearsal_report:print_check")(file)
