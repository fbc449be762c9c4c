"""The rights that the engine needs, as it uses them: checked when it opens, and printed by `runyard server rbac`. Pure.

| role | where | what |
|---|---|---|
| run rights | the namespaces of runs | everything that happens to runs |
| place rights | the whole cluster | the UID of the cluster |
| project rights | the whole cluster | with a namespace per project: namespaces, their admission policies, and reads |
| cluster view | the whole cluster | optional: nodes, pods of others and classes, for explanations |
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runyard.engines.kubernetes.namespaces import NAMESPACE_PREFIX
from runyard.kube.permissions import Access
from runyard.kube.resources import (
    CLUSTER_NAMESPACE,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LIMIT_RANGES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_METRICS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICES,
    STORAGE_CLASSES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from runyard.kube.rights import Right, merge_rights, render_binding, render_metadata, render_role

PROJECT_ROLE = "runyard-project"
"""Rights in the namespace of a project; bound there when the server makes it."""
SERVER_ROLE = "runyard-server"
"""Rights in the namespace of all runs."""
PLACE_ROLE = "runyard-place"
NAMESPACES_ROLE = "runyard-namespaces"
"""Rights to make namespaces of projects, in the whole cluster."""
VIEW_ROLE = "runyard-cluster-view"
# Roles have the same rules for every installation. Bindings and the fence are named by the account: several
# installations, of either mode, may share a cluster.
_GROUP = "rbac.authorization.k8s.io"


_SEEN = ("get", "list", "watch")
RUN_RIGHTS: tuple[Right, ...] = (
    Right(resource=JOBS, verbs=(*_SEEN, "create", "patch", "delete")),
    Right(resource=DEPLOYMENTS, verbs=(*_SEEN, "create", "patch", "delete")),
    Right(resource=PODS, verbs=(*_SEEN, "patch", "delete")),
    Right(resource=PODS, verbs=("get",), subresource="log"),
    Right(resource=SERVICES, verbs=(*_SEEN, "create", "patch", "delete")),
    Right(resource=PERSISTENT_VOLUME_CLAIMS, verbs=(*_SEEN, "create", "delete")),
    Right(resource=SECRETS, verbs=("get", "create", "update", "delete")),
    Right(resource=CONFIG_MAPS, verbs=("get", "list", "create", "delete")),
    Right(resource=EVENTS, verbs=("list", "watch")),
)
"""Needed in every namespace of runs. Secrets are never listed or watched."""
SESSION_RIGHTS: tuple[Right, ...] = tuple(
    # A WebSocket is opened by GET; newer apiservers ask for `create` as well.
    Right(resource=PODS, verbs=("get", "create"), subresource=part)
    for part in ("exec", "attach", "portforward")
)
"""Sessions in containers, for editors and above. Without them, they are refused."""
USAGE_RIGHTS: tuple[Right, ...] = (
    Right(resource=POD_METRICS, verbs=("list",)),
    Right(resource=LIMIT_RANGES, verbs=("list",)),
)
"""What runs use, and what the namespace adds to them. Without them, it is not known."""
PLACE_RIGHTS: tuple[Right, ...] = (Right(resource=NAMESPACES, verbs=("get",), name=CLUSTER_NAMESPACE),)
OWN_PROJECT_RIGHTS: tuple[Right, ...] = tuple(
    Right(resource=resource, verbs=("get", "create", "patch", "delete"))
    for resource in (NETWORK_POLICIES, RESOURCE_QUOTAS, LIMIT_RANGES)
)
"""The rules of a project's namespace. `create` is for server-side apply: a patch of what does not exist needs both."""
PROJECT_RIGHTS: tuple[Right, ...] = (
    Right(resource=NAMESPACES, verbs=("get", "list", "create", "patch", "delete")),
    Right(resource=ROLE_BINDINGS, verbs=("create", "patch")),
    Right(resource=CLUSTER_ROLES, verbs=("bind",), name=PROJECT_ROLE),
    *(
        Right(resource=resource, verbs=("get", "list", "create", "update", "delete"))
        for resource in (VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS)
    ),
    *(
        Right(resource=resource, verbs=("list", "watch"))
        for resource in (JOBS, DEPLOYMENTS, PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS, EVENTS)
    ),
    *(Right(resource=resource, verbs=("list",)) for resource in (PRIORITY_CLASSES, STORAGE_CLASSES, RUNTIME_CLASSES)),
)
"""With a namespace per project, in the whole cluster: reads, and writes of namespaces and their admission policies."""
VIEW_RIGHTS: tuple[Right, ...] = (
    Right(resource=NODES, verbs=("list", "watch")),
    Right(resource=PODS, verbs=("list", "watch")),
    *(Right(resource=resource, verbs=("list",)) for resource in (PRIORITY_CLASSES, STORAGE_CLASSES, RUNTIME_CLASSES)),
)
"""Optional: without it, explanations call other pods and nodes unknown."""


