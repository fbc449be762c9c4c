"""Objects of a project that outlive its runs: claims of kept volumes, and credentials for its registries."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runyard.manifests.metadata import INSTALLATION_LABEL, PREFIX, VOLUME_ID_LABEL, Marks, to_label_value
from runyard.manifests.names import registry_secret_name
from runyard.manifests.volumes import render_claim_spec
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.registries import MOST_REGISTRIES, RegistryCredential

REGISTRY_KEY = ".dockerconfigjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectIdentity:
    """The project that objects are rendered for."""

    project: str
    namespace: str | None = None
    installation: str = "local"


def render_kept_claim(
    identity: ProjectIdentity, *, claim: str, volume_id: str, size: Quantity, storage_class: str | None = None
) -> dict[str, Any]:
    """The claim of a volume that outlives runs. It has no owner: only the volume ledger deletes it.

    The ledger creates it before the run is released and by `volume_id` knows it again, so a late release cannot leave
    one behind that nobody knows.
    """
    marks = _make_marks(identity)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": marks.render_metadata(claim, labels={VOLUME_ID_LABEL: volume_id}),
        "spec": render_claim_spec(size=size, storage_class=storage_class),
    }


def render_registry_secret(
    identity: ProjectIdentity, *, registries: Mapping[str, RegistryCredential]
) -> dict[str, Any]:
    """The Secret by which the project's runs pull private images, by registry host; raises `Refused` if too many."""
    if len(registries) > MOST_REGISTRIES:
        message = "the project has credentials for too many registries"
        raise Refused([Problem(Code.SIZE_ENTRIES, ("registries",), message, allowed=f"at most {MOST_REGISTRIES}")])
    auths = {host: _render_login(credential) for host, credential in sorted(registries.items())}
    content = json.dumps({"auths": auths}, separators=(",", ":"))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _make_marks(identity).render_metadata(registry_secret_name(identity.project)),
        "type": "kubernetes.io/dockerconfigjson",
        "data": {REGISTRY_KEY: base64.b64encode(content.encode()).decode()},
    }


def _render_login(credential: RegistryCredential) -> dict[str, str]:
    login = base64.b64encode(f"{credential.user}:{credential.password}".encode()).decode()
    return {"username": credential.user, "password": credential.password, "auth": login}


def _make_marks(identity: ProjectIdentity) -> Marks:
    project = to_label_value(identity.project)
    labels = {
        "app.kubernetes.io/part-of": project,
        "app.kubernetes.io/managed-by": "runyard",
        INSTALLATION_LABEL: to_label_value(identity.installation),
        f"{PREFIX}project": project,
        "dhcore/project": project,
    }
    notes = {} if project == identity.project else {f"{PREFIX}project": identity.project}
    return Marks(labels, notes, identity.namespace)
