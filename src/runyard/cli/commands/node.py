"""`runyard node`."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from runyard.cli.lazy_commands import Entry, LazyGroup, load

EXAMPLES = """
\b
Examples:
  runyard node --provider-kubeconfig gpu.kubeconfig --provider-namespace team-a --offer offer.yaml --address 10.0.0.7
  runyard node doctor --provider-kubeconfig gpu.kubeconfig --offer offer.yaml
  runyard node manifests --image runyard:latest --offer offer.yaml --provider-secret gpu-provider | kubectl apply -f -

\b
Exit codes:
  0 stopped by a signal    1 cannot start    2 usage error
"""
ENTRIES = {
    "manifests": Entry("runyard.cli.commands.node_manifests:manifests", "Print the objects that install the agent."),
    "doctor": Entry("runyard.cli.commands.node_doctor:doctor", "Check both sides, and say what is missing."),
    "drain": Entry("runyard.cli.commands.node_leave:drain", "Take no new pods, and wait until the others have ended."),
    "leave": Entry("runyard.cli.commands.node_leave:leave", "Remove the node and what belongs to it."),
    "gateway": Entry("runyard.cli.commands.node_gateway:gateway", "Serve routes of Services over HTTPS, for trials."),
}


def local_options(command: Any) -> Any:
    """The options of every command that speaks to the local cluster."""
    for option in (
        click.option("--context", metavar="NAME", help="The context of the local cluster's kubeconfig."),
        click.option(
            "--kubeconfig",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="The local cluster.  [default: KUBECONFIG, the pod that it runs in, or ~/.kube/config]",
        ),
        click.option("--name", default="k8s.gpu", show_default=True, help="The name of the node."),
    ):
        command = option(command)
    return command


def provider_options(command: Any) -> Any:
    """The options of every command that speaks to the provider."""
    for option in (
        click.option(
            "--offer",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="The shapes and the capacity that the node offers.  [default: the provider's own RuntimeClasses]",
        ),
        click.option("--provider-namespace", metavar="NS", help="Where pods run.  [default: that of its kubeconfig]"),
        click.option(
            "--provider-kubeconfig",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            envvar="RUNYARD_NODE_PROVIDER_KUBECONFIG",
            help="The provider's cluster.",
        ),
        click.option(
            "--provider",
            type=click.Choice(("kubernetes", "local")),
            default="kubernetes",
            show_default=True,
            help="Who runs the pods.",
        ),
    ):
        command = option(command)
    return command


def route_options(command: Any) -> Any:
    """How Services are published at the provider."""
    for option in (
        click.option(
            "--gateway",
            metavar="NS/NAME[/LISTENER]",
            help="The Gateway at the provider that HTTPRoutes attach to, and which of its listeners.  [default: all]",
        ),
        click.option("--ingress-class", help="The IngressClass of routes at the provider."),
        click.option(
            "--routes",
            type=click.Choice(("ingress", "httproute", "service")),
            default="ingress",
            show_default=True,
            help="What Services become at the provider; service: for `runyard node gateway`.",
        ),
    ):
        command = option(command)
    return command


@click.group(cls=LazyGroup, entries=ENTRIES, epilog=EXAMPLES, invoke_without_command=True)
@local_options
@provider_options
@click.option("--address", envvar="RUNYARD_NODE_ADDRESS", help="The IP address where the apiserver reaches this agent.")
@click.option("--port", type=click.IntRange(0, 65535), default=10250, show_default=True, help="The kubelet port.")
@click.option(
    "--webhook-port",
    type=click.IntRange(0, 65535),
    help="Fill pods by a webhook there, where the cluster does not serve MutatingAdmissionPolicies.",
)
@click.option("--health-port", type=click.IntRange(0, 65535), help="Serve /healthz, /readyz and /metrics there.")
@click.option(
    "--namespace",
    envvar="RUNYARD_NODE_NAMESPACE",
    default="kube-system",
    show_default=True,
    help="Where the agents of this node elect their leader.",
)
@click.option("--tenant", default="", help="Hosts of Services are <uid>-<tenant>.<domain>.")
@click.option("--domain", default="", help="The provider's domain.")
@click.option(
    "--allocatable",
    type=click.Choice(("ledger", "static")),
    default="ledger",
    show_default=True,
    help="ledger: the agent schedules. static: constant figures, and the default scheduler does.",
)
@click.option(
    "--pod-ip",
    type=click.Choice(("none", "remote", "agent")),
    default="none",
    show_default=True,
    help="What status.podIP shows: an address of the provider means nothing in this cluster.",
)
@click.option(
    "--unready-after",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the provider may be out of reach before its pods turn unready.",
)
@route_options
@click.option("--service-account-tokens", is_flag=True, help="Hand tokens that pods ask for to the provider.")
@click.option(
    "--accept-provider",
    metavar="UID",
    default="",
    help="Take this provider although pods of the node are at another one: they are given up, and fail.",
)
@click.option("--capacity-config-map", metavar="NAME", help="At the provider: the capacity, if there is no --offer.")
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), help="Where the provider `local` keeps its pods."
)
@click.option("--log-format", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.pass_context
def node(context: click.Context, /, **options: Any) -> None:
    """Join a cluster as a virtual node, and run its pods at a provider.

    The node offers RuntimeClasses. Pods of these classes get their resources filled in, wait until there is room, and
    then run at the provider, first of all another Kubernetes cluster. Several agents of one node elect a leader.
    """
    if context.invoked_subcommand is not None:
        return
    require_node()
    if not options["address"]:
        raise click.UsageError(
            "--address is missing: the IP address where the apiserver of the cluster reaches this agent"
        )
    serve = load("runyard.node.node_process:serve")
    try:
        serve(options)
    except (load("runyard.node.node_process:CannotStart"), load("runyard.node.node_settings:SettingsError")) as error:
        raise click.ClickException(load("runyard.cli.output:clean")(str(error))) from None


def require_node() -> None:
    """Refuse where the extra is not installed."""
    lacking = [name for name in ("aiohttp", "cryptography", "msgspec") if find_spec(name) is None]
    if lacking:
        raise click.ClickException(f"this command requires {', '.join(lacking)}: run pip install 'runyard[node]'")
