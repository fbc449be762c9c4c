"""Kept volumes: PersistentVolumeClaims that outlive runs. A claim is ours by its labels: installation and volume id.

A claim that a pod mounts stays until the pod ends: Kubernetes' own protection of claims in use (`pvc-protection`).
"""

import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from runyard.app.engine import EngineRefusal, EngineUnavailable, KeptVolume, VolumeState
from runyard.domain.admission import AdmittedObject, admit_project_objects
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.cluster_writes import ClusterWrites
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings
from runyard.engines.kubernetes.namespaces import PROJECT_LABEL, Namespaces, find_project
from runyard.kube import AlreadyExists, Client, Forbidden, NotFound
from runyard.kube.objects import Object
from runyard.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PODS, STORAGE_CLASSES
from runyard.manifests.metadata import INSTALLATION_LABEL, RUN_UID_LABEL, VOLUME_ID_LABEL, to_label_value
from runyard.manifests.project_objects import ProjectIdentity, render_kept_claim
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.policy import BUILT_IN
from runyard.spec.problems import Refused, list_words

MOST_LISTED_VOLUMES = 10_000
"""How many strangers' claims are listed."""
DEFAULT_CLASS_ANNOTATION = "storageclass.kubernetes.io/is-default-class"

Mounts = dict[tuple[str, str], dict[str, None]]
"""Uids of runs, by the namespace and claim that their pods mount."""
Phase = Literal["pending", "bound", "lost", "removing"]
_PHASES: Mapping[str, Phase] = {"Bound": "bound", "Lost": "lost"}
_ENDED = ("Succeeded", "Failed")

_log = logging.getLogger(__name__)


