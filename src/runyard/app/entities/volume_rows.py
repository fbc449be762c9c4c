"""Rows of the volume ledger: volumes that users create, and claims that runs leave behind. Pure, but for one write.

`spec` is what was asked for. `status` has what the server knows: the place, the claim as the engine finds it, the run
that owns it, when it expires, and why it waits.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from runyard.app.engine import KeptVolume
from runyard.app.model import Entity
from runyard.app.ports import UnitOfWork

VOLUME_KIND = "volume"
"""A volume that a user created by its name."""
CLAIM_KIND = "claim"
"""A claim of a run that outlives the run; its name is that of the claim."""


def make_claim_name(volume_id: str) -> str:
    """The name of the PersistentVolumeClaim of a volume that a user created."""
    return f"vol-{volume_id}"


def get_claim(volume: Entity) -> str:
    """The name of the volume's PersistentVolumeClaim."""
    return volume.name if volume.kind == CLAIM_KIND else make_claim_name(volume.id)


def make_kept_volume(volume: Entity) -> KeptVolume:
    """The volume as an engine gets it."""
    return KeptVolume(
        project=volume.project,
        claim=get_claim(volume),
        volume_id=volume.id,
        size=volume.spec.get("size"),
        storage_class=volume.spec.get("storage_class"),
    )


def find_place(volume: Entity) -> str | None:
    """Where its claim may exist. None: it exists nowhere."""
    place: str | None = volume.status.get("place")
    return place


def find_owner_uid(volume: Entity) -> str | None:
    """The uid of the run that it belongs to."""
    uid: str | None = volume.status.get("run", {}).get("uid")
    return uid


def change_status(
    volume: Entity, values: Mapping[str, Any], *, at: datetime, by: str = "system", state: str | None = None
) -> Entity:
    """The volume with these values in its status; None removes one."""
    status = {key: value for key, value in {**volume.status, **values}.items() if value is not None}
    return replace(volume, state=state or volume.state, status=status, updated_at=at, updated_by=by)


async def begin_volume_deletion(
    unit: UnitOfWork, volume: Entity, *, at: datetime, by: str = "system", reason: str | None = None
) -> bool:
    """Delete a volume that exists nowhere; mark another DELETING, for the volume loop. Returns whether it is gone.

    The caller holds the project's lock, so that the loop does not give the volume a place meanwhile.
    """
    if find_place(volume) is None:
        await unit.entities.delete("volume", volume.id, project=volume.project)
        return True
    if volume.state != "DELETING":
        why = {"reason": reason, "message": None}
        await unit.entities.replace(change_status(volume, why, at=at, by=by, state="DELETING"))
    return False
