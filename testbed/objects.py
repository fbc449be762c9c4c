"""The Kubernetes objects that a testbed cluster begins with, each with the path at which it is applied."""

from collections.abc import Iterator
from typing import Any

from testbed.node import RUNTIME_HANDLERS
from testbed.site import Site

Applied = tuple[str, dict[str, Any]]

STORAGE_CLASS = "local-path"
STORAGE_NAMESPACE = "local-path-storage"
GPU_RESOURCE = "nvidia.com/gpu"
METRICS_PORT = 4443


def iter_objects(site: Site) -> Iterator[Applied]:
    """Everything that the options ask for, fake nodes aside."""
    if site.options.node:
        yield from _runtime_classes()
        if site.options.dns:
            yield from _dns_service(site)
        if site.options.storage:
            yield from _storage()
        if site.options.metrics:
            yield from _metrics(site)


def _runtime_classes() -> Iterator[Applied]:
    for handler in RUNTIME_HANDLERS:
        yield (
            f"/apis/node.k8s.io/v1/runtimeclasses/{handler}",
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": handler},
                "handler": handler,
            },
        )


def _dns_service(site: Site) -> Iterator[Applied]:
    ports = [("dns", "UDP"), ("dns-tcp", "TCP")]
    yield from _service_on_node(
        site,
        name="kube-dns",
        namespace="kube-system",
        cluster_ip=site.addresses.dns_service_ip,
        ports=[{"name": name, "port": 53, "protocol": protocol} for name, protocol in ports],
    )


def _storage() -> Iterator[Applied]:
    yield (
        f"/api/v1/namespaces/{STORAGE_NAMESPACE}",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": STORAGE_NAMESPACE}},
    )
    yield (
        f"/api/v1/namespaces/{STORAGE_NAMESPACE}/configmaps/local-path-config",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "local-path-config", "namespace": STORAGE_NAMESPACE},
            "data": {
                "setup": '#!/bin/sh\nset -eu\nmkdir -m 0777 -p "$VOL_DIR"\n',
                "teardown": '#!/bin/sh\nset -eu\nrm -rf "$VOL_DIR"\n',
            },
        },
    )
    yield (
        f"/apis/storage.k8s.io/v1/storageclasses/{STORAGE_CLASS}",
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": STORAGE_CLASS,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "rancher.io/local-path",
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        },
    )


def _metrics(site: Site) -> Iterator[Applied]:
    yield from _service_on_node(
        site,
        name="metrics-server",
        namespace="kube-system",
        cluster_ip=None,
        ports=[{"name": "https", "port": METRICS_PORT, "protocol": "TCP"}],
    )
    yield (
        "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io",
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {"name": "metrics-server", "namespace": "kube-system", "port": METRICS_PORT},
            },
        },
    )


def _service_on_node(
    site: Site, *, name: str, namespace: str, cluster_ip: str | None, ports: list[dict[str, Any]]
) -> Iterator[Applied]:
    """A Service whose endpoint is a process beside the kubelet rather than a pod."""
    yield (
        f"/api/v1/namespaces/{namespace}/services/{name}",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"ports": ports, **({"clusterIP": cluster_ip} if cluster_ip else {})},
        },
    )
    yield (
        f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}",
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"kubernetes.io/service-name": name},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [site.addresses.node_ip], "conditions": {"ready": True}}],
            "ports": ports,
        },
    )


def iter_fake_nodes(site: Site) -> Iterator[Applied]:
    """The nodes that only KWOK keeps alive."""
    for index in range(site.options.fake_nodes):
        yield _fake_node(index)


def _fake_node(index: int) -> Applied:
    """A large node with GPUs, for what does not fit a small machine."""
    name = f"fake-{index}"
    figures = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110", GPU_RESOURCE: "8"}
    return (
        f"/api/v1/nodes/{name}",
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    "type": "kwok",
                },
            },
            "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
            "status": {"allocatable": figures, "capacity": figures},
        },
    )
