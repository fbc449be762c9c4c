"""Services of the node's class on two real clusters: a local one without a node, and a provider with a running pod."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from runyard.kube import Client, NotFound, Resource, load_kubeconfig
from runyard.kube.resources import EVENTS, HTTP_ROUTES, INGRESSES, SERVICES
from runyard.node.event_recorder import EventRecorder
from runyard.node.gateway.gateway import Gateway
from runyard.node.gateway.gateway_settings import GatewaySettings
from runyard.node.node_process import make_route_settings
from runyard.node.providers.kubernetes.route_objects import RouteSettings
from runyard.node.providers.kubernetes.routes import KubernetesRoutes
from runyard.node.providers.provider import ProviderUnavailable, Route, Routes
from runyard.node.services.service_loop import ServiceLoop
from runyard.node.services.service_settings import ServiceSettings
from testbed.cluster import Cluster
from testbed.gateway_api import ensure_gateway_definitions
from tests.cluster.kube.conditions import wait_until
from tests.cluster.testbed.manifests import create, pod, wait

NODE, TENANT, DOMAIN = "k8s.gpu", "skg00000", "cloud.provider.tld"
GONE = "00000000-0000-4000-8000-000000000000"


@dataclass
class Setup:
    local: Client
    remote: Client
    namespace: str
    """At the provider."""
    gateway: Gateway

    async def curl(self, host: str) -> tuple[str, str]:
        """Status and body, as a user gets them."""
        process = await asyncio.create_subprocess_exec(
            *("curl", "-sk", "--noproxy", "*", "--max-time", "10", "-w", "\n%{http_code}"),
            *("--resolve", f"{host}:{self.gateway.port}:127.0.0.1", f"https://{host}:{self.gateway.port}"),
            stdout=asyncio.subprocess.PIPE,
        )
        body, _, status = (await process.communicate())[0].decode().rpartition("\n")
        return status, body

    async def wait_answer(self, host: str, status: str, body: str = "") -> None:
        async def is_answered() -> bool:
            return await self.curl(host) == (status, body)

        await wait_until(is_answered, seconds=60)

    async def hostname(self, name: str) -> str | None:
        service = await self.local.get(SERVICES, name, namespace="default")
        ingress = service["status"]["loadBalancer"].get("ingress")
        return None if ingress is None else str(ingress[0]["hostname"])

    async def wait_host(self, name: str) -> str:
        async def is_published() -> bool:
            return await self.hostname(name) is not None

        await wait_until(is_published, seconds=60)
        return str(await self.hostname(name))

    async def remote_objects(self) -> list[str]:
        found = [await self.remote.list(kind, namespace=self.namespace) for kind in (SERVICES, INGRESSES)]
        return [item["metadata"]["name"] for listing in found for item in listing.items]


@dataclass
class Interrupted:
    """The real routes, behind a link that can be cut."""

    routes: KubernetesRoutes
    is_away: bool = False

    async def publish_route(self, route: Route) -> None:
        self._check()
        await self.routes.publish_route(route)

    async def withdraw_route(self, uid: str) -> None:
        self._check()
        await self.routes.withdraw_route(uid)

    async def list_routes(self) -> frozenset[str]:
        self._check()
        return await self.routes.list_routes()

    async def list_rejected_routes(self) -> Mapping[str, str]:
        self._check()
        return await self.routes.list_rejected_routes()

    def _check(self) -> None:
        if self.is_away:
            raise ProviderUnavailable("the link is down")


@asynccontextmanager
async def running(loop: ServiceLoop) -> AsyncIterator[None]:
    task, events = asyncio.create_task(loop.run()), asyncio.create_task(loop._recorder.run())
    try:
        yield
    finally:
        task.cancel()
        events.cancel()
        await asyncio.wait([task, events])
        assert task.cancelled()


@pytest.fixture
async def setup(cluster: Cluster, control_plane: Cluster, namespace: str) -> AsyncIterator[Setup]:
    async with (
        Client.connect(load_kubeconfig(control_plane.kubeconfig)) as local,
        Client.connect(load_kubeconfig(cluster.kubeconfig)) as remote,
        Gateway(remote, GatewaySettings(domain=DOMAIN, namespace=namespace, listen_port=0)) as gateway,
    ):
        yield Setup(local, remote, namespace, gateway)


def routes(setup: Setup) -> KubernetesRoutes:
    return KubernetesRoutes(
        setup.remote, namespace=setup.namespace, node=NODE, settings=RouteSettings(ingress_class="none")
    )


def service_loop(setup: Setup, provider: Routes | None) -> ServiceLoop:
    settings = ServiceSettings(node=NODE, tenant=TENANT, domain=DOMAIN)
    recorder = EventRecorder(setup.local, component=NODE)
    return ServiceLoop(setup.local, provider, settings, recorder=recorder, sweep_seconds=0.5)


def service(name: str, **spec: Any) -> dict[str, Any]:
    """The guide's Service."""
    return {
        "metadata": {"name": name},
        "spec": {
            "loadBalancerClass": NODE,
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
            "selector": {"run": name},
            "sessionAffinity": "None",
            "type": "LoadBalancer",
            **spec,
        },
    }


