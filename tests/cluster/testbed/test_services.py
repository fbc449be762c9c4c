"""Services answer: inside by address and by name, outside by node port."""

import time
import urllib.request

import pytest

from testbed.cluster import Cluster
from tests.cluster.testbed.manifests import BUSYBOX, container, create, job, wait


@pytest.fixture
def web(cluster: Cluster, namespace: str) -> str:
    """A Deployment of two web servers behind a NodePort Service; the name of both."""
    serve = "mkdir -p /tmp/www && echo hello from $HOSTNAME > /tmp/www/index.html && httpd -f -p 8080 -h /tmp/www"
    labels = {"app": "web"}
    create(
        cluster,
        namespace,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "terminationGracePeriodSeconds": 0,
                        "containers": [
                            container(serve, readinessProbe={"httpGet": {"port": 8080}, "periodSeconds": 1})
                        ],
                    },
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {
                "type": "NodePort",
                "selector": labels,
                "ports": [{"port": 80, "targetPort": 8080}],
            },
        },
    )
    cluster.kubectl("rollout", "status", "-n", namespace, "deployment/web", "--timeout=90s")
    return "web"


def test_service_answers_a_pod_when_called_by_address_and_by_name(cluster: Cluster, namespace: str, web: str) -> None:
    address = cluster.kubectl("get", "service", "-n", namespace, web, "-o", "jsonpath={.spec.clusterIP}")
    names = [address, web, f"{web}.{namespace}", f"{web}.{namespace}.svc.cluster.local"]
    # The rules of a new service reach the node within a second or so: a client retries.
    fetch = "for i in $(seq 20); do timeout 3 wget -qO- http://$1/ && exit; sleep 0.5; done; echo $1 is silent; exit 1"
    script = f"fetch() {{ ( {fetch} ); }}; " + " && ".join(f"fetch {name}" for name in names)
    create(cluster, namespace, job("client", script))
    wait(cluster, namespace, "job/client", until="condition=complete")
    answers = cluster.kubectl("logs", "-n", namespace, "job/client").splitlines()
    assert len(answers) == len(names)
    assert all(answer.startswith("hello from web-") for answer in answers)


def test_service_answers_this_machine_when_called_by_node_port(cluster: Cluster, namespace: str, web: str) -> None:
    port = cluster.kubectl("get", "service", "-n", namespace, web, "-o", "jsonpath={.spec.ports[0].nodePort}")
    answer = _fetch(f"http://{cluster.node_ip}:{port}/")
    assert answer.startswith("hello from web-")


def test_apiserver_answers_a_pod_when_called_through_its_service(cluster: Cluster, namespace: str) -> None:
    # busybox has no TLS worth the name: that the port opens is what the network owes.
    create(
        cluster,
        namespace,
        job("caller", "nc -w 5 kubernetes.default.svc.cluster.local 443 </dev/null && echo open"),
    )
    wait(cluster, namespace, "job/caller", until="condition=complete")
    assert cluster.kubectl("logs", "-n", namespace, "job/caller") == "open\n"


def test_image_is_found_when_it_was_made_here(cluster: Cluster) -> None:
    images = cluster.kubectl("get", "node", cluster.node_name, "-o", "jsonpath={.status.images[*].names[*]}").split()
    assert BUSYBOX in images


def _fetch(url: str) -> str:
    """A new service's rules reach the node a moment after its endpoints: a client retries."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2) as response:
                body: bytes = response.read()
                return body.decode()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)
