"""`runyard render`."""

from typing import Any

import click

from runyard.cli.lazy_commands import load
from runyard.cli.options import RunOptions, add_run_options

EXAMPLES = """\b
Examples:
  runyard render -f run.yaml --profiles profiles/ --policy policy.yaml
  runyard render -f run.yaml --secret HF_TOKEN --id train-7 | kubectl apply -f -
  echo 'resources: {cpu: "8", mem: 32Gi}' | runyard render -f - --image busybox:1.36
  runyard render -f service.yaml --action serve --namespace ml -o json

\b
Exit codes:
  0 rendered    1 refused; nothing is printed    2 wrong use
"""


@click.command(epilog=EXAMPLES)
@add_run_options
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def render(output: str, **given: Any) -> None:
    """Print the Kubernetes objects that a run becomes, for `kubectl apply -f -`.

    The file is a run file, a DigitalHub run document, or nothing but a few fields: --image and --action say the rest.
    No cluster and no server is asked. Warnings and refusals go to standard error, each with its place in the file.

    The same files and options print the same objects: without --id, the id is made of the run's file and of --image,
    --action, --profile and --project.

    Secrets stay with the platform. The ones named by --secret are rendered empty; any other is refused.
    """
    load("runyard.cli.manifest_output:print_manifests")(RunOptions(**given), output=output)
