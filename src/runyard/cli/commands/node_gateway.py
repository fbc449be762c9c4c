"""`runyard node gateway`."""

import asyncio
from pathlib import Path

import click

from runyard.cli.commands.node import require_node
from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import load
from runyard.cli.output import clean


@click.command(
    epilog=format_epilog(
        "runyard node gateway --kubeconfig gpu.kubeconfig --domain gpu.example.org --port 8443",
        exit_codes="130 interrupted    1 failed    2 usage error",
    )
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The provider's cluster.  [default: KUBECONFIG, the pod that it runs in, or ~/.kube/config]",
)
@click.option("--domain", required=True, help="Hosts outside of it are not served.")
@click.option("--namespace", help="Serve the routes of this namespace only.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Listen there.")
@click.option("--port", type=click.IntRange(0, 65535), default=8443, show_default=True)
@click.option(
    "--ca-folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the certificate authority there.  [default: a new one at every start]",
)
def gateway(
    kubeconfig: Path | None, domain: str, namespace: str | None, host: str, port: int, ca_folder: Path | None
) -> None:
    """Serve the routes of Services at the provider over HTTPS, each host with its own certificate. For trials.

    In production, an ingress controller or a Gateway does this. It must reach the provider's pods by their addresses.
    """
    require_node()
    failures = (load("runyard.kube:KubeError"), ValueError, OSError)
    try:
        settings = load("runyard.node.gateway.gateway_settings:GatewaySettings")(
            domain=domain, namespace=namespace, listen_host=host, listen_port=port, folder=ca_folder
        )
        config = load("runyard.kube:load_kubeconfig")(kubeconfig) if kubeconfig else load("runyard.kube:load_config")()
        asyncio.run(_serve(settings, config))
    except failures as error:
        raise click.ClickException(clean(str(error))) from None


async def _serve(settings: object, config: object) -> None:
    async with (
        load("runyard.kube:Client").connect(config) as client,
        load("runyard.node.gateway.gateway:Gateway")(client, settings) as served,
    ):
        click.echo(f"the gateway listens on port {served.port}")
        await asyncio.Event().wait()
