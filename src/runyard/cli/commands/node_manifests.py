"""`runyard node manifests`."""

from pathlib import Path
from typing import Any

import click

from runyard.cli.commands.node import require_node, route_options
from runyard.cli.lazy_commands import load
from runyard.cli.output import clean, print_documents
from runyard.spec.names import check_dns_label
from runyard.spec.problems import Refused

EXAMPLES = """
\b
Examples:
  runyard node manifests --image runyard:latest --offer offer.yaml --provider-secret gpu-provider | kubectl apply -f -
  runyard node manifests --provider-side team-a/runyard | kubectl --context provider apply -f -

\b
Exit codes:
  0 printed    1 refused    2 usage error
"""


@click.command(epilog=EXAMPLES)
@click.option("--name", default="k8s.gpu", show_default=True, help="The name of the node.")
@click.option("--image", help="The image of the agent.")
@click.option(
    "--offer",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The offer file; it becomes a ConfigMap.",
)
@click.option("--provider-secret", metavar="NAME", help="The Secret with the provider's `kubeconfig`.")
@click.option("--provider-namespace", default="default", show_default=True, help="Where pods run at the provider.")
@click.option(
    "--service-account",
    metavar="NS/NAME",
    default="kube-system/runyard-node",
    show_default=True,
    help="The agent's service account; the agent runs in its namespace.",
)
@click.option("--tenant", default="", help="Hosts of Services are <uid>-<tenant>.<domain>.")
@click.option("--domain", default="", help="The provider's domain.")
@route_options
@click.option("--replicas", type=click.IntRange(1, 5), default=2, show_default=True)
@click.option(
    "--filling",
    type=click.Choice(("v1", "v1beta1", "webhook")),
    default="v1",
    show_default=True,
    help="The version of MutatingAdmissionPolicy: v1 since Kubernetes 1.36; webhook: where it is not served.",
)
@click.option(
    "--allocatable",
    type=click.Choice(("ledger", "static")),
    default="ledger",
    show_default=True,
    help="ledger: the agent schedules, and binds alone. static: the default scheduler does.",
)
@click.option("--provider-side", metavar="NS/NAME", help="Print the provider's namespace, account and role instead.")
def manifests(
    name: str,
    image: str | None,
    offer: Path | None,
    provider_secret: str | None,
    provider_namespace: str,
    service_account: str,
    tenant: str,
    domain: str,
    replicas: int,
    filling: str,
    allocatable: str,
    provider_side: str | None,
    **routes: Any,
) -> None:
    """Print everything that installs the agent, as YAML. Works offline."""
    require_node()
    install = "runyard.node.install"
    if provider_side is not None:
        print_documents(load(f"{install}:render_provider_side")(_split_account("--provider-side", provider_side)))
        return
    lacking = [
        flag
        for flag, value in (("--image", image), ("--offer", offer), ("--provider-secret", provider_secret))
        if not value
    ]
    if lacking or offer is None:
        raise click.UsageError(f"missing: {', '.join(lacking)}")
    namespace, account = _split_account("--service-account", service_account)
    try:
        load("runyard.node.offer_watch:read_offer_file")(offer)
        load("runyard.node.node_settings:NodeSettings")(name=name, address="", tenant=tenant, domain=domain)
        load("runyard.node.node_process:make_route_settings")(routes)
    except (Refused, OSError, ValueError, load("runyard.node.node_process:CannotStart")) as error:
        raise click.ClickException(clean(str(error))) from None
    chosen = load(f"{install}:Installation")(
        node=name,
        namespace=namespace,
        account=account,
        image=image,
        provider_secret=provider_secret,
        offer=offer.read_text(),
        provider_namespace=provider_namespace,
        tenant=tenant,
        domain=domain,
        replicas=replicas,
        filling=filling,
        allocatable=allocatable,
        route_flags=[f"--{flag.replace('_', '-')}={value}" for flag, value in sorted(routes.items()) if value],
    )
    print_documents(load(f"{install}:render_installation")(chosen))


def _split_account(flag: str, text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    problems = [problem for part in (namespace, name) if (problem := check_dns_label(part)) is not None]
    if not slash or problems:
        raise click.UsageError(f"{flag}: `{clean(text)}` must be NS/NAME, like kube-system/runyard-node")
    return namespace, name
