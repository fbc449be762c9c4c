"""The admission objects of the node, rendered purely.

- **Filling**: a MutatingAdmissionPolicy, or a webhook where the cluster does not serve it. The failure policy is
  Ignore: no other pod of the cluster may depend on the agent, and a pod that was not filled is not bound.
- **Binding**: a ValidatingAdmissionPolicy, so that the agent alone places pods on its node. Its failure policy is Fail:
  it depends on nothing but the request.
- **Preemption**: a ValidatingAdmissionPolicy, so that the default scheduler removes no pod from the node.
"""

import base64
import re
from typing import Any, Literal

from runyard.node.admission.filling_expressions import render_mutations, render_variables
from runyard.node.offer import CLASS_LABEL
from runyard.spec.names import check_dns_subdomain

Object = dict[str, Any]
MutatingVersion = Literal["v1", "v1beta1"]

MOST_NODE_NAME_CHARACTERS = 63
"""The name of the node is also the value of labels."""
WEBHOOK_TIMEOUT_SECONDS = 5
DEFAULT_SCHEDULER_USER = "system:kube-scheduler"
"""In every cluster that kubeadm or a provider of Kubernetes sets up."""
_GROUP = "admissionregistration.k8s.io"
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9:@._/-]{0,252}")


def check_node_name(node_name: str) -> str | None:
    """Why a text cannot name the node, or None."""
    if len(node_name) > MOST_NODE_NAME_CHARACTERS:
        return f"must have at most {MOST_NODE_NAME_CHARACTERS} characters, not {len(node_name)}"
    return check_dns_subdomain(node_name)


def render_filling_policy(
    node_name: str, *, version: MutatingVersion = "v1", scheduler_name: str | None
) -> tuple[Object, Object]:
    """The MutatingAdmissionPolicy and its binding: fills pods of the node's classes and sets their scheduler.

    `scheduler_name=None` leaves the scheduler as it is.
    """
    _expect_node_name(node_name)
    if scheduler_name is not None:
        _expect_node_name(scheduler_name)
    name = f"{node_name}-filling"
    policy = {
        "apiVersion": f"{_GROUP}/{version}",
        "kind": "MutatingAdmissionPolicy",
        "metadata": _metadata(name, node_name),
        "spec": {
            "paramKind": {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"},
            "matchConstraints": {"resourceRules": [_rule("pods")]},
            "matchConditions": [
                {
                    "name": "class-of-the-pod",
                    "expression": "object.spec.?runtimeClassName.orValue('') == params.metadata.name",
                }
            ],
            "failurePolicy": "Ignore",
            "reinvocationPolicy": "IfNeeded",
            "variables": render_variables(),
            "mutations": render_mutations(scheduler_name),
        },
    }
    binding = {
        "apiVersion": f"{_GROUP}/{version}",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": _metadata(name, node_name),
        "spec": {
            "policyName": name,
            "paramRef": {
                "selector": {"matchLabels": {CLASS_LABEL: node_name}},
                "parameterNotFoundAction": "Allow",
            },
        },
    }
    return policy, binding


def render_binding_policy(node_name: str, *, binder: str) -> tuple[Object, Object]:
    """The ValidatingAdmissionPolicy and its binding: nobody but the user `binder` binds to the node, or names it.

    Pods on the node cannot be resized or get ephemeral containers: the provider's pod and the ledger would not follow.
    """
    _expect_node_name(node_name)
    if not _USER.fullmatch(binder):
        raise ValueError(f"{binder!r} is not a user name; allowed: letters, digits and : @ . _ / -")
    name = f"{node_name}-binding"
    policy = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": _metadata(name, node_name),
        "spec": {
            # `bindings` is the old path of the same request.
            "matchConstraints": {
                "resourceRules": [
                    _rule("pods", "pods/binding", "bindings"),
                    _rule("pods/resize", "pods/ephemeralcontainers", operation="UPDATE"),
                ]
            },
            "failurePolicy": "Fail",
            "validations": _render_validations(node_name, binder),
        },
    }
    binding = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": _metadata(name, node_name),
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return policy, binding


