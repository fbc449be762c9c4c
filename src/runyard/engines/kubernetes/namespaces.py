"""Which namespace the objects of a project are in. Pure.

With one namespace for all projects, that one; it exists already and is never changed. With a namespace per project,
`runyard-<project>`, or a hashed name where that is not a valid namespace. Two projects never have the same namespace.
A namespace is ours only if its labels name this installation and the project: any other is a stranger's.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runyard.manifests.metadata import INSTALLATION_LABEL, PREFIX, to_label_value
from runyard.manifests.names import HASH_CHARACTERS, hash_text
from runyard.spec.names import MOST_LABEL_CHARACTERS, check_dns_label

NAMESPACE_PREFIX = "runyard-"
PROJECT_LABEL = f"{PREFIX}project"
PROJECT_ANNOTATION = PROJECT_LABEL
"""The project's exact name; a label may have to hold a hash of it."""
_HASHED = re.compile(rf"x-(?:.*-)?[0-9a-f]{{{HASH_CHARACTERS}}}")


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Finds the namespace of a project."""

    shared: str | None
    """The namespace of all projects. None: each project has its own."""
    installation: str

    @property
    def is_per_project(self) -> bool:
        """Whether each project has a namespace of its own, which the engine creates and removes."""
        return self.shared is None

    def get_namespace(self, project: str) -> str:
        """The namespace of a project, in either mode."""
        return project_namespace(project) if self.shared is None else self.shared

    def owns(self, namespace: Mapping[str, Any], *, project: str) -> bool:
        """Whether this installation created that namespace for that project, by its labels."""
        expected = self.render_labels(project).items()
        return expected <= _get_map(namespace, "labels").items() and find_project(namespace) == project

    def render_labels(self, project: str) -> dict[str, str]:
        """The labels by which a namespace, and what is made for a project, is known to be ours."""
        return {
            "app.kubernetes.io/managed-by": "runyard",
            INSTALLATION_LABEL: to_label_value(self.installation),
            PROJECT_LABEL: to_label_value(project),
        }

    @property
    def selector(self) -> str:
        """The label selector of everything that this installation created."""
        return f"{INSTALLATION_LABEL}={to_label_value(self.installation)}"


def project_namespace(project: str) -> str:
    """The name of a project's own namespace, different for different projects.

    A project whose name looks like a hashed one is hashed too, so that it cannot imitate another.
    """
    plain = f"{NAMESPACE_PREFIX}{project}"
    if check_dns_label(plain) is None and not _HASHED.fullmatch(project):
        return plain
    digest = hash_text(project)
    room = MOST_LABEL_CHARACTERS - len(f"{NAMESPACE_PREFIX}x--{digest}")
    slug = re.sub(r"[^a-z0-9]+", "-", project.lower()).strip("-")[:room].strip("-")
    return f"{NAMESPACE_PREFIX}x-{slug}-{digest}" if slug else f"{NAMESPACE_PREFIX}x-{digest}"


def find_project(item: Mapping[str, Any]) -> str | None:
    """The project that an object names: by its annotation where the label holds a hash."""
    exact = _get_map(item, "annotations").get(PROJECT_ANNOTATION)
    label = _get_map(item, "labels").get(PROJECT_LABEL)
    if exact is not None:
        return exact if to_label_value(exact) == label else None
    return label


def _get_map(item: Mapping[str, Any], name: str) -> Mapping[str, str]:
    return (item.get("metadata") or {}).get(name) or {}
