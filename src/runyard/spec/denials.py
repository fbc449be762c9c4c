"""What nobody may ask unless a policy allows it by name. The lists; who applies them is `runyard.domain`."""

CONTROL_PLANE_TAINTS = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/etcd",
)
"""Tolerations of these, of no key at all, or of a pattern that covers them, reach nodes that run the cluster."""

PRIORITY_CLASSES = ("system-*",)
"""The cluster's own: their pods push all others out."""

SERVICE_TYPES = ("LoadBalancer", "ExternalName")
"""They reach beyond the cluster: one costs money, the other points anywhere."""

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
"""The platform's own variables; whoever set them could make a run speak for another."""
