"""Two real clusters: the local one, a control plane whose only node is the virtual one, and a provider with a node."""

import os
import secrets
from collections.abc import Iterator

import pytest

from testbed.cluster import Cluster
from testbed.pytest_plugin import kubernetes_version, require_machine
from testbed.site import Options
from tests.cluster.node.agent_bed import POLICY_FLAGS


@pytest.fixture(scope="module")
def local_cluster() -> Iterator[Cluster]:
    """The cluster that the virtual node joins; the module's own."""
    require_machine(node=False)
    options = Options(kubernetes=kubernetes_version(), node=False, dns=False, storage=False, flags=POLICY_FLAGS)
    cluster = Cluster.up(f"nl-{os.getpid()}-{secrets.token_hex(2)}", options, outlives_us=False)
    yield cluster
    cluster.down()


@pytest.fixture(scope="module")
def provider_cluster(cluster: Cluster) -> Cluster:
    """The cluster that really runs the pods: the session's."""
    return cluster
