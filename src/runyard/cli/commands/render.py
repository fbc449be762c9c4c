"""`runyard render`."""

from typing import Any

import click

from runyard.cli.lazy_commands import load
from runyard.cli.options import RunCommand, RunOptions, add_run_options
from runyard.cli.server_options import add_answer_options, split_flags

EXAMPLES = """\b
Examples:
  runyard render -f service.yaml
  runyard render -f service.yaml --profiles profiles/ --policy policy.yaml
  runyard render -f service.yaml --secret HF_TOKEN --id train-7 | kubectl apply -f -
  echo 'resources: {cpu: "8", mem: 32Gi}' | runyard render -f - --image busybox:1.36
  runyard render -f service.yaml --action serve --namespace ml -o json

\b
Exit codes:
  0 rendered    1 refused, no objects are printed; or no answer    2 usage error
"""


@click.command(cls=RunCommand, epilog=EXAMPLES)
@add_run_options()
@add_answer_options
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def render(output: str, **given: Any) -> None:
    """Print the Kubernetes objects of a run, for `kubectl apply -f -`.

    The file is a run file, a DigitalHub run document, or just a few fields completed by --image and --action.
    A server renders it if one is configured, by a context or the environment; nothing is stored there. With --offline,
    or with options that say what a server knows (--profiles, --policy, --secret, --volume, --claim, --config-map,
    --uid, --namespace), this program does it by itself. Standard error says which did, and has warnings and errors with
    file, line and column.

    The output is deterministic. Without --id, the run id is a hash of the run's file and of --image, --action,
    --profile and --project.

    Values of secrets are rendered empty. Offline, secrets that --secret does not name are refused.
    """
    flags, said = split_flags(given)
    options = RunOptions(**said)
    reason = load("runyard.cli.plan_sources:find_offline_reason")(flags, options)
    if reason is not None:
        load("runyard.cli.manifest_output:print_manifests")(options, reason=reason, output=output)
    else:
        load("runyard.cli.server_plans:print_manifests")(flags, options, output=output)
