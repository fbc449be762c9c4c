"""`runyard node` as a process: builds the agent from the options, and runs it until a signal."""

import asyncio
import ipaddress
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from runyard.kube import Client, ClusterConfig, ConfigError, KubeError, load_config, load_kubeconfig
from runyard.kube.backoff import TRANSIENT, Backoff
from runyard.kube.resources import CLUSTER_NAMESPACE, NAMESPACES
from runyard.node.agent import Agent
from runyard.node.health import HealthServer
from runyard.node.node_settings import NodeSettings, SettingsError
from runyard.node.offer import Amounts, Offer
from runyard.node.offer_file import offer_from_runtime_classes
from runyard.node.offer_watch import read_offer_file, watch_offer_file
from runyard.node.providers.kubernetes.cluster_provider import ClusterProvider
from runyard.node.providers.kubernetes.offers import follow_offers
from runyard.node.providers.kubernetes.route_objects import RouteSettings
from runyard.node.providers.local.local_provider import LocalProvider
from runyard.node.providers.provider import Provider
from runyard.node.published_offer import find_published_offer
from runyard.spec.names import check_dns_label, check_dns_subdomain
from runyard.spec.problems import Refused, shorten
from runyard.telemetry import set_up_logging
from runyard.telemetry.node_metrics import NodeMetrics

MOST_NODE_CHARACTERS = 54
"""Of the node's name in a label, which has 63 at most."""

_log = logging.getLogger(__name__)


class CannotStart(Exception):
    """The agent cannot start; the text says why and what to do."""


def serve(options: Mapping[str, Any]) -> None:
    """Run the agent until SIGTERM or SIGINT."""
    set_up_logging(form=options["log_format"])
    settings = make_settings(options)
    asyncio.run(_run(options, settings))


def make_settings(options: Mapping[str, Any]) -> NodeSettings:
    """The settings; raises `SettingsError`."""
    try:
        ipaddress.ip_address(options["address"])
    except ValueError:
        raise SettingsError(f"address {options['address']!r} is not an IP address, such as 10.0.0.7") from None
    return NodeSettings(
        name=options["name"],
        namespace=options["namespace"],
        address=options["address"],
        port=options["port"],
        webhook_port=options["webhook_port"],
        tenant=options["tenant"],
        domain=options["domain"],
        allocatable=options["allocatable"],
        pod_ip=options["pod_ip"],
        allows_tokens=options["service_account_tokens"],
        accepted_provider=options["accept_provider"],
        unready_after_seconds=options["unready_after"],
    )


def load_local(options: Mapping[str, Any]) -> ClusterConfig:
    """The local cluster; raises `CannotStart`."""
    try:
        if options["kubeconfig"] is None and options["context"] is None:
            return load_config()
        return load_kubeconfig(options["kubeconfig"], context=options["context"])
    except ConfigError as error:
        raise CannotStart(f"the local cluster: {error}") from error


def load_provider(options: Mapping[str, Any]) -> tuple[ClusterConfig, str]:
    """The provider's cluster and namespace; raises `CannotStart`."""
    path: Path | None = options["provider_kubeconfig"]
    if path is None:
        raise CannotStart("--provider-kubeconfig is missing: the cluster that runs the pods")
    try:
        config = load_kubeconfig(path)
    except ConfigError as error:
        raise CannotStart(f"the provider's cluster: {error}") from error
    return config, options["provider_namespace"] or config.namespace


async def _run(options: Mapping[str, Any], settings: NodeSettings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client.connect(load_local(options)))
        cluster_uid = await _read_cluster_uid(client)
        await _check_offer(options, settings, client)
        make_provider, follow = await _open_provider(options, settings, stack, cluster_uid=cluster_uid)
        metrics = NodeMetrics()
        agent = Agent(client, settings, make_provider=make_provider, follow_offers=follow, metrics=metrics)
        if options["health_port"] is not None:
            await stack.enter_async_context(
                HealthServer(options["health_port"], find_problem=agent.find_problem, metrics=metrics)
            )
        running = asyncio.create_task(agent.run(), name="agent")
        waiting = asyncio.create_task(stopping.wait())
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        running.cancel()
        try:
            await running
        except asyncio.CancelledError:
            _log.info("stopped; pods at the provider live on")
        except KubeError as error:
            raise CannotStart(str(error)) from error


