"""Checks that the pod has the profile's volumes: same type, mount path, size, storage class and files."""

from collections.abc import Iterable, Iterator
from typing import Any

from runyard.domain.admission.admin_inputs import AdminInputs
from runyard.domain.admission.amounts import STORAGE, find_amount
from runyard.domain.admission.bundle import Bundle, ObjectPart, Source
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem
from runyard.spec.volumes import SCRATCH_PATH, Volume

_KINDS = {
    "persistent_volume_claim": "persistentVolumeClaim",
    "shared_volume": "persistentVolumeClaim",
    "ephemeral": "ephemeral",
    "empty_dir": "emptyDir",
    "config_map": "configMap",
    "image": "image",
}


def check_volumes(volumes: Iterable[Volume], bundle: Bundle, admin: AdminInputs) -> Iterator[Problem]:
    """Find every volume of the profile that is missing or different."""
    sources = {source.name: source for source in bundle.iter_sources()}
    for volume in volumes:
        if volume.mount_path == SCRATCH_PATH and admin.find_locked_value("resources.disk") is not None:
            continue  # the policy's locked disk takes this mount path
        source = sources.get(volume.name)
        expected: dict[str, Any] = {"name": volume.name, "mountPath": volume.mount_path}
        if volume.sub_path:
            expected["subPath"] = volume.sub_path
        if source is None or source.kind != _KINDS[volume.type] or expected not in _list_mounts(bundle):
            yield _report_difference(volume, "type and mount_path", bundle)
        else:
            yield from _check_volume(volume, source, bundle, admin)


def _list_mounts(bundle: Bundle) -> list[Any]:
    return [] if bundle.container is None else list(bundle.container.content.get("volumeMounts", ()))


def _check_volume(volume: Volume, source: Source, bundle: Bundle, admin: AdminInputs) -> Iterator[Problem]:
    for name, expected, given in _iter_attributes(volume, source, bundle):
        rule = f"volumes.{name}"
        if expected is not None and given != expected and admin.find_locked_value(rule) is None:
            yield _report_difference(volume, name, bundle)


def _iter_attributes(volume: Volume, source: Source, bundle: Bundle) -> Iterator[tuple[str, Any, Any]]:
    """Each attribute of a volume: its name, the profile's value, and the value that is sent."""
    part = source.part
    if volume.type == "empty_dir":
        yield "size_limit", volume.size, find_amount(part, "sizeLimit")
        yield "medium", volume.medium, part.find("medium")
    elif volume.type == "image":
        yield "image", volume.image, part.find("reference")
    elif volume.type == "config_map":
        # The name of a run has no dot; that of its ConfigMap ends with the volume's name.
        yield "config_map", volume.name, str(part.find("name")).partition(".")[2]
        yield "data", None if volume.data is None else dict(volume.data), _find_data(source, bundle)
    elif volume.type == "persistent_volume_claim" and volume.claim_name is not None:
        yield "claim_name", volume.claim_name, part.find("claimName")
    elif claim := _find_claim(source, bundle):
        yield "size", volume.size, find_amount(claim, *STORAGE)
        yield "storage_class", volume.storage_class, claim.find("storageClassName")


def _find_data(source: Source, bundle: Bundle) -> Any:
    """The files of the ConfigMap behind a volume. Every ConfigMap that a run mounts is its own."""
    name = source.part.find("name")
    maps = bundle.of("ConfigMap")
    return next((item.content["data"] for item in maps if item.content["metadata"]["name"] == name), None)


def _find_claim(source: Source, bundle: Bundle) -> ObjectPart | None:
    """The spec of the claim behind a volume, if the claim is created for this run."""
    if source.kind == "ephemeral":
        return source.part.open("volumeClaimTemplate", "spec")
    name = source.part.find("claimName")
    claims = bundle.of("PersistentVolumeClaim")
    return next((claim.open("spec") for claim in claims if claim.content["metadata"]["name"] == name), None)


def _report_difference(volume: Volume, name: str, bundle: Bundle) -> Problem:
    path = () if bundle.pod is None else (*bundle.pod.path, "volumes", volume.name)
    return Problem(Code.ADMISSION_PROFILE, path, f"the volume's {name} differs from the profile's")
