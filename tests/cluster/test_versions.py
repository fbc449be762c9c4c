"""The short form of `make test-versions`: every supported Kubernetes starts, runs a container, and serves `kube`."""

import os
from collections.abc import Iterator

import pytest

from runyard.kube import Client, load_kubeconfig
from runyard.kube.reflector import Reflector
from runyard.kube.resources import PODS
from runyard.kube.streams import read_logs, run_command
from testbed import build
from testbed.cluster import Cluster
from testbed.pytest_plugin import kubernetes_version, require_machine
from testbed.site import Options
from tests.cluster.testbed.manifests import create, pod, wait

OTHER_VERSIONS = [version for version in build.KUBERNETES_VERSIONS if version != kubernetes_version()]


@pytest.fixture(params=OTHER_VERSIONS)
def other(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    version: str = request.param
    require_machine(node=True, kubernetes=version)
    options = Options(kubernetes=version, dns=False, storage=False)
    cluster = Cluster.up(f"other-{os.getpid()}", options, outlives_us=False)
    yield cluster
    cluster.down()


async def test_kube_works_when_the_cluster_has_another_version(other: Cluster) -> None:
    release = build.kubernetes_release(other.site.options.kubernetes)
    assert other.api.get("/version")["gitVersion"] == f"v{release}"
    create(other, "default", pod("box", "echo started; sleep 3600"))
    wait(other, "default", "pod/box", until="condition=Ready")
    async with Client.connect(load_kubeconfig(other.kubeconfig)) as client:
        async with Reflector(client, PODS, namespace="default") as reflector:
            await reflector.wait_synced()
            assert [key.name for key in reflector.store] == ["box"]
        async with read_logs(client, "box", namespace="default") as lines:
            assert [line.text async for line in lines] == [b"started"]
        result = await run_command(client, "box", ["sh", "-c", "cat; exit 7"], namespace="default", stdin=b"echoed")
        assert (result.exit_code, result.stdout) == (7, b"echoed")
