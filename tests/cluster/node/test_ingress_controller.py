"""Services of the node's class behind a real controller: Traefik serves the Ingresses and HTTPRoutes of the agent.

The agent has exactly the printed rights, and the pods are those of the virtual node.
"""

import asyncio
import json
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from runyard.kube import Client, load_kubeconfig
from runyard.node.event_recorder import EventRecorder
from runyard.node.node_process import make_route_settings
from runyard.node.providers.kubernetes.routes import KubernetesRoutes
from runyard.node.services.service_loop import ServiceLoop
from runyard.node.services.service_settings import ServiceSettings
from testbed.cluster import Cluster
from testbed.gateway_api import ensure_gateway_definitions
from testbed.traefik import GATEWAY_CONTROLLER, INGRESS_CLASS, INGRESS_CONTROLLER, Traefik
from tests.cluster.node.agent_bed import NODE, AgentBed, open_bed, wait_for
from tests.cluster.node.test_services import running

pytestmark = pytest.mark.traefik

OTHER_NODE = "k8s.other"
SHAPE, TENANT, DOMAIN = "serving", "skg00000", "cloud.provider.tld"
OFFER = {
    "capacity": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "0", "pods": "8"},
    "shapes": [{"name": SHAPE, "handler": "nvidia", "limits": {"cpu": "100m", "memory": "64Mi", "gpu": "0"}}],
}
FLAGS = {
    "ingress": ("--routes=ingress", f"--ingress-class={INGRESS_CLASS}"),
    "httproute": ("--routes=httproute", "--gateway=infra/public/https"),
}
# Kubernetes' own label of every namespace.
NAME_OF_NAMESPACE = "kubernetes.io/metadata.name"
LABELS = {"test": "ingress-controller"}


@dataclass
class Publication:
    """An agent that publishes Services in one way, and the controller that serves them."""

    bed: AgentBed
    traefik: Traefik

    def curl(self, host: str, *, is_plain: bool = False) -> tuple[str, str]:
        """Status and body; the certificate is verified."""
        port = self.traefik.plain_port if is_plain else self.traefik.port
        url = f"http{'' if is_plain else 's'}://{host}:{port}"
        done = subprocess.run(
            [
                *("curl", "-s", "--cacert", str(self.bed.provider.ca_file), "--noproxy", "*", "--max-time", "10"),
                *("--write-out", "\n%{http_code}", "--resolve", f"{host}:{port}:127.0.0.1", url),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"curl {host}: exit code {done.returncode}"
        body, _, status = done.stdout.rpartition("\n")
        return status, body

    def wait_answer(self, host: str, status: str, body: str | None = None) -> None:
        """Wait for this answer; the last one is in the failure."""
        last: list[tuple[str, str]] = []

        def look() -> bool:
            last[:] = [self.curl(host)]
            return last[0][0] == status and body in (None, last[0][1])

        try:
            wait_for(f"{status} {body}", look)
        except AssertionError as error:
            raise AssertionError(f"{error}; the last answer: {last}\n{self.traefik.log.read_text()[-2000:]}") from None

    def publish(self, name: str = "inference", *, node: str = NODE) -> str:
        """Create the guide's Service, and return the host that its status names."""
        self.bed.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "namespace": "default", "labels": LABELS},
                "spec": {
                    "type": "LoadBalancer",
                    "loadBalancerClass": node,
                    "selector": {"run": name},
                    "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
                },
            }
        )

        def look() -> Any:
            return self.bed.get("service", name)["status"]["loadBalancer"].get("ingress")

        (entry,) = wait_for("the host", look)
        return str(entry["hostname"])

    def change(self, **spec: Any) -> None:
        """Change the Service's spec."""
        self.bed.local.kubectl("patch", "service", "inference", "--type=merge", "--patch", json.dumps({"spec": spec}))

    def start_pod(self, name: str, words: str, *, port: int = 8080, namespace: str = "default") -> None:
        """A pod of the virtual node, with the label `run=NAME`, that answers with these words."""
        self.bed.apply(make_server(name, words, port=port, namespace=namespace))
        running = "--for=jsonpath={.status.phase}=Running"
        self.bed.local.kubectl("wait", f"pod/{name}", "-n", namespace, running, "--timeout=60s")

    def clean_up(self) -> None:
        label = ",".join(f"{key}={value}" for key, value in LABELS.items())
        self.bed.local.kubectl("delete", "services,pods", "-A", "-l", label, "--timeout=60s")
        self.bed.provider.kubectl("delete", "pods", "-n", self.bed.provider_namespace, "-l", label, "--timeout=60s")