class KeptVolumes:
    """The claims of kept volumes, in all namespaces of this installation."""

    def __init__(self, client: Client, settings: KubernetesSettings, writes: ClusterWrites) -> None:
        self._client = client
        self._writes = writes
        self._namespaces = Namespaces(settings.namespace, settings.installation)
        self._installation = settings.installation

    async def ensure_volume(self, volume: KeptVolume) -> VolumeState:
        """Create the claim, or find it. Raises `EngineRefusal` if its name belongs to another volume or a stranger."""
        admitted = self._admit(volume)
        namespace = self._namespaces.get_namespace(volume.project)
        try:
            claim = await self._writes.create(admitted)
        except AlreadyExists:
            claim = await self._find(volume) or {}
            if not claim:
                message = f"claim {volume.claim} was removed at the same time"
                raise EngineUnavailable(Reason.VOLUME_LOST, message) from None
        except NotFound:
            raise EngineUnavailable(Reason.NAMESPACE_MISSING, f"namespace {namespace} does not exist") from None
        if not self._is_volume(claim, volume):
            message = f"claim {volume.claim} belongs to another volume, or Runyard did not create it"
            raise EngineRefusal(Reason.VOLUME_TAKEN, message)
        return await self._describe_new(claim, volume.project)

    async def remove_volume(self, volume: KeptVolume) -> bool:
        """Delete the claim of that volume and its data; returns whether it is gone. Any other claim stays."""
        claim = await self._find(volume)
        if claim is None or not self._is_volume(claim, volume):
            return True
        if "deletionTimestamp" in claim["metadata"]:
            return False
        namespace, uid = claim["metadata"]["namespace"], claim["metadata"]["uid"]
        is_deleted = await self._writes.delete(
            PERSISTENT_VOLUME_CLAIMS, volume.claim, namespace=namespace, uid=uid, propagation=None
        )
        return is_deleted and await self._find(volume) is None

    async def list_volumes(self) -> Sequence[VolumeState]:
        """The claims of this installation that no run owns, and strangers' claims in the namespaces of its projects.

        Our own are all listed, because a volume that is missing counts as lost; of strangers' claims the first
        `MOST_LISTED_VOLUMES`. A claim of another installation in a shared namespace is not listed.
        """
        listed = [found async for found in self._iter_claims(self._namespaces.selector, projects={})]
        listed += await self._list_strangers()
        mounts = await self._list_mounts() if listed else {}
        return [
            replace(state, mounted_by=tuple(mounts.get((namespace, state.claim), ()))) for namespace, state in listed
        ]

    def _admit(self, volume: KeptVolume) -> AdmittedObject:
        identity = ProjectIdentity(
            project=volume.project,
            namespace=self._namespaces.get_namespace(volume.project),
            installation=self._installation,
        )
        size = BUILT_IN.rules["volumes.size"].default if volume.size is None else Quantity.parse(volume.size)
        rendered = render_kept_claim(
            identity, claim=volume.claim, volume_id=volume.volume_id, size=size, storage_class=volume.storage_class
        )
        try:
            [admitted] = admit_project_objects([rendered], project=volume.project, installation=self._installation)
        except Refused as refused:
            raise EngineRefusal(Reason.ADMISSION_REFUSED, str(refused)) from refused
        return admitted

    async def _find(self, volume: KeptVolume) -> Object | None:
        namespace = self._namespaces.get_namespace(volume.project)
        try:
            return await self._client.get(
                PERSISTENT_VOLUME_CLAIMS,
                volume.claim,
                namespace=namespace,
                deadline_seconds=self._writes.request_seconds,
            )
        except NotFound:
            return None

    def _is_volume(self, claim: Mapping[str, Any], volume: KeptVolume) -> bool:
        is_same = self._find_volume_id(claim) == volume.volume_id
        return is_same and find_project(claim) == volume.project

    def _find_volume_id(self, claim: Mapping[str, Any]) -> str | None:
        """The volume that a claim belongs to; None if it is not of this installation."""
        labels = claim["metadata"].get("labels") or {}
        is_ours = labels.get(INSTALLATION_LABEL) == to_label_value(self._installation)
        return labels.get(VOLUME_ID_LABEL) if is_ours else None

    async def _iter_claims(
        self, selector: str, *, projects: Mapping[str, str]
    ) -> AsyncIterator[tuple[str, VolumeState]]:
        """The claims that a selector finds, with their namespaces. Holds one page of whole objects at a time."""
        async for page in self._client.iter_pages(
            PERSISTENT_VOLUME_CLAIMS, namespace=self._namespaces.shared, label_selector=selector
        ):
            found = [(self._attribute(claim, projects), claim) for claim in page.items]
            classes = await self._read_classes(claim for project, claim in found if project is not None)
            for project, claim in found:
                if project is not None:
                    yield claim["metadata"]["namespace"], self._describe(claim, project=project, classes=classes)

    async def _list_strangers(self) -> list[tuple[str, VolumeState]]:
        """Claims of projects that are not this installation's, with their namespaces."""
        if self._namespaces.is_per_project:
            projects = await self._list_namespaces()
            selector = f"{INSTALLATION_LABEL}!={to_label_value(self._installation)}"
        else:
            projects, selector = {}, f"!{INSTALLATION_LABEL},{PROJECT_LABEL}"
        found: list[tuple[str, VolumeState]] = []
        async for one in self._iter_claims(selector, projects=projects):
            if len(found) >= MOST_LISTED_VOLUMES:
                _log.info("only the first %d claims of strangers are listed", MOST_LISTED_VOLUMES)
                break
            found.append(one)
        return found

    async def _list_namespaces(self) -> dict[str, str]:
        """The projects of this installation by their namespace."""
        listed = await self._client.list(NAMESPACES, label_selector=self._namespaces.selector)
        named = ((item["metadata"]["name"], find_project(item)) for item in listed.items)
        return {name: project for name, project in named if project is not None}

    def _attribute(self, claim: Object, projects: Mapping[str, str]) -> str | None:
        """The project under which a claim is listed; None if it is not listed."""
        metadata = claim["metadata"]
        if metadata.get("ownerReferences"):
            return None
        installation = (metadata.get("labels") or {}).get(INSTALLATION_LABEL)
        if installation == to_label_value(self._installation):
            return find_project(claim)
        if self._namespaces.is_per_project:
            return projects.get(metadata["namespace"])
        return find_project(claim) if installation is None else None

    async def _list_mounts(self) -> Mounts:
        """Which runs mount which claims. Holds one page of pods at a time."""
        mounts: Mounts = {}
        selector = self._namespaces.selector
        async for page in self._client.iter_pages(PODS, namespace=self._namespaces.shared, label_selector=selector):
            _add_mounts(mounts, page.items)
        return mounts

    async def _describe_new(self, claim: Object, project: str) -> VolumeState:
        classes = await self._read_classes([claim])
        return self._describe(claim, project=project, classes=classes)

    async def _read_classes(self, claims: Iterable[Object]) -> Mapping[str, Object] | None:
        """The storage classes by name if a claim is pending; None if they may not be read."""
        if not any(_find_phase(claim) == "pending" for claim in claims):
            return {}
        try:
            listed = await self._client.list(STORAGE_CLASSES)
        except Forbidden:
            return None
        return {item["metadata"]["name"]: item for item in listed.items}

    def _describe(self, claim: Object, *, project: str, classes: Mapping[str, Object] | None) -> VolumeState:
        """The claim as it is, without who mounts it."""
        metadata, spec = claim["metadata"], claim.get("spec") or {}
        phase = _find_phase(claim)
        return VolumeState(
            project=project,
            claim=metadata["name"],
            volume_id=self._find_volume_id(claim),
            phase=phase,
            size=((claim.get("status") or {}).get("capacity") or {}).get("storage"),
            storage_class=spec.get("storageClassName"),
            message=explain_phase(phase, spec, classes),
        )