def start_pod(cluster: Cluster, namespace: str, *, local_namespace: str = "default") -> None:
    """A pod as the mirror would make it, which serves one text on port 8080 and another one on 8081."""
    script = (
        "mkdir -p /tmp/a /tmp/b && echo 'It works!' > /tmp/a/index.html && echo other > /tmp/b/index.html"
        " && httpd -p 8081 -h /tmp/b && exec httpd -f -p 8080 -h /tmp/a"
    )
    made = pod("remote", script, readinessProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1})
    made["metadata"]["labels"] = {"run": "inference", "k8s.gpu/namespace": local_namespace, "k8s.gpu/node": NODE}
    create(cluster, namespace, made)


async def test_pod_answers_by_https_when_a_service_of_the_class_selects_it(
    setup: Setup, cluster: Cluster, control_plane: Cluster
) -> None:
    start_pod(cluster, setup.namespace)
    async with running(service_loop(setup, routes(setup))):
        made = await setup.local.create(SERVICES, service("inference"), namespace="default")
        host = await setup.wait_host("inference")
        assert host == f"{made['metadata']['uid']}-{TENANT}.{DOMAIN}"
        assert await setup.remote_objects() == [f"route-{made['metadata']['uid']}"] * 2  # a Service and an Ingress
        table = control_plane.kubectl("get", "svc", "inference").splitlines()
        assert re.fullmatch(rf"inference +LoadBalancer +[\d.]+ +{re.escape(host)} +80:\d+/TCP +\d+s", table[1])
        await asyncio.to_thread(wait, cluster, setup.namespace, "pod/remote", until="condition=Ready")
        await setup.wait_answer(host, "200", "It works!\n")
        assert (await setup.curl(f"nobody.{DOMAIN}"))[0] == "404"

        await _change(setup, {"selector": {"run": "nobody"}})
        await setup.wait_answer(host, "503", "no pod behind this Service is ready\n")
        await _change(setup, {"selector": {"run": "inference"}, "ports": _port(8081)})
        await setup.wait_answer(host, "200", "other\n")

        await asyncio.to_thread(control_plane.kubectl, "delete", "service", "inference", "--timeout=60s")
        assert await setup.remote_objects() == []
        await setup.wait_answer(host, "404", "no Service has this host\n")
        with pytest.raises(NotFound):
            await setup.local.get(SERVICES, "inference", namespace="default")


async def test_pod_of_another_namespace_is_not_reached_when_its_labels_match(setup: Setup, cluster: Cluster) -> None:
    start_pod(cluster, setup.namespace, local_namespace="other")
    await asyncio.to_thread(wait, cluster, setup.namespace, "pod/remote", until="condition=Ready")
    async with running(service_loop(setup, routes(setup))):
        await setup.local.create(SERVICES, service("inference"), namespace="default")
        host = await setup.wait_host("inference")
        await setup.wait_answer(host, "503", "no pod behind this Service is ready\n")
        await _delete(setup, "inference")


