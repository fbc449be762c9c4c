"""`runyard server rbac`."""

from collections.abc import Mapping
from importlib.util import find_spec

import click

from runyard.cli.lazy_commands import load
from runyard.cli.output import clean, print_documents
from runyard.spec.names import check_dns_label

EXAMPLES = """
\b
Examples:
  runyard server rbac --namespace ml | kubectl apply -f -
  runyard server rbac --namespace-per-project --service-account runyard/runyard | kubectl apply -f -

\b
Exit codes:
  0 printed    1 failed    2 usage error
"""


@click.command(epilog=EXAMPLES)
@click.option("--namespace", metavar="NS", help="All runs are in this namespace.")
@click.option("--namespace-per-project", is_flag=True, help="Each project has a namespace, which the server creates.")
@click.option(
    "--service-account",
    metavar="NS/NAME",
    default="runyard/runyard",
    show_default=True,
    help="The server's service account.",
)
@click.option("--no-cluster-view", is_flag=True, help="Leave out the optional reads of nodes and of others' pods.")
def rbac(
    namespace: str | None,
    namespace_per_project: bool,  # noqa: FBT001 - click passes them by name
    service_account: str,
    no_cluster_view: bool,  # noqa: FBT001
) -> None:
    """Print the roles that the server needs on Kubernetes, and no more, as YAML.

    Works offline. The server tells at start which of these rights its account lacks.
    """
    if (namespace is None) != namespace_per_project:
        raise click.UsageError("choose one of --namespace NS and --namespace-per-project")
    place, slash, name = service_account.partition("/")
    if not slash:
        raise click.UsageError(f"--service-account: `{clean(service_account)}` must be NS/NAME, like runyard/runyard")
    _check_names(
        {"--namespace": namespace, "--service-account, the namespace": place, "--service-account, the name": name}
    )
    if find_spec("aiohttp") is None:
        raise click.ClickException("this command requires aiohttp: run pip install 'runyard[kubernetes]'")
    render = load("runyard.engines.kubernetes.rbac:render_rbac")
    print_documents(render(namespace=namespace, account=(place, name), has_view=not no_cluster_view))


def _check_names(names: Mapping[str, str | None]) -> None:
    """Each must be a DNS label. Kubernetes allows dots in names of accounts; names of bindings are made of them."""
    found = [(where, name, check_dns_label(name)) for where, name in names.items() if name is not None]
    errors = [f"{where}: `{clean(name)}` {error}" for where, name, error in found if error is not None]
    if errors:
        raise click.UsageError("; ".join(errors))
