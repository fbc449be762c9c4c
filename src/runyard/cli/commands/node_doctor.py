"""`runyard node doctor`."""

import asyncio
from typing import Any

import click

from runyard.cli.commands.node import local_options, provider_options, require_node
from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import load
from runyard.cli.output import LEVEL_MARKS, clean


@click.command(
    epilog=format_epilog(
        "runyard node doctor --provider-kubeconfig gpu.kubeconfig --offer offer.yaml",
        exit_codes="0 nothing is missing    1 something is missing, or no answer    2 usage error",
    )
)
@local_options
@provider_options
@click.option("--namespace", default="kube-system", show_default=True, help="Where the agents elect their leader.")
def doctor(namespace: str, **options: Any) -> None:
    """Check both sides: rights, admission, the node, the offer. Exits with 1 if something is missing."""
    require_node()
    failures: tuple[type[Exception], ...] = tuple(
        map(load, ("runyard.node.node_process:CannotStart", "runyard.kube:KubeError"))
    )
    try:
        findings = asyncio.run(_examine(namespace, options))
    except failures as error:
        raise click.ClickException(clean(str(error))) from None
    for finding in findings:
        click.echo(f"{LEVEL_MARKS[finding.level]}{finding.where}: {clean(finding.text)}")
    if any(finding.level == "error" for finding in findings):
        raise click.exceptions.Exit(1)


async def _examine(namespace: str, options: dict[str, Any]) -> list[Any]:
    connect = load("runyard.kube:Client").connect
    process, module = "runyard.node.node_process", "runyard.node.doctor"
    findings = []
    async with connect(load(f"{process}:load_local")(options)) as client:
        examine = load(f"{module}:examine_local")
        findings += [finding async for finding in examine(client, node=options["name"], namespace=namespace)]
        tie = await load(f"{module}:find_tie")(client, node=options["name"])
    if options["provider"] == "kubernetes" and options["provider_kubeconfig"] is not None:
        config, provider_namespace = load(f"{process}:load_provider")(options)
        async with connect(config) as client:
            examine = load(f"{module}:examine_provider")
            findings += [finding async for finding in examine(client, namespace=provider_namespace, tie=tie)]
    findings += load(f"{module}:examine_offer")(options["offer"])
    return findings
