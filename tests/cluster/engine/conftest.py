"""Clients of the session's cluster and of the module's own control plane."""

from collections.abc import AsyncIterator

import pytest

from runyard.kube import Client, load_kubeconfig
from testbed.cluster import Cluster


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    """The admin of the session's cluster."""
    async with Client.connect(load_kubeconfig(cluster.kubeconfig)) as client:
        yield client


@pytest.fixture
async def plane_client(control_plane: Cluster) -> AsyncIterator[Client]:
    """The admin of a control plane without a node."""
    async with Client.connect(load_kubeconfig(control_plane.kubeconfig)) as client:
        yield client
