"""The demo on a real cluster: the testbed, a namespace in it, and a server that its pods reach."""

import re
import secrets
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from examples.demo.console import Console, DemoFailed
from examples.demo.stage import PREFIX, ServerFolder
from runyard import __version__
from runyard.launcher.zipapps import build_zipapp
from testbed import images
from testbed.cluster import Cluster
from testbed.errors import TestbedError
from testbed.site import Options

LAUNCHER_IMAGE = f"localhost/runyard/launcher:{__version__}"
USER = "ada"
_STARTED = "started"
"""This file in the demo's folder says that the demo started the cluster, and so ends it."""
_PASSWORD = "password"  # noqa: S105 - the name of a file
RULES = "--profiles examples/rules/profiles --policy examples/kubernetes/policy.yaml"


@dataclass(frozen=True)
class ClusterStage(ServerFolder):
    """The folder of one demo, and its namespace in a cluster of the testbed."""

    cluster_name: str = "demo"

    @classmethod
    def make(cls, cluster_name: str) -> "ClusterStage":
        """A new one, in a temporary folder."""
        stage = cls(Path(tempfile.mkdtemp(prefix=PREFIX)), cluster_name)
        (stage.folder / _PASSWORD).write_text(secrets.token_urlsafe(12))
        (stage.folder / "cluster").write_text(cluster_name)
        return stage

    @property
    def namespace(self) -> str:
        """The namespace of all runs."""
        return re.sub("[^a-z0-9-]", "x", self.folder.name)

    @property
    def netrc(self) -> Path:
        """The server's address, with user and password of the demo's account."""
        return self.folder / "netrc"

    def start_server(self, console: Console) -> str:
        """Bring up the cluster if it is not, load the images, and start the server; returns its URL."""
        cluster = self._ensure_cluster(console)
        self._load_launcher(console)
        console.define(f'kubectl() {{ python -m testbed kubectl --name {self.cluster_name} "$@"; }}')
        console.run(f"kubectl create namespace {self.namespace}")
        console.tell("Pods reach the server over the network, so it has accounts. The demo has drawn a password:")
        password = self.folder / _PASSWORD
        console.run(f"runyard user create {USER} --admin --password-stdin --data {self.data} < {password}")
        host = cluster.site.addresses.host_ip
        self.netrc.write_text(f"machine {host} login {USER} password {password.read_text()}\n")
        options = (
            f"--engine kubernetes --kubeconfig {cluster.kubeconfig} --namespace {self.namespace} \\\n"
            f"  --host {host} --port 0 --behind-proxy --data {self.data} \\\n  {RULES}"
        )
        return self.launch_server(console, options)

    def end(self) -> list[str]:
        """End the server, its runs, its namespace, and the cluster if the demo started it. Idempotent."""
        self.end_server()
        left = []
        with suppress(TestbedError):
            cluster = Cluster.find(self.cluster_name)
            if (self.folder / _STARTED).exists():
                cluster.down()
            else:
                left = self._delete_namespace(cluster)
        left += self.list_server_processes()
        shutil.rmtree(self.folder, ignore_errors=True)
        return left + ([f"the folder {self.folder}"] if self.folder.exists() else [])

    def _ensure_cluster(self, console: Console) -> Cluster:
        try:
            cluster = Cluster.find(self.cluster_name)
            console.tell(f"The cluster {self.cluster_name} of the testbed is running; the demo uses a namespace of it.")
        except TestbedError:
            console.tell(
                "No cluster is running: the demo starts one, in its own process, as this command does. The first time "
                "it compiles Kubernetes."
            )
            console.show(f"python -m testbed up --name {self.cluster_name}")
            (self.folder / _STARTED).touch()
            try:
                cluster = Cluster.up(self.cluster_name, Options(), say=console.answer)
            except TestbedError as error:
                raise DemoFailed(str(error)) from error
        return cluster

    def _load_launcher(self, console: Console) -> None:
        zipapp = self.folder / "launcher.pyz"
        zipapp.write_bytes(build_zipapp())
        image = images.ensure_launcher(zipapp, tag=LAUNCHER_IMAGE)
        console.tell(
            "The launcher, which starts functions, goes into pods by an image. The testbed has made it, like "
            "deploy/images/launcher but without podman. It is loaded into the node, which pulls from no registry:"
        )
        console.run(f"python -m testbed load-image --name {self.cluster_name} {image.archive}")

    def _delete_namespace(self, cluster: Cluster) -> list[str]:
        try:
            cluster.kubectl("delete", "namespace", self.namespace, "--ignore-not-found", "--timeout=60s")
        except TestbedError as error:
            return [f"namespace {self.namespace}: {error}"]
        return []


def find_cluster_stage(folder: Path) -> ClusterStage | None:
    """The demo that `KEEP=1` left in this folder, if it is one on a cluster."""
    try:
        return ClusterStage(folder.resolve(), (folder / "cluster").read_text())
    except OSError:
        return None
