"""`runyard node drain` and `runyard node leave`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import click

from runyard.cli.commands.node import local_options, require_node
from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import load
from runyard.cli.output import clean


@click.command(epilog=format_epilog("runyard node drain --timeout 300"))
@local_options
@click.option("--timeout", type=click.FloatRange(min=1), default=600.0, show_default=True, metavar="SECONDS")
def drain(timeout: float, **options: Any) -> None:
    """Take no new pods, evict those on the node, and wait until they are gone.

    PodDisruptionBudgets are obeyed. `kubectl uncordon` lets the node take pods again.
    """
    work = load("runyard.node.departure:drain")
    _run(options, lambda client: work(client, options["name"], seconds=timeout, say=click.echo))


@click.command(
    epilog=format_epilog(
        "runyard node leave",
        "runyard node leave --name k8s.gpu --force",
    )
)
@local_options
@click.option("--namespace", default="kube-system", show_default=True, help="Where the agents elected their leader.")
@click.option(
    "--force",
    is_flag=True,
    help="Even if an agent runs, pods are on the node, or Services have routes: those are lost.",
)
def leave(namespace: str, force: bool, **options: Any) -> None:  # noqa: FBT001 - click passes it by name
    """Delete the node, its Leases and its RuntimeClasses, after the agents were stopped.

    Refuses while an agent runs, pods are on the node, or Services of its class have routes at the provider.
    """
    work = load("runyard.node.departure:leave")
    _run(
        options,
        lambda client: work(client, options["name"], namespace=namespace, is_forced=force, say=click.echo),
    )


def _run(options: Mapping[str, Any], work: Callable[[Any], Awaitable[None]]) -> None:
    require_node()
    process = "runyard.node.node_process"

    async def connect_and_work() -> None:
        async with load("runyard.kube:Client").connect(load(f"{process}:load_local")(options)) as client:
            await work(client)

    failures = (
        load(f"{process}:CannotStart"),
        load("runyard.node.departure:CannotLeave"),
        load("runyard.kube:KubeError"),
    )
    try:
        asyncio.run(connect_and_work())
    except failures as error:
        raise click.ClickException(clean(str(error))) from None