def make_server(name: str, words: str, *, port: int, namespace: str) -> dict[str, Any]:
    script = f"mkdir -p /tmp/www && echo '{words}' > /tmp/www/index.html && exec httpd -f -p {port} -h /tmp/www"
    container = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {**LABELS, "run": name}},
        "spec": {"runtimeClassName": SHAPE, "terminationGracePeriodSeconds": 1, "containers": [container]},
    }


@pytest.fixture(scope="module")
def bed(local_cluster: Cluster, own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentBed]:
    folder = tmp_path_factory.mktemp("agent")
    with open_bed(local_cluster, own_cluster, f"tenant-{secrets.token_hex(3)}", folder, offer=OFFER) as bed:
        yield bed


@pytest.fixture(scope="module")
def traefik(bed: AgentBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traefik]:
    """A controller with an IngressClass and a Gateway, to which the tenant's namespace alone may attach routes."""
    provider, folder = bed.provider, tmp_path_factory.mktemp("traefik")
    for path in ensure_gateway_definitions():
        provider.kubectl("apply", "--server-side", "-f", str(path))
        provider.kubectl("wait", "-f", str(path), "--for=create", "--timeout=60s")
        provider.kubectl("wait", "-f", str(path), "--for=condition=Established", "--timeout=60s")
    certificate = provider.certificate("wildcard", hosts=[f"*.{DOMAIN}"])
    provider.kubectl("create", "namespace", "infra")
    provider.kubectl(
        *("create", "secret", "tls", "wildcard", "-n", "infra", f"--cert={certificate[0]}", f"--key={certificate[1]}")
    )
    controller = Traefik(provider, folder, certificate=certificate)
    for made in render_classes(bed.provider_namespace, controller):
        provider.kubectl("apply", "-f", "-", stdin=json.dumps(made))
    with controller:
        yield controller


def render_classes(tenant: str, controller: Traefik) -> list[dict[str, Any]]:
    https = {"protocol": "HTTPS", "port": controller.port, "tls": {"certificateRefs": [{"name": "wildcard"}]}}
    http = {"protocol": "HTTP", "port": controller.plain_port}
    tenants = {"from": "Selector", "selector": {"matchLabels": {NAME_OF_NAMESPACE: tenant}}}
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "IngressClass",
            "metadata": {"name": INGRESS_CLASS},
            "spec": {"controller": INGRESS_CONTROLLER},
        },
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": "traefik"},
            "spec": {"controllerName": GATEWAY_CONTROLLER},
        },
        render_gateway("public", {"https": https, "http": http}, namespaces=tenants),
        render_gateway("private", {"https": https}, namespaces={"from": "Same"}),
    ]


def render_gateway(name: str, listeners: dict[str, Any], *, namespaces: dict[str, Any]) -> dict[str, Any]:
    allowed = {"hostname": f"*.{DOMAIN}", "allowedRoutes": {"namespaces": namespaces}}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": name, "namespace": "infra"},
        "spec": {
            "gatewayClassName": "traefik",
            "listeners": [{"name": listener, **spec, **allowed} for listener, spec in listeners.items()],
        },
    }


@pytest.fixture(scope="module", params=list(FLAGS))
def agent(request: pytest.FixtureRequest, bed: AgentBed, traefik: Traefik) -> Iterator[Publication]:
    started = bed.start(f"--tenant={TENANT}", f"--domain={DOMAIN}", *FLAGS[request.param])
    bed.wait_ready()
    bed.wait_filling(SHAPE)
    yield Publication(bed, traefik)
    assert started.stop() == 0


@pytest.fixture
def publication(agent: Publication) -> Iterator[Publication]:
    yield agent
    agent.clean_up()