def explain_phase(phase: Phase, spec: Mapping[str, Any], classes: Mapping[str, Object] | None) -> str | None:
    """Why a claim is not bound, as far as its class and binding mode say; None if there is nothing to say.

    `classes` is None if storage classes may not be read. Waiting for the first run that mounts it is not a problem.
    """
    if phase == "lost":
        return f"the volume {spec.get('volumeName', '')} behind the claim is gone"
    if phase == "removing":
        return "the claim goes when no pod mounts it"
    if phase == "bound":
        return None
    name = spec.get("storageClassName")
    if classes is None:
        return f"the claim is not bound yet; its storage class is {name or 'not set'}"
    if name is None:
        has_default = any(_is_default(item) for item in classes.values())
        return None if has_default else "no storage class is set, and the cluster has no default: choose one"
    if name not in classes:
        known = list_words(sorted(classes)) or "none"
        return f"storage class {name} does not exist; the cluster has: {known}" if name else None
    if classes[name].get("volumeBindingMode") == "WaitForFirstConsumer":
        return f"storage class {name} binds the claim when the first run mounts it"
    return f"waiting for the provisioner {classes[name].get('provisioner')} of storage class {name}"


def _add_mounts(mounts: Mounts, pods: Iterable[Mapping[str, Any]]) -> None:
    """Add the claims that pods mount which have not ended."""
    for pod in pods:
        metadata = pod["metadata"]
        run_uid = (metadata.get("labels") or {}).get(RUN_UID_LABEL)
        if run_uid is None or (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        for volume in (pod.get("spec") or {}).get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim is not None:
                mounts.setdefault((metadata["namespace"], claim), {})[run_uid] = None


def _find_phase(claim: Mapping[str, Any]) -> Phase:
    if "deletionTimestamp" in claim["metadata"]:
        return "removing"
    return _PHASES.get((claim.get("status") or {}).get("phase", ""), "pending")


def _is_default(storage_class: Mapping[str, Any]) -> bool:
    return (storage_class["metadata"].get("annotations") or {}).get(DEFAULT_CLASS_ANNOTATION) == "true"
