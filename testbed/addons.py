"""Add-ons beside the control plane and the node: DNS, storage, metrics, pretend GPUs, fake nodes, images.

The add-ons are ordinary processes in the cluster's namespaces rather than pods: they start faster, need no
image, and their logs lie with the others.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.controlplane import ADMIN, kubeconfig_of
from testbed.errors import TestbedError
from testbed.objects import GPU_RESOURCE, METRICS_PORT, STORAGE_NAMESPACE
from testbed.site import Options, Site
from testbed.supervision import SupervisorHandle

DNS, STORAGE, METRICS, FAKE_NODES = "coredns", "local-path-provisioner", "metrics-server", "kwok"
GPUS = "device-plugin"
_STAGES = Path(__file__).with_name("kwok-stages.yaml")
_HELPER_IMAGE = "docker.io/library/busybox:latest"


def needed(options: Options) -> list[str]:
    """The add-ons that the options ask for."""
    return [
        *([DNS] if options.node and options.dns else []),
        *([STORAGE] if options.node and options.storage else []),
        *([METRICS] if options.metrics else []),
        *([GPUS] if options.gpus else []),
        *([FAKE_NODES] if options.fake_nodes else []),
    ]


def start(site: Site, binaries: dict[str, Path], supervisor: SupervisorHandle) -> None:
    """Start every add-on that was asked for."""
    flags = {
        DNS: _dns_flags,
        STORAGE: _storage_flags,
        METRICS: _metrics_flags,
        GPUS: _gpu_flags,
        FAKE_NODES: _fake_node_flags,
    }
    for name in needed(site.options):
        supervisor.start(name, [str(binaries[name]), *flags[name](site), *site.options.extra_flags(name)])


def _dns_flags(site: Site) -> list[str]:
    corefile = site.directory / "Corefile"
    corefile.write_text(
        ".:53 {\n"
        f"    bind {site.addresses.node_ip}\n"
        "    errors\n"
        "    kubernetes cluster.local in-addr.arpa {\n"
        f"        kubeconfig {kubeconfig_of(site, ADMIN)}\n"
        "        pods insecure\n"
        "        ttl 1\n"
        "    }\n"
        "}\n"
    )
    return ["-conf", str(corefile)]


def _storage_flags(site: Site) -> list[str]:
    config = {
        "nodePathMap": [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [str(site.directory / "volumes")]}]
    }
    helper = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "helper-pod"},
        "spec": {"containers": [{"name": "helper-pod", "image": _HELPER_IMAGE, "imagePullPolicy": "IfNotPresent"}]},
    }
    config_file, helper_file = site.directory / "local-path.json", site.directory / "local-path-helper.json"
    config_file.write_text(json.dumps(config))
    helper_file.write_text(json.dumps(helper))
    return [
        "start",
        f"--config={config_file}",
        f"--kubeconfig={kubeconfig_of(site, ADMIN)}",
        f"--namespace={STORAGE_NAMESPACE}",
        f"--helper-image={_HELPER_IMAGE}",
        f"--helper-pod-file={helper_file}",
        "--configmap-name=local-path-config",
        "--service-account-name=default",
    ]


def _metrics_flags(site: Site) -> list[str]:
    kubeconfig = kubeconfig_of(site, ADMIN)
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--secure-port={METRICS_PORT}",
        f"--cert-dir={site.directory / 'metrics-server'}",
        f"--kubelet-certificate-authority={site.pki / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--metric-resolution=10s",
        "--kubelet-request-timeout=5s",
    ]


def _gpu_flags(site: Site) -> list[str]:
    return [f"--gpus={site.options.gpus}", f"--node={site.node_name}"]


def _fake_node_flags(site: Site) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig_of(site, ADMIN)}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--config={_STAGES}",
    ]


def is_containerd_ready(site: Site) -> bool:
    """Whether containerd serves."""
    return _ctr(site, "version").returncode == 0


def import_image(site: Site, archive: Path) -> None:
    """Import an image archive into the node's containerd, where the kubelet finds it."""
    hint = "wanted is what `docker save` or `podman save` writes"
    if not archive.is_file():
        raise TestbedError(f"no image archive {archive}: {hint}")
    done = _ctr(site, "--namespace", "k8s.io", "images", "import", "--no-unpack=false", str(archive))
    if done.returncode != 0:
        raise TestbedError(f"image archive {archive} cannot be imported ({done.stderr.strip()}): {hint}")


def tag_image(site: Site, image: str, names: Sequence[str]) -> None:
    """Give an image of the node's containerd more names."""
    done = _ctr(site, "--namespace", "k8s.io", "images", "tag", "--force", image, *names)
    if done.returncode != 0:
        raise TestbedError(f"image {image} cannot be tagged: {done.stderr.strip()}")


def _ctr(site: Site, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = ["ctr", "--address", str(site.containerd_socket), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def is_node_ready(node: dict[str, Any]) -> bool:
    """Whether a node is Ready."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def count_gpus(node: dict[str, Any]) -> int:
    """How many GPUs a node offers."""
    return int(node.get("status", {}).get("allocatable", {}).get(GPU_RESOURCE, "0"))
