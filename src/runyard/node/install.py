"""The objects that install the agent in a cluster, rendered purely: `runyard node manifests` prints them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from runyard.kube.rights import render_metadata
from runyard.node.admission.policies import (
    DEFAULT_SCHEDULER_USER,
    render_binding_policy,
    render_filling_policy,
    render_preemption_policy,
)
from runyard.node.rights import ROLE, name_objects, render_local_roles, render_provider_roles

KUBECONFIG_KEY = "kubeconfig"
OFFER_KEY = "offer.yaml"
HEALTH_PORT = 8081
WEBHOOK_PORT = 8443
Filling = Literal["v1", "v1beta1", "webhook"]
"""The API version of the MutatingAdmissionPolicy, or the agent's webhook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What an operator chooses."""

    node: str
    namespace: str
    account: str
    image: str
    provider_secret: str
    """Has the provider's kubeconfig under `KUBECONFIG_KEY`."""
    offer: str
    """The offer file, as it is."""
    provider_namespace: str
    tenant: str
    domain: str
    replicas: int
    filling: Filling
    allocatable: Literal["ledger", "static"] = "ledger"
    route_flags: Sequence[str] = ()
    """`--routes` and what belongs to it, for the agent."""

    @property
    def has_webhook(self) -> bool:
        """Whether the agent fills pods itself."""
        return self.filling == "webhook"

    @property
    def is_static(self) -> bool:
        """Whether the default scheduler binds."""
        return self.allocatable == "static"

    @property
    def username(self) -> str:
        """The agent's user in the local cluster."""
        return f"system:serviceaccount:{self.namespace}:{self.account}"


def render_installation(chosen: Installation) -> list[dict[str, Any]]:
    """Everything, in the order in which it is to be created."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": render_metadata(chosen.account, chosen.namespace),
        },
        *render_local_roles(
            node=chosen.node,
            account=(chosen.namespace, chosen.account),
            has_webhook=chosen.has_webhook,
            is_static=chosen.is_static,
        ),
        *render_policies(chosen.node, username=chosen.username, filling=chosen.filling, is_static=chosen.is_static),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": render_metadata(f"{name_objects(chosen.node)}-offer", chosen.namespace),
            "data": {OFFER_KEY: chosen.offer},
        },
        _render_deployment(chosen),
    ]


def render_provider_side(account: tuple[str, str]) -> list[dict[str, Any]]:
    """What a provider that is a cluster gives to a tenant: a namespace, an account, and its rights there."""
    namespace, name = account
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": render_metadata(namespace, None)},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": render_metadata(name, namespace)},
        *render_provider_roles(account=account),
    ]


def render_policies(node: str, *, username: str, filling: Filling, is_static: bool = False) -> Sequence[dict[str, Any]]:
    """The admission policies: filling, and the fence around the node. Static: the default scheduler binds alone."""
    scheduler = None if is_static else node
    filled = () if filling == "webhook" else render_filling_policy(node, scheduler_name=scheduler, version=filling)
    if is_static:
        return [*filled, *render_binding_policy(node, binder=DEFAULT_SCHEDULER_USER)]
    return [*filled, *render_binding_policy(node, binder=username), *render_preemption_policy(node)]


def _render_deployment(chosen: Installation) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": ROLE, "app.kubernetes.io/instance": chosen.node}
    flags = [
        f"--name={chosen.node}",
        "--provider-kubeconfig=/etc/runyard/provider/kubeconfig",
        f"--provider-namespace={chosen.provider_namespace}",
        "--offer=/etc/runyard/offer/offer.yaml",
        f"--health-port={HEALTH_PORT}",
        *(["--allocatable=static"] if chosen.is_static else []),
        *([f"--webhook-port={WEBHOOK_PORT}"] if chosen.has_webhook else []),
        *chosen.route_flags,
        *([f"--tenant={chosen.tenant}", f"--domain={chosen.domain}"] if chosen.tenant else []),
    ]
    container = {
        "name": "agent",
        "image": chosen.image,
        "args": ["node", *flags],
        "env": [
            {"name": "RUNYARD_NODE_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "RUNYARD_NODE_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
        "ports": [{"name": "kubelet", "containerPort": 10250}, {"name": "health", "containerPort": HEALTH_PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "provider", "mountPath": "/etc/runyard/provider", "readOnly": True},
            {"name": "offer", "mountPath": "/etc/runyard/offer", "readOnly": True},
        ],
    }
    pod = {
        "serviceAccountName": chosen.account,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [
            {
                "name": "provider",
                "secret": {
                    "secretName": chosen.provider_secret,
                    "items": [{"key": KUBECONFIG_KEY, "path": "kubeconfig"}],
                },
            },
            {"name": "offer", "configMap": {"name": f"{name_objects(chosen.node)}-offer"}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": render_metadata(name_objects(chosen.node), chosen.namespace),
        "spec": {
            "replicas": chosen.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
