"""`runyard render`."""

from typing import Any

import click

from runyard.cli.lazy_commands import load
from runyard.cli.options import RunCommand, RunOptions, add_run_options

EXAMPLES = """\b
Examples:
  runyard render -f run.yaml --profiles profiles/ --policy policy.yaml
  runyard render -f run.yaml --secret HF_TOKEN --id train-7 | kubectl apply -f -
  echo 'resources: {cpu: "8", mem: 32Gi}' | runyard render -f - --image busybox:1.36
  runyard render -f service.yaml --action serve --namespace ml -o json

\b
Exit codes:
  0 rendered    1 refused; no objects are printed    2 usage error
"""


@click.command(cls=RunCommand, epilog=EXAMPLES)
@add_run_options()
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def render(output: str, **given: Any) -> None:
    """Print the Kubernetes objects of a run, for `kubectl apply -f -`.

    The file is a run file, a DigitalHub run document, or just a few fields completed by --image and --action.
    Contacts neither a cluster nor a server. Warnings and errors go to standard error, with file, line and column.

    The output is deterministic. Without --id, the run id is a hash of the run's file and of --image, --action,
    --profile and --project.

    Secret values are known only to a server. Secrets named by --secret are rendered empty; any other is refused.
    """
    load("runyard.cli.manifest_output:print_manifests")(RunOptions(**given), output=output)