def iter_required(*, namespace: str | None) -> Iterator[Access]:
    """What the engine cannot work without, with one namespace or, if None, with a namespace per project."""
    rights = RUN_RIGHTS if namespace is not None else PROJECT_RIGHTS
    for right in (*PLACE_RIGHTS, *rights):
        yield from right.list_accesses(namespace)


def render_rbac(*, namespace: str | None, account: tuple[str, str], has_view: bool = True) -> list[dict[str, Any]]:
    """The roles and bindings of the server's service account, a namespace and a name."""
    in_namespaces = (*RUN_RIGHTS, *SESSION_RIGHTS, *USAGE_RIGHTS)
    rendered: list[dict[str, Any]]
    if namespace is not None:
        own = Right(resource=NAMESPACES, verbs=("get",), name=namespace)
        rendered = [
            render_role("Role", SERVER_ROLE, (*in_namespaces, own), namespace=namespace),
            render_binding("RoleBinding", SERVER_ROLE, "Role", account, namespace=namespace),
            render_role("ClusterRole", PLACE_ROLE, PLACE_RIGHTS),
            render_binding("ClusterRoleBinding", PLACE_ROLE, "ClusterRole", account),
        ]
    else:
        rendered = [
            render_role("ClusterRole", PROJECT_ROLE, _subtract((*in_namespaces, *OWN_PROJECT_RIGHTS), PROJECT_RIGHTS)),
            render_role("ClusterRole", NAMESPACES_ROLE, PROJECT_RIGHTS),
            render_binding("ClusterRoleBinding", NAMESPACES_ROLE, "ClusterRole", account),
            *_render_fence(account),
        ]
    if has_view:
        rendered += [
            render_role("ClusterRole", VIEW_ROLE, VIEW_RIGHTS),
            render_binding("ClusterRoleBinding", VIEW_ROLE, "ClusterRole", account),
        ]
    return rendered


def _subtract(rights: Sequence[Right], others: Sequence[Right]) -> list[Right]:
    """The rights without the verbs that others grant already."""
    granted = {(right.resource, right.subresource, verb) for right in others if not right.name for verb in right.verbs}
    left = [
        replace(right, verbs=tuple(v for v in right.verbs if (right.resource, right.subresource, v) not in granted))
        for right in merge_rights(rights)
    ]
    return [right for right in left if right.verbs]


def _render_fence(account: tuple[str, str]) -> list[dict[str, Any]]:
    """Keeps the server to its own namespaces: RBAC cannot limit namespaces by a prefix.

    Without it, the right to bind `runyard-project` would be one in every namespace, `kube-system` included.
    """
    user = f"system:serviceaccount:{account[0]}:{account[1]}"
    prefix, fence = NAMESPACE_PREFIX, f"{NAMESPACES_ROLE}.{account[0]}.{account[1]}"
    rules: list[Mapping[str, Any]] = [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": ["namespaces"],
        },
        {
            "apiGroups": [_GROUP],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["rolebindings"],
        },
    ]
    target = 'request.resource.resource == "namespaces" ? request.name : request.namespace'
    validations = [
        {
            "expression": f'({target}).startsWith("{prefix}")',
            "message": f"the server may only touch namespaces whose names begin with {prefix}",
            "reason": "Forbidden",
        },
        {
            "expression": (
                'request.resource.resource == "namespaces" || (object.roleRef.kind == "ClusterRole" && '
                f'object.roleRef.name == "{PROJECT_ROLE}" && object.subjects.all(s, s.kind == "ServiceAccount" && '
                f's.name == "{account[1]}" && s.namespace == "{account[0]}"))'
            ),
            "message": f"the server may only bind itself to {PROJECT_ROLE}",
            "reason": "Forbidden",
        },
    ]
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": render_metadata(fence, None),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules},
            "matchConditions": [{"name": "is-server", "expression": f'request.userInfo.username == "{user}"'}],
            "validations": validations,
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": render_metadata(fence, None),
        "spec": {"policyName": fence, "validationActions": ["Deny"]},
    }
    return [policy, binding]