async def _read_cluster_uid(client: Client) -> str:
    """The uid of the local cluster, however long it takes to answer; a refusal ends the start."""
    backoff = Backoff(initial_seconds=0.5, maximum_seconds=15.0)
    while True:
        try:
            found = await client.get(NAMESPACES, CLUSTER_NAMESPACE)
        except TRANSIENT as error:
            _log.warning("the local cluster does not answer: %s", error)
            await asyncio.sleep(backoff.next_seconds())
        except KubeError as error:
            raise CannotStart(f"the local cluster: {error}") from error
        else:
            uid: str = found["metadata"]["uid"]
            return uid


async def _open_provider(
    options: Mapping[str, Any], settings: NodeSettings, stack: AsyncExitStack, *, cluster_uid: str
) -> tuple[Callable[[], Provider], Callable[[], AsyncIterator[Offer]]]:
    """How the provider of each term is made, and how its offers are followed."""
    if options["provider"] == "local":
        return partial(LocalProvider, _choose_folder(options)), _watch_file(options, settings)
    config, namespace = load_provider(options)
    client = await stack.enter_async_context(Client.connect(config))
    routes = make_route_settings(options)
    owner = name_owner(settings.name, cluster_uid)
    make = partial(ClusterProvider, client, namespace=namespace, node=owner, routes=routes)
    if options["offer"] is not None:
        return make, _watch_file(options, settings)
    capacity_map = options["capacity_config_map"]
    return make, partial(
        follow_offers, client, namespace=namespace, capacity_map=capacity_map, read_classes=_read_classes
    )


async def _check_offer(options: Mapping[str, Any], settings: NodeSettings, client: Client) -> None:
    """A mistake in the offer file ends the start, unless there is a node that must be kept alive."""
    path: Path | None = options["offer"]
    if path is None:
        return
    try:
        await asyncio.to_thread(read_offer_file, path)
    except (OSError, Refused) as error:
        try:
            is_published = await find_published_offer(client, node=settings.name) is not None
        except KubeError:
            is_published = True  # nobody knows: the agent must not give up
        if not is_published:
            raise CannotStart(f"--offer {path.name}: {error}") from error
        _log.error("the offer cannot be read; the node keeps what it published: %s", error)


def make_route_settings(options: Mapping[str, Any]) -> RouteSettings:
    """How Services are published; raises `CannotStart`."""
    kind, gateway = options["routes"], options["gateway"]
    if kind == "httproute" and not gateway:
        raise CannotStart("--gateway is missing: --routes httproute needs the Gateway that the routes attach to")
    for flag, wanted in (("gateway", "httproute"), ("ingress_class", "ingress")):
        if options[flag] and kind != wanted:
            shown = flag.replace("_", "-")
            raise CannotStart(f"--{shown} has no meaning with --routes {kind}; use --routes {wanted}, or leave it out")
    namespace, slash, rest = (gateway or "").partition("/")
    name, has_listener, listener = rest.partition("/")
    is_named = slash and not (check_dns_label(namespace) or check_dns_subdomain(name))
    if gateway and (not is_named or (has_listener and check_dns_subdomain(listener))):
        raise CannotStart(
            f"--gateway {shorten(gateway)} must be NS/NAME or NS/NAME/LISTENER, such as infra/public or "
            "infra/public/https"
        )
    return RouteSettings(
        kind=kind,
        ingress_class=options["ingress_class"],
        gateway=name or None,
        gateway_namespace=namespace or None,
        gateway_listener=listener or None,
    )


def name_owner(node: str, cluster_uid: str) -> str:
    """The label of everything at the provider: nodes of several clusters may have one name and share a namespace."""
    return f"{node[:MOST_NODE_CHARACTERS].rstrip('.-')}.{cluster_uid[:8]}"


def _choose_folder(options: Mapping[str, Any]) -> Path:
    if options["data"] is None:
        raise CannotStart("--data is missing: the folder where the provider `local` keeps its pods")
    folder: Path = options["data"]
    return folder.resolve()


def _watch_file(options: Mapping[str, Any], settings: NodeSettings) -> Callable[[], AsyncIterator[Offer]]:
    path: Path | None = options["offer"]
    if path is None:
        raise CannotStart(f"--offer is missing: the shapes and the capacity of node {settings.name}")
    return partial(watch_offer_file, path)


def _read_classes(classes: Iterable[Mapping[str, Any]], capacity: Amounts) -> Offer:
    offer, problems = offer_from_runtime_classes(classes, capacity)
    for problem in problems:
        _log.warning("a RuntimeClass of the provider is not offered: %s", problem)
    return offer
