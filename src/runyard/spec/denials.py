"""Values that are denied unless a policy allows them by name. `runyard.domain` applies these lists."""

CONTROL_PLANE_TAINTS = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/etcd",
)
"""Taints of control-plane nodes: tolerations of these keys, without a key, or of a pattern that covers them."""

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
