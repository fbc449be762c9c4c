"""Rights as `runyard server rbac` prints them, and as the apiserver's audit log shows that they were used."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

Scope = Literal["cluster", "namespaces"]
_ALLOWED_BY = re.compile(r'^RBAC: allowed by (Cluster)?RoleBinding "[^"]+" of (?:Cluster)?Role "([^"]+)"')


class GrantedRight(NamedTuple):
    """One verb on one resource, where a binding grants it."""

    scope: Scope
    verb: str
    group: str
    resource: str
    """Its plural, with the subresource: `pods/log`."""


def list_printed(printed: Sequence[Mapping[str, Any]]) -> set[GrantedRight]:
    """The single rights of roles and bindings. A role that no binding names is bound later, in namespaces."""
    cluster_wide = {item["roleRef"]["name"] for item in printed if item["kind"] == "ClusterRoleBinding"}
    return {
        GrantedRight("cluster" if item["metadata"]["name"] in cluster_wide else "namespaces", verb, group, resource)
        for item in printed
        if item["kind"] in ("Role", "ClusterRole")
        for rule in item["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def list_used(folder: Path, *, account: str, roles: str) -> set[GrantedRight]:
    """The rights by which the requests of a service account were allowed, if roles of that prefix granted them.

    A right that a ClusterRoleBinding and a RoleBinding grant counts once, for the cluster: RBAC looks there first.
    """
    return {right for role, right in _iter_allowed(folder, account=account) if role.startswith(roles)}


def list_refused(folder: Path, *, account: str) -> set[tuple[str, str, str]]:
    """Verb, resource and namespace of the requests that no right allowed."""
    return {
        (event["verb"], _name_resource(event["objectRef"]), event["objectRef"].get("namespace", ""))
        for event in _iter_events(folder, account=account)
        if event["annotations"].get("authorization.k8s.io/decision") == "forbid"
    }


def _iter_allowed(folder: Path, *, account: str) -> Iterator[tuple[str, GrantedRight]]:
    """The role that allowed a request, and by which right."""
    for event in _iter_events(folder, account=account):
        found = _ALLOWED_BY.match(event["annotations"].get("authorization.k8s.io/reason", ""))
        if found is not None:
            about = event["objectRef"]
            scope: Scope = "cluster" if found[1] else "namespaces"
            yield found[2], GrantedRight(scope, event["verb"], about.get("apiGroup", ""), _name_resource(about))


def _iter_events(folder: Path, *, account: str) -> Iterator[dict[str, Any]]:
    """What the audit log has of the requests of a service account for resources."""
    for path in folder.glob("audit*.log"):
        with path.open("rb") as file:
            for line in file:
                if f':{account}"'.encode() in line:  # the log of a session is long
                    event = json.loads(line)
                    is_ours = event["user"]["username"].endswith(f":{account}")
                    if is_ours and "annotations" in event and "resource" in event.get("objectRef", {}):
                        yield event


def _name_resource(about: Mapping[str, Any]) -> str:
    return f"{about['resource']}/{about['subresource']}" if "subresource" in about else str(about["resource"])
