"""Rights of a program in RBAC: as data, to be asked for at start, and rendered as roles and bindings. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runyard.kube.permissions import Access
from runyard.kube.resources import Resource

_GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What may be done with one resource."""

    resource: Resource
    verbs: tuple[str, ...]
    subresource: str = ""
    name: str = ""
    """Only the object of that name."""

    def list_accesses(self, namespace: str | None) -> Iterator[Access]:
        """The single requests that it allows."""
        where = namespace if self.resource.namespaced else None
        for verb in self.verbs:
            yield Access(verb, self.resource, where, subresource=self.subresource, name=self.name)


def render_role(kind: str, name: str, rights: Sequence[Right], *, namespace: str | None = None) -> dict[str, Any]:
    """A Role or ClusterRole, by `kind`, with one rule for each set of verbs."""
    rules: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    for right in merge_rights(rights):
        plural = f"{right.resource.plural}/{right.subresource}" if right.subresource else right.resource.plural
        rules.setdefault((right.resource.group, right.verbs, right.name), []).append(plural)
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": kind,
        "metadata": render_metadata(name, namespace),
        "rules": [
            {"apiGroups": [group], "resources": plurals, "verbs": list(verbs)}
            | ({"resourceNames": [only]} if only else {})
            for (group, verbs, only), plurals in rules.items()
        ],
    }


def merge_rights(rights: Sequence[Right]) -> list[Right]:
    """Each resource once, with all its verbs."""
    merged: dict[tuple[Resource, str, str], dict[str, None]] = {}
    for right in rights:
        merged.setdefault((right.resource, right.subresource, right.name), {}).update(dict.fromkeys(right.verbs))
    return [
        Right(resource=resource, verbs=tuple(verbs), subresource=subresource, name=name)
        for (resource, subresource, name), verbs in merged.items()
    ]


def render_binding(
    kind: str, name: str, role: str, account: tuple[str, str], *, namespace: str | None = None
) -> dict[str, Any]:
    """Bind a service account, a namespace and a name, to a role; named by both, as several may share a cluster."""
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": kind,
        "metadata": render_metadata(f"{name}.{account[0]}.{account[1]}", namespace),
        "roleRef": {"apiGroup": _GROUP, "kind": role, "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": account[0], "name": account[1]}],
    }


def render_metadata(name: str, namespace: str | None) -> dict[str, Any]:
    """Metadata with the labels of what Runyard installs."""
    labels = {"app.kubernetes.io/managed-by": "runyard", "app.kubernetes.io/part-of": "runyard"}
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels}