def test_pod_answers_through_the_controller_when_a_service_of_the_class_selects_it(publication: Publication) -> None:
    publication.start_pod("inference", "It works!")
    publication.start_pod("second", "the second", port=8081)
    host = publication.publish()
    publication.wait_answer(host, "200", "It works!\n")
    assert publication.curl(f"nobody.{DOMAIN}")[0] == "404"

    publication.change(
        selector={"run": "second"}, ports=[{"name": "http", "port": 8080, "protocol": "TCP", "targetPort": 8081}]
    )
    publication.wait_answer(host, "200", "the second\n")

    publication.bed.local.kubectl("delete", "service", "inference", "--timeout=60s")
    publication.wait_answer(host, "404")
    for kind in ("services", "ingresses", "httproutes"):
        assert publication.bed.get_remote(kind)["items"] == []


def test_nobody_answers_for_a_pod_when_it_is_absent_or_refuses(publication: Publication) -> None:
    """Neither a pod of another local namespace nor one of the provider's own, whose labels are the same."""
    bed = publication.bed
    bed.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    publication.start_pod("inference", "theirs", namespace="other")
    foreign = make_server("inference", "the provider's", port=8080, namespace=bed.provider_namespace)
    del foreign["spec"]["runtimeClassName"]
    bed.provider.kubectl("apply", "-f", "-", stdin=json.dumps(foreign))
    bed.provider.kubectl("wait", "pod/inference", "-n", bed.provider_namespace, "--for=condition=Ready")

    host = publication.publish()
    publication.wait_answer(host, "503")
    publication.start_pod("deaf", "nobody reads this", port=8081)
    publication.change(selector={"run": "deaf"})
    publication.wait_answer(host, "502")


@pytest.mark.parametrize("agent", ["httproute"], indirect=True)
def test_route_is_accepted_for_one_listener_when_the_gateway_is_named_with_it(publication: Publication) -> None:
    publication.start_pod("inference", "It works!")
    host = publication.publish()
    publication.wait_answer(host, "200", "It works!\n")
    assert publication.curl(host, is_plain=True)[0] == "404"

    (route,) = publication.bed.get_remote("httproutes")["items"]
    (parent,) = route["status"]["parents"]
    assert parent["controllerName"] == GATEWAY_CONTROLLER
    verdicts = {one["type"]: one["status"] for one in parent["conditions"]}
    assert verdicts == {"Accepted": "True", "ResolvedRefs": "True"}
    gateway = json.loads(publication.bed.provider.kubectl("get", "gateway", "public", "-n", "infra", "-o", "json"))
    attached = {listener["name"]: listener["attachedRoutes"] for listener in gateway["status"]["listeners"]}
    assert attached == {"https": 1, "http": 0}


@pytest.mark.parametrize(
    ("gateway", "words"),
    [
        (
            "infra/private",
            "infra/private does not serve the route: Accepted is False: NotAllowedByListeners",
        ),
        ("infra/absent", "no controller has taken the route: see whether the Gateway infra/absent exists"),
    ],
)
async def test_service_is_told_why_when_the_gateway_does_not_take_its_route(
    bed: AgentBed, traefik: Traefik, gateway: str, words: str
) -> None:
    """With the loop alone, which looks more often than an agent does, and for a class that no agent has."""
    chosen = make_route_settings({"routes": "httproute", "ingress_class": None, "gateway": gateway})
    settings = ServiceSettings(node=OTHER_NODE, tenant=TENANT, domain=DOMAIN)
    name = gateway.partition("/")[2]
    async with (
        Client.connect(load_kubeconfig(bed.local.kubeconfig)) as local,
        Client.connect(load_kubeconfig(bed.provider.kubeconfig)) as remote,
    ):
        routes = KubernetesRoutes(remote, namespace=bed.provider_namespace, node=OTHER_NODE, settings=chosen)
        loop = ServiceLoop(
            local, routes, settings, recorder=EventRecorder(local, component=OTHER_NODE), sweep_seconds=1
        )
        async with running(loop):
            await asyncio.to_thread(Publication(bed, traefik).publish, name, node=OTHER_NODE)
            events = ("events", "--field-selector", f"involvedObject.name={name},reason=RouteNotAccepted")

            def look() -> bool:
                return any(words in event["message"] for event in bed.get(*events)["items"])

            await asyncio.to_thread(wait_for, words, look)
            await asyncio.to_thread(bed.local.kubectl, "delete", "service", name, "--timeout=60s")
