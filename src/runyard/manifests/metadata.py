"""Labels, annotations and owner references of a run's objects."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.identity import Owner, RunIdentity
from runyard.manifests.names import HASH_CHARACTERS, hash_text, run_name
from runyard.spec.names import MOST_LABEL_CHARACTERS, check_label_value

PREFIX = "runyard.io/"
RUN_LABEL = f"{PREFIX}run"
"""The run's id, for people: other projects may use the same."""
RUN_UID_LABEL = f"{PREFIX}run-uid"
INSTALLATION_LABEL = f"{PREFIX}installation"
VOLUME_LABEL = f"{PREFIX}volume"
LIFETIME_ANNOTATION = f"{PREFIX}lifetime"
"""On a claim: `run`, `keep`, or the seconds for which it is kept after the run."""
PENDING_TIMEOUT_ANNOTATION = f"{PREFIX}pending-timeout"
"""On a Job or Deployment: the seconds for which its pods may be pending."""
GENERATION_ANNOTATION = f"{PREFIX}generation"
"""On an anchor: the newest generation of the desired state that it was told. On its Secret: that of the release."""
WISH_ANNOTATION = f"{PREFIX}wish"
"""On an anchor: `hold` (not released yet), `run`, or `stop`. A service with 0 replicas may be any of them."""
TIMEOUT_ANNOTATION = f"{PREFIX}timeout"
"""On an anchor that is a Job: the seconds after which Runyard stops it. The Job's own deadline is a later one."""
TTL_ANNOTATION = f"{PREFIX}ttl"
"""On an anchor that is a Job: the seconds that it is kept after its end. Settling sets them."""
REPLICAS_ANNOTATION = f"{PREFIX}replicas"
"""On an anchor that is a Deployment: the replicas that its release sets."""
REMINDED_ANNOTATION = f"{PREFIX}reminded-at"
"""When the controller of a Job was last reminded of it."""
SERVED_ANNOTATION = f"{PREFIX}serves-run-of"
"""On the Service with the stable name of a service: when the run was submitted that it leads to, and has been ready.

It is missing while the run that created the Service has not been ready yet.
"""
VOLUME_ID_LABEL = f"{PREFIX}volume-id"
"""On a claim that outlives runs: the volume in the ledger."""
RUN_NAME_ANNOTATION = f"{PREFIX}run-name"

API_VERSIONS: Mapping[str, str] = MappingProxyType({"Job": "batch/v1", "Deployment": "apps/v1"})

_FRAMEWORKS = MappingProxyType({"job": "k8sjob", "serve": "k8sserve", "deploy": "k8sdeployment"})
_RESERVED_PREFIXES = (PREFIX, "dhcore/", "batch.kubernetes.io/")
_RESERVED_LABELS = frozenset({"controller-uid", "job-name", "pod-template-hash"})
"""Labels that Kubernetes' controllers set; they refuse objects with other values."""
_HASHED_VALUE = re.compile(rf"(?:.*-)?x[0-9a-f]{{{HASH_CHARACTERS}}}")


def to_label_value(text: str) -> str:
    """A legal label value, different for different texts: the text itself, or its legal characters and a hash.

    A text that looks like a hashed value is hashed too, so that it cannot imitate another.
    """
    if check_label_value(text) is None and not _HASHED_VALUE.fullmatch(text):
        return text
    ending = f"x{hash_text(text)}"
    room = MOST_LABEL_CHARACTERS - len(ending) - 1
    slug = re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-_.")[:room].strip("-_.")
    return f"{slug}-{ending}" if slug else ending


@dataclass(frozen=True, slots=True)
class Marks:
    """Labels, annotations, namespace and owner that all objects of one run share."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    namespace: str | None
    owner: Owner | None = None

    def render_metadata(
        self,
        name: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The metadata of an object; without a name, of a pod or claim template."""
        metadata: dict[str, Any] = {"name": name} if name else {}
        if name and self.namespace:
            metadata["namespace"] = self.namespace
        metadata["labels"] = {**self.labels, **(labels or {})}
        if notes := {**self.annotations, **(annotations or {})}:
            metadata["annotations"] = notes
        if name and self.owner:
            metadata["ownerReferences"] = [_render_owner(self.owner)]
        return metadata

    def render_selector(self) -> dict[str, str]:
        """The label selector of the run's pods. A Deployment's selector is immutable."""
        return {key: self.labels[key] for key in (INSTALLATION_LABEL, RUN_UID_LABEL)}


def make_marks(spec: EffectiveSpec, identity: RunIdentity, *, owner: Owner | None = None) -> Marks:
    """The marks of a run's objects. An admin's labels never replace the platform's."""
    exact = {
        INSTALLATION_LABEL: identity.installation,
        RUN_LABEL: identity.run_id,
        RUN_UID_LABEL: identity.run_uid,
        f"{PREFIX}project": identity.project,
        f"{PREFIX}action": spec.action,
        f"{PREFIX}kind": spec.kind,
        f"{PREFIX}profile": spec.profile,
        f"{PREFIX}user": identity.user,
        f"{PREFIX}function": identity.function,
        "dhcore/project": identity.project,
        "dhcore/run": identity.run_id,
        "dhcore/runtime": spec.kind,
        "dhcore/framework": _FRAMEWORKS.get(spec.action),
        "dhcore/user": identity.user,
    }
    ours = {
        "app.kubernetes.io/name": to_label_value(identity.function or spec.kind),
        "app.kubernetes.io/instance": run_name(identity),
        "app.kubernetes.io/component": spec.action,
        "app.kubernetes.io/part-of": to_label_value(identity.project),
        "app.kubernetes.io/managed-by": "runyard",
        **{key: to_label_value(text) for key, text in exact.items() if text is not None},
    }
    admins = {key: value for key, value in spec.labels.items() if key not in ours and not _is_reserved(key)}
    notes = {
        key: text for key, text in exact.items() if text is not None and key.startswith(PREFIX) and ours[key] != text
    }
    if identity.run_name is not None:
        notes[RUN_NAME_ANNOTATION] = identity.run_name
    return Marks({**ours, **admins}, notes, identity.namespace, owner)


def _is_reserved(key: str) -> bool:
    return key.startswith(_RESERVED_PREFIXES) or key in _RESERVED_LABELS


def _render_owner(owner: Owner) -> dict[str, Any]:
    # Not a controller: the anchor does not manage these objects. `blockOwnerDeletion` would need more RBAC rights.
    return {
        "apiVersion": API_VERSIONS[owner.kind],
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": False,
        "blockOwnerDeletion": False,
    }
