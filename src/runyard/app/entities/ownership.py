"""Metadata keys that only the server writes, and the check that a run's token changes only what its run created.

Values that clients send for these keys are dropped.
"""

from dataclasses import replace
from datetime import datetime

from runyard.app.errors import Forbidden
from runyard.app.model import Entity, Json, Principal

PRODUCER = "produced_by_run"
"""The id of the run that created the entity."""
PRODUCER_UID = "produced_by_run_uid"
"""Its uid. Default: its id, which is the uid of runs that are older than uids."""
RUNS_AS = "runs_as"
"""Of a trigger: the user who changed its spec last, as whom it fires. Default: its creator."""
RUNS_AS_SINCE = "runs_as_since"
"""Of a trigger: when that user changed its spec. Default: when it was updated last, or created if it has no RUNS_AS."""
STATE_SINCE = "state_since"
"""When it entered its state. Default: when it was created."""
KEPT = (PRODUCER, PRODUCER_UID, RUNS_AS, RUNS_AS_SINCE, STATE_SINCE)
"""Keys that an update by a client keeps."""


def name_producer(who: Principal) -> Json:
    """Metadata that names the run which creates an entity."""
    return {} if who.run_id is None else {PRODUCER: who.run_id, PRODUCER_UID: who.run_uid}


def note_change(stored: Entity, changed: Entity, who: Principal, *, at: datetime) -> Entity:
    """Add what the server records about a change: when the state changed, who changed a trigger."""
    noted: Json = {}
    if changed.state != stored.state:
        noted[STATE_SINCE] = at.isoformat()
    if changed.type == "trigger" and changed.spec != stored.spec:
        noted |= {RUNS_AS: who.name, RUNS_AS_SINCE: at.isoformat()}
    return replace(changed, metadata={**changed.metadata, **noted}) if noted else changed


def find_state_since(entity: Entity) -> datetime:
    """When the entity entered its state."""
    since = entity.metadata.get(STATE_SINCE)
    return entity.created_at if since is None else datetime.fromisoformat(since)


def find_actor(trigger: Entity) -> str:
    """The user as whom a trigger fires: the one who wrote its spec."""
    return str(trigger.metadata.get(RUNS_AS) or trigger.user)


def find_actor_since(trigger: Entity) -> datetime:
    """When that user wrote its spec. An account of this name that is younger belongs to somebody else."""
    since = trigger.metadata.get(RUNS_AS_SINCE)
    if since is not None:
        return datetime.fromisoformat(since)
    return trigger.updated_at if RUNS_AS in trigger.metadata else trigger.created_at


def find_producer_uid(entity: Entity) -> str | None:
    """The uid of the run that created the entity, as the server recorded it."""
    uid = entity.metadata.get(PRODUCER_UID, entity.metadata.get(PRODUCER))
    return None if uid is None else str(uid)


def check_own_entity(who: Principal, entity: Entity) -> None:
    """Raises `Forbidden` if a run's token would change an entity that the run did not create."""
    producer_uid = find_producer_uid(entity)
    if who.run_id is not None and (producer_uid is None or producer_uid != who.run_uid):
        raise Forbidden(f"this token is for run {who.run_id} only, which did not create {entity.type} {entity.id}")
