"""`status.service` of a service with a load balancer, from a real Service."""

import json
from pathlib import Path

from testbed.cluster import Cluster
from tests.cluster.server.cluster_core import make_project, make_task, run_cluster_core, submit, wait_for, wait_until

POLICY = {"service_type": {"options": ["ClusterIP", "LoadBalancer"]}}
BALANCER = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7", "hostname": "lb.example.org"}]}}}
SERVE = "exec httpd -f -p 8080 -h /tmp"


async def test_addresses_of_the_load_balancer_are_shown_when_the_cluster_has_one(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(json.dumps(POLICY))
    options = ("--policy", str(tmp_path / "policy.yaml"))
    with run_cluster_core(cluster, namespace, tmp_path, *options) as core:
        async with core.client() as client:
            await make_project(client)
            task = await make_task(client, action="serve")
            run_id = await submit(client, task, SERVE, service_type="LoadBalancer")
            before = (await wait_for(client, run_id, "RUNNING"))["status"]["service"]
            assert before["type"] == "LoadBalancer"
            assert not before.keys() & {"ip", "hostname", "externalIps"}
            # As the controller of a cloud does; the testbed has none.
            patch = ("--subresource=status", "--type=merge", "--patch", json.dumps(BALANCER))
            cluster.kubectl("patch", "service", before["name"], "-n", namespace, *patch)
            run = await wait_until(client, run_id, lambda run: "ip" in run["status"].get("service", {}))
            after = run["status"]["service"]
            assert (after["ip"], after["hostname"]) == ("192.0.2.7", "lb.example.org")
            assert after["url"] == "lb.example.org:8080"
            assert after["clusterIP"] == before["clusterIP"]