def render_preemption_policy(node_name: str) -> tuple[Object, Object]:
    """The ValidatingAdmissionPolicy and its binding: the default scheduler neither deletes nor marks pods of the node.

    It counts them twice, because `allocatable` is without them already. A pod that tolerates every taint, such as one
    of a DaemonSet, and has a higher priority would cost a running one its place while there is room.
    """
    _expect_node_name(node_name)
    name = f"{node_name}-preemption"
    policy = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": _metadata(name, node_name),
        "spec": {
            "matchConstraints": {
                "resourceRules": [_rule("pods", operation="DELETE"), _rule("pods/status", operation="UPDATE")]
            },
            "matchConditions": [
                {"name": "scheduler", "expression": f"request.userInfo.username == '{DEFAULT_SCHEDULER_USER}'"},
                {"name": "on-the-node", "expression": f"oldObject.spec.?nodeName.orValue('') == '{node_name}'"},
            ],
            "failurePolicy": "Ignore",
            "validations": [
                {
                    "expression": "false",
                    "message": f"pods on the node {node_name} are not preempted: only its agent knows what is free",
                    "reason": "Forbidden",
                }
            ],
        },
    }
    binding = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": _metadata(name, node_name),
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return policy, binding


def _render_validations(node_name: str, binder: str) -> list[Object]:
    target = "request.kind.kind == 'Binding' ? dyn(object).target.name : dyn(object).spec.?nodeName.orValue('')"
    is_elsewhere = f"({target}) != '{node_name}'"
    is_change = "request.?subResource.orValue('') in ['resize', 'ephemeralcontainers']"
    found = {
        f"{is_change} || request.userInfo.username == '{binder}' || {is_elsewhere}": (
            f"only {binder} places pods on the node {node_name}: leave out nodeName and name a RuntimeClass of it"
        ),
        f"!({is_change}) || {is_elsewhere}": (
            f"pods on the node {node_name} cannot be resized or get ephemeral containers"
        ),
    }
    return [
        {"expression": expression, "message": message, "reason": "Forbidden"} for expression, message in found.items()
    ]


def render_webhook_configuration(
    node_name: str,
    *,
    ca_certificate: bytes,
    service: tuple[str, str] | None = None,
    url: str | None = None,
    port: int = 443,
    path: str = "/admission",
) -> Object:
    """The MutatingWebhookConfiguration for clusters that do not serve MutatingAdmissionPolicies.

    It is reached at a Service (namespace, name) or at a URL. Pods of kube-system and of that namespace are left out.
    """
    _expect_node_name(node_name)
    if (service is None) == (url is None):
        raise ValueError("either `service` or `url` is needed")
    spared = ["kube-system", *([service[0]] if service else [])]
    address: Object = {"url": url}
    if service:
        address = {"service": {"namespace": service[0], "name": service[1], "port": port, "path": path}}
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": _metadata(f"{node_name}-filling", node_name),
        "webhooks": [
            {
                "name": f"filling.{node_name}" if "." in node_name else f"filling.{node_name}.k8s.gpu",
                "clientConfig": {**address, "caBundle": base64.b64encode(ca_certificate).decode()},
                "rules": [{**_rule("pods"), "scope": "Namespaced"}],
                "matchConditions": [{"name": "has-class", "expression": "has(object.spec.runtimeClassName)"}],
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": sorted(set(spared))}
                    ]
                },
                "failurePolicy": "Ignore",
                "reinvocationPolicy": "IfNeeded",
                "sideEffects": "None",
                "timeoutSeconds": WEBHOOK_TIMEOUT_SECONDS,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


def _expect_node_name(node_name: str) -> None:
    if error := check_node_name(node_name):
        raise ValueError(f"node name {node_name!r} {error}")


def _metadata(name: str, node_name: str) -> Object:
    return {"name": name, "labels": {CLASS_LABEL: node_name}}


def _rule(*resources: str, operation: str = "CREATE") -> Object:
    return {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": list(resources)}
