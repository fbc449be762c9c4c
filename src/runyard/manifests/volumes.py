"""The volumes and mounts of a pod, and the claims and ConfigMaps created for it."""

from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.identity import RunIdentity
from runyard.manifests.metadata import LIFETIME_ANNOTATION, VOLUME_LABEL, Marks, to_label_value
from runyard.manifests.names import claim_name, config_map_name
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.volumes import SCRATCH_PATH, SHARED_MEMORY_PATH, Volume

SCRATCH_VOLUME = "runyard-scratch"


def render_volumes(spec: EffectiveSpec, identity: RunIdentity, marks: Marks) -> list[dict[str, Any]]:
    """The pod's volumes, scratch space first."""
    rendered: list[dict[str, Any]] = []
    if spec.disk and spec.disk.medium == "empty_dir":
        rendered.append({"name": SCRATCH_VOLUME, "emptyDir": {"sizeLimit": spec.disk.size.text}})
    elif spec.disk:
        source = _render_ephemeral(SCRATCH_VOLUME, marks, size=spec.disk.size, storage_class=spec.disk.storage_class)
        rendered.append({"name": SCRATCH_VOLUME, **source})
    rendered += [{"name": volume.name, **_render_source(volume, identity, marks)} for volume in spec.volumes]
    return rendered


def render_mounts(spec: EffectiveSpec) -> list[dict[str, Any]]:
    """The volume mounts of the container."""
    mounts: list[dict[str, Any]] = []
    if spec.disk:
        mounts.append({"name": SCRATCH_VOLUME, "mountPath": SCRATCH_PATH})
    for volume in spec.volumes:
        mount = {"name": volume.name, "mountPath": volume.mount_path}
        mounts.append(mount | ({"subPath": volume.sub_path} if volume.sub_path else {}))
    return mounts


def render_claims(spec: EffectiveSpec, identity: RunIdentity, marks: Marks, *, is_kept: bool) -> list[dict[str, Any]]:
    """The run's claims: those that end with the run, or with `is_kept` those that outlive it, which have no owner."""
    volumes = [volume for volume in spec.volumes if _is_new_claim(volume) and _is_kept(volume) == is_kept]
    return [_render_claim(volume, identity, marks) for volume in volumes]


def render_config_maps(spec: EffectiveSpec, identity: RunIdentity, marks: Marks) -> list[dict[str, Any]]:
    """One ConfigMap per `config_map` volume: each may be nearly as large as an object can be."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": marks.render_metadata(
                config_map_name(identity, volume=volume.name), labels=_render_volume_label(volume)
            ),
            "immutable": True,
            "data": dict(volume.data),
        }
        for volume in spec.volumes
        if volume.type == "config_map" and volume.data is not None
    ]


def has_claim(spec: EffectiveSpec) -> bool:
    """Whether a second pod might wait for a claim of the first. The access mode of existing claims is not known."""
    return any(volume.type in ("persistent_volume_claim", "shared_volume") for volume in spec.volumes)


def _render_source(volume: Volume, identity: RunIdentity, marks: Marks) -> dict[str, Any]:
    match volume.type:
        case "persistent_volume_claim" | "shared_volume":
            name = volume.claim_name or claim_name(identity, volume=volume.name)
            return {"persistentVolumeClaim": {"claimName": name}}
        case "ephemeral":
            return _render_ephemeral(volume.name, marks, size=volume.size, storage_class=volume.storage_class)
        case "empty_dir":
            return {"emptyDir": _render_empty_dir(volume)}
        case "config_map":
            return {"configMap": {"name": config_map_name(identity, volume=volume.name)}}
        case "image":
            return {"image": {"reference": volume.image, "pullPolicy": "IfNotPresent"}}


def _render_empty_dir(volume: Volume) -> dict[str, Any]:
    # Programs expect /dev/shm in memory; on disk it would work, but slowly.
    medium = volume.medium or ("Memory" if volume.mount_path == SHARED_MEMORY_PATH else None)
    source = {"medium": medium, "sizeLimit": volume.size.text if volume.size is not None else None}
    return {key: value for key, value in source.items() if value is not None}


def _render_ephemeral(name: str, marks: Marks, *, size: Quantity | None, storage_class: str | None) -> dict[str, Any]:
    template = {
        "metadata": marks.render_metadata(labels={VOLUME_LABEL: to_label_value(name)}),
        "spec": render_claim_spec(size=size, storage_class=storage_class),
    }
    return {"ephemeral": {"volumeClaimTemplate": template}}


def _render_claim(volume: Volume, identity: RunIdentity, marks: Marks) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": marks.render_metadata(
            claim_name(identity, volume=volume.name),
            labels=_render_volume_label(volume),
            annotations={LIFETIME_ANNOTATION: "run" if volume.lifetime is None else str(volume.lifetime)},
        ),
        "spec": render_claim_spec(size=volume.size, storage_class=volume.storage_class),
    }


def render_claim_spec(*, size: Quantity | None, storage_class: str | None) -> dict[str, Any]:
    """The spec of a claim, for one node at a time."""
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    if size is not None:
        spec["resources"] = {"requests": {"storage": size.text}}
    return spec


def _render_volume_label(volume: Volume) -> dict[str, str]:
    return {VOLUME_LABEL: to_label_value(volume.name)}


def _is_kept(volume: Volume) -> bool:
    """Whether its claim outlives the run: for ever, or for a time."""
    return volume.lifetime not in (None, "run")


def _is_new_claim(volume: Volume) -> bool:
    return volume.type == "persistent_volume_claim" and volume.claim_name is None