async def test_other_services_stay_untouched_when_one_of_the_class_is_published(setup: Setup) -> None:
    others = [
        service("foreign", loadBalancerClass="example.org/other"),
        service("classless", loadBalancerClass=None),
        service("internal", loadBalancerClass=None, type="ClusterIP"),
    ]
    before = [await setup.local.create(SERVICES, other, namespace="default") for other in others]
    async with running(service_loop(setup, routes(setup))):
        await setup.local.create(SERVICES, service("ours"), namespace="default")
        await setup.wait_host("ours")
        assert await routes(setup).list_routes() == {await _uid(setup, "ours")}
        await _delete(setup, "ours")
    after = [await setup.local.get(SERVICES, other["metadata"]["name"], namespace="default") for other in others]
    assert after == before
    for other in others:
        await setup.local.delete(SERVICES, other["metadata"]["name"], namespace="default")


async def test_service_is_let_go_when_its_type_changes_or_it_is_refused(setup: Setup) -> None:
    async with running(service_loop(setup, routes(setup))):
        for name in ("retyped", "refused"):
            await setup.local.create(SERVICES, service(name), namespace="default")
            await setup.wait_host(name)
        await _change(setup, {"type": "ClusterIP", "loadBalancerClass": None}, name="retyped")
        udp = [{"name": "http", "port": 80, "protocol": "UDP", "targetPort": 8080}]
        await _change(setup, {"ports": udp}, name="refused")
        for name in ("retyped", "refused"):
            await _wait_released(setup, name)
            assert await setup.hostname(name) is None
        assert await setup.remote_objects() == []
        assert "only TCP is allowed" in await _told(setup, "refused")
        for name in ("retyped", "refused"):
            await _delete(setup, name)


async def test_leftover_route_is_withdrawn_when_its_service_is_gone(setup: Setup) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
    host = f"{GONE}-{TENANT}.{DOMAIN}"
    leftover = Route(uid=GONE, namespace="default", name="x", host=host, selector={"a": "b"}, ports=ports)
    provider = routes(setup)
    await setup.local.create(SERVICES, service("kept"), namespace="default")
    async with running(service_loop(setup, provider)):
        await setup.wait_host("kept")
    await provider.publish_route(leftover)
    assert await provider.list_routes() == {GONE, await _uid(setup, "kept")}

    async def is_swept() -> bool:
        return GONE not in await provider.list_routes()

    async with running(service_loop(setup, provider)):
        await wait_until(is_swept, seconds=60)
        assert await provider.list_routes() == {await _uid(setup, "kept")}
        await _delete(setup, "kept")


async def test_service_is_held_until_its_route_is_withdrawn_when_the_provider_is_away(setup: Setup) -> None:
    provider = Interrupted(routes(setup))
    async with running(service_loop(setup, provider)):
        await setup.local.create(SERVICES, service("held"), namespace="default")
        await setup.wait_host("held")
        provider.is_away = True
        await setup.local.delete(SERVICES, "held", namespace="default")

        async def is_told() -> bool:
            return "the link is down" in await _told(setup, "held")

        await wait_until(is_told, seconds=60)
        assert (await setup.local.get(SERVICES, "held", namespace="default"))["metadata"]["deletionTimestamp"]
        provider.is_away = False
        await _wait_gone(setup, "held")
        assert await setup.remote_objects() == []


async def test_service_is_refused_in_words_when_the_provider_has_no_routes(setup: Setup) -> None:
    async with running(service_loop(setup, None)):
        await setup.local.create(SERVICES, service("routeless"), namespace="default")

        async def is_told() -> bool:
            return "cannot publish routes" in await _told(setup, "routeless")

        await wait_until(is_told, seconds=60)
        assert "finalizers" not in (await setup.local.get(SERVICES, "routeless", namespace="default"))["metadata"]
        await setup.local.delete(SERVICES, "routeless", namespace="default")


