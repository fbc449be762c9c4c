"""The real node: containerd, the kubelet, kube-proxy, and the network between pods."""

import contextlib
import json
from pathlib import Path

from testbed.controlplane import ADMIN, kubeconfig_of, node_user
from testbed.errors import TestbedError
from testbed.site import Site

RUNTIME_HANDLERS = ("runc", "nvidia")
MAX_PODS = 500
_CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
_WATCH_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
_WATCHES = 8192
CNI_PLUGINS = ("ptp", "host-local", "portmap", "loopback")


def find_cni_folder() -> Path | None:
    """The folder with the CNI plug-ins that the node uses, if this machine has one."""
    for folder in map(Path, _CNI_FOLDERS):
        if all((folder / plugin).exists() for plugin in CNI_PLUGINS):
            return folder
    return None


def write_node_configuration(site: Site, *, sandbox_image: str) -> None:
    """Write every file that the node's components read."""
    folder = site.directory / "cni"
    folder.mkdir(exist_ok=True)
    (folder / "10-testbed.conflist").write_text(json.dumps(_cni_configuration(site), indent=1))
    (site.directory / "containerd.toml").write_text(_containerd_configuration(site, sandbox_image=sandbox_image))
    (site.directory / "kubelet.json").write_text(json.dumps(_kubelet_configuration(site), indent=1))
    (site.directory / "kube-proxy.json").write_text(json.dumps(_proxy_configuration(site), indent=1))
    # The pods' resolver. The machine's own would not help them, because nothing outside is reachable.
    (site.directory / "resolv.conf").write_text(f"nameserver {site.addresses.node_ip}\n")


def raise_watch_limit() -> None:
    """Let the machine have enough inotify instances: kubelets use one for each log that is followed.

    The kernel's default of 128 is for all processes of root together. Where it cannot be changed, it is left as it is.
    """
    with contextlib.suppress(OSError, ValueError):
        if int(_WATCH_LIMIT.read_text()) < _WATCHES:
            _WATCH_LIMIT.write_text(str(_WATCHES))


def containerd_flags(site: Site) -> list[str]:
    """containerd with everything it keeps inside the cluster's folder."""
    return ["--config", str(site.directory / "containerd.toml")]


def kubelet_flags(site: Site) -> list[str]:
    """The kubelet; most of what it wants is in its configuration file."""
    return [
        f"--config={site.directory / 'kubelet.json'}",
        f"--kubeconfig={kubeconfig_of(site, node_user(site))}",
        f"--hostname-override={site.node_name}",
        f"--node-ip={site.addresses.node_ip}",
        f"--root-dir={site.directory / 'kubelet'}",
    ]


def proxy_flags(site: Site) -> list[str]:
    """kube-proxy; its rules live and die with the network namespace."""
    return [f"--config={site.directory / 'kube-proxy.json'}"]


def _cni_configuration(site: Site) -> dict[str, object]:
    # Point-to-point links rather than a bridge: every packet crosses the IP stack, so services answer
    # also between pods of one node, without the kernel's bridge netfilter module.
    return {
        "cniVersion": "0.4.0",
        "name": "testbed",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": True,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": site.addresses.pod_network}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": str(site.directory / "ipam"),
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _containerd_configuration(site: Site, *, sandbox_image: str) -> str:
    cni_folder = find_cni_folder()
    if cni_folder is None:
        raise TestbedError("no CNI plug-ins on this machine: apt-get install containernetworking-plugins")
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    runtimes = "".join(
        f'[{cri}.containerd.runtimes.{handler}]\nruntime_type = "io.containerd.runc.v2"\n'
        for handler in RUNTIME_HANDLERS
    )
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE, runc cannot lower the score and ends with an
    # unreadable error.
    return f"""version = 2
root = "{site.directory}/containerd"
state = "{site.directory}/containerd-state"
[grpc]
address = "{site.containerd_socket}"
[plugins."io.containerd.internal.v1.opt"]
path = "{site.directory}/containerd-opt"
[{cri}]
sandbox_image = "{sandbox_image}"
restrict_oom_score_adj = true
disable_apparmor = true
[{cri}.containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
{runtimes}[{cri}.registry]
config_path = "{site.directory}/registries"
[{cri}.cni]
bin_dir = "{cni_folder}"
conf_dir = "{site.directory}/cni"
"""


def _kubelet_configuration(site: Site) -> dict[str, object]:
    return {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(site.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(site.pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(site.pki / "kubelet.key"),
        "containerRuntimeEndpoint": f"unix://{site.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{site.cgroup}",
        # From 1.35 on the kubelet refuses cgroup version 1 unless told otherwise.
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "clusterDNS": [site.addresses.dns_service_ip],
        "clusterDomain": "cluster.local",
        "resolvConf": str(site.directory / "resolv.conf"),
        "podLogsDir": str(site.directory / "pod-logs"),
        "maxPods": MAX_PODS,
        # A testbed shares its disk with everything else on the machine: evict only when it is almost full.
        "evictionHard": {
            "memory.available": "1%",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        # Extended resources reach `allocatable` with the next report: a second, not ten.
        "nodeStatusUpdateFrequency": "1s",
        "nodeStatusReportFrequency": "1m",
    }


def _proxy_configuration(site: Site) -> dict[str, object]:
    return {
        "kind": "KubeProxyConfiguration",
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "clientConnection": {"kubeconfig": str(kubeconfig_of(site, ADMIN))},
        "mode": "iptables",
        "clusterCIDR": site.addresses.pod_network,
        "hostnameOverride": site.node_name,
        # Zero leaves the machine's own figures alone; many sandboxes refuse to have them written.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "metricsBindAddress": "127.0.0.1:10249",
        "healthzBindAddress": "127.0.0.1:10256",
        "nodePortAddresses": ["primary"],
    }
