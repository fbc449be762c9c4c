"""Clients on the real clusters of the testbed."""

from collections.abc import AsyncIterator

import pytest

from runyard.kube.client import Client
from runyard.kube.config import load_kubeconfig
from testbed.cluster import Cluster


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    """The admin on the session's cluster."""
    async with Client.connect(load_kubeconfig(cluster.kubeconfig)) as client:
        yield client


@pytest.fixture
async def plane_client(control_plane: Cluster) -> AsyncIterator[Client]:
    """The admin on the module's own control plane, which the test may break."""
    async with Client.connect(load_kubeconfig(control_plane.kubeconfig)) as client:
        yield client
