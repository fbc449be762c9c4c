"""Values that are denied unless a policy allows them by name. `runyard.domain` applies these lists."""

RESERVED_TAINTS = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/controlplane",
    "node-role.kubernetes.io/controller",
    "node-role.kubernetes.io/controller-manager",
    "node-role.kubernetes.io/api-server",
    "node-role.kubernetes.io/apiserver",
    "node-role.kubernetes.io/scheduler",
    "node-role.kubernetes.io/etcd",
    "node-role.kubernetes.io/infra",
    "CriticalAddonsOnly",
    "k3s-controlplane",
    "components.gke.io/gke-managed-components",
)
"""Taints that keep nodes for the cluster's own components: the control plane, etcd and critical add-ons.

The first two are Kubernetes' own (kubeadm), `controlplane` and `etcd` are RKE's, `api-server` and `scheduler` those of
kOps, `infra` OpenShift's; `CriticalAddonsOnly` is used by k3s, RKE2, AKS and EKS. A toleration without a key tolerates
all of them and is denied as well.
"""


def is_reserved_taint(key: str) -> bool:
    """Whether a taint of this key, in any case, keeps nodes for the cluster's own components."""
    return any(key.lower() == reserved.lower() for reserved in RESERVED_TAINTS)


PRIORITY_CLASSES = ("system-*",)
"""Priority classes of the cluster itself: their pods preempt all others."""

SERVICE_TYPES = ("LoadBalancer", "ExternalName")
"""Service types that reach outside the cluster: a load balancer costs money, an external name can be any host."""

ENVS = (
    "DHCORE_*",
    "DH_CONFIG",
    "DH_NAME",
    "DH_PROJECTS",
    "OAUTH2_TOKEN_ENDPOINT",
    "PROJECT_NAME",
    "RUNYARD_*",
    "RUN_ID",
)
"""Variables that the platform sets; overriding them would let a run impersonate another."""