async def test_http_routes_follow_services_when_the_provider_has_the_gateway_api(control_plane: Cluster) -> None:
    """The definitions are those of the Gateway API's own release; no controller serves the routes."""
    for path in await asyncio.to_thread(ensure_gateway_definitions):
        control_plane.kubectl("apply", "--server-side", "-f", str(path))

    async def is_served() -> bool:  # `kubectl wait` fails on a definition that has no conditions yet
        found = json.loads(control_plane.kubectl("get", "crd/httproutes.gateway.networking.k8s.io", "-o", "json"))
        conditions = found.get("status", {}).get("conditions") or ()
        return any((each["type"], each["status"]) == ("Established", "True") for each in conditions)

    await wait_until(is_served, seconds=60)
    control_plane.kubectl("create", "namespace", "routes")
    flags = {"routes": "httproute", "ingress_class": None, "gateway": "infra/public"}
    async with Client.connect(load_kubeconfig(control_plane.kubeconfig)) as client:
        settings = ServiceSettings(node=NODE, tenant=TENANT, domain=DOMAIN)

        def make_loop(chosen: RouteSettings) -> ServiceLoop:
            routes = KubernetesRoutes(client, namespace="routes", node=NODE, settings=chosen)
            recorder = EventRecorder(client, component=NODE)
            return ServiceLoop(client, routes, settings, recorder=recorder, sweep_seconds=0.5)

        async def find(resource: Resource) -> list[Any]:
            return (await client.list(resource, namespace="routes")).items

        async def has_ingress() -> bool:
            return bool(await find(INGRESSES))

        async def has_http_route() -> bool:
            return bool(await find(HTTP_ROUTES))

        made = await client.create(SERVICES, service("inference"), namespace="default")
        name = f"route-{made['metadata']['uid']}"
        async with running(make_loop(RouteSettings())):
            await wait_until(has_ingress, seconds=60)
        async with running(make_loop(make_route_settings(flags))):
            await wait_until(has_http_route, seconds=60)
            (route,) = await find(HTTP_ROUTES)
            assert route["metadata"]["name"] == name
            assert route["spec"]["hostnames"] == [f"{made['metadata']['uid']}-{TENANT}.{DOMAIN}"]
            (parent,), (rule,) = route["spec"]["parentRefs"], route["spec"]["rules"]
            assert (parent["kind"], parent["namespace"], parent["name"]) == ("Gateway", "infra", "public")
            (backend,) = rule["backendRefs"]
            assert (backend["kind"], backend["name"], backend["port"]) == ("Service", name, 80)

            async def is_replaced() -> bool:
                return not await has_ingress()

            await wait_until(is_replaced, seconds=60)
            await client.patch(SERVICES, "inference", {"spec": {"ports": _port(8081)}}, namespace="default")

            async def follows() -> bool:
                (found,) = await find(HTTP_ROUTES)
                return bool(found["spec"]["rules"][0]["backendRefs"][0]["port"] == 8080)

            await wait_until(follows, seconds=60)
            await asyncio.to_thread(control_plane.kubectl, "delete", "service", "inference", "--timeout=60s")
            assert await find(HTTP_ROUTES) == []
            assert await find(SERVICES) == []


def _port(target: int) -> list[dict[str, Any]]:
    return [{"name": "http", "port": 8080, "protocol": "TCP", "targetPort": target}]


async def _change(setup: Setup, spec: dict[str, Any], *, name: str = "inference") -> None:
    await setup.local.patch(SERVICES, name, {"spec": spec}, namespace="default")


async def _delete(setup: Setup, name: str) -> None:
    await setup.local.delete(SERVICES, name, namespace="default")
    await _wait_gone(setup, name)


async def _wait_gone(setup: Setup, name: str) -> None:
    async def is_gone() -> bool:
        listing = await setup.local.list(SERVICES, namespace="default")
        return name not in [item["metadata"]["name"] for item in listing.items]

    await wait_until(is_gone, seconds=60)


async def _wait_released(setup: Setup, name: str) -> None:
    async def is_released() -> bool:
        found = await setup.local.get(SERVICES, name, namespace="default")
        return "k8s.gpu/route" not in found["metadata"].get("finalizers", [])

    await wait_until(is_released, seconds=60)


async def _uid(setup: Setup, name: str) -> str:
    return str((await setup.local.get(SERVICES, name, namespace="default"))["metadata"]["uid"])


async def _told(setup: Setup, name: str) -> str:
    selector = f"involvedObject.kind=Service,involvedObject.name={name}"
    listing = await setup.local.list(EVENTS, namespace="default", field_selector=selector)
    return "\n".join(item["message"] for item in listing.items)
