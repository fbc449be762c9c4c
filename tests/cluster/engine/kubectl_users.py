"""Users of a cluster who have kubectl, and go around Runyard."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runyard.kube import AlreadyExists, Client
from runyard.kube.resources import ROLE_BINDINGS, SERVICE_ACCOUNTS, Resource
from testbed.cluster import Cluster

ACCOUNT = "member"


@dataclass(frozen=True)
class KubectlUser:
    """A service account with kubectl."""

    cluster: Cluster
    kubeconfig: Path
    namespace: str

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """What kubectl answers."""
        argv = [str(self.cluster.directory / "bin/kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=60)

    def create(self, *objects: dict[str, Any]) -> str:
        """Try to create objects (a dry run on the server); returns the apiserver's refusals, empty if it has none."""
        listed = {"apiVersion": "v1", "kind": "List", "items": [self._place(item) for item in objects]}
        done = self.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(listed))
        assert done.returncode == 0 or done.stderr, done
        return "" if done.returncode == 0 else done.stderr

    def _place(self, item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "metadata": {**item["metadata"], "namespace": self.namespace}}


async def ensure(client: Client, resource: Resource, body: dict[str, Any], *, namespace: str | None = None) -> None:
    """Create an object if it is not there."""
    try:
        await client.create(resource, body, namespace=namespace)
    except AlreadyExists:
        return


async def make_editor(cluster: Cluster, client: Client, *, namespace: str, folder: Path) -> KubectlUser:
    """A service account of a namespace that may do there what Kubernetes lets editors do."""
    await ensure(client, SERVICE_ACCOUNTS, {"metadata": {"name": ACCOUNT}}, namespace=namespace)
    binding = {
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": ACCOUNT}],
    }
    await ensure(client, ROLE_BINDINGS, binding, namespace=namespace)
    token = (await client.create_token(ACCOUNT, namespace=namespace))["status"]["token"]
    return KubectlUser(cluster, cluster.write_kubeconfig(folder / "member.kubeconfig", token=token), namespace)
