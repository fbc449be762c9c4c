"""What the server itself says in an entity's metadata; and what a run made is its own: its token changes nothing else.

Clients do not write these keys: what they say of them is dropped.
"""

from dataclasses import replace
from datetime import datetime

from runyard.app.errors import Forbidden
from runyard.app.model import Entity, Json, Principal

PRODUCER = "produced_by_run"
"""Which run made it."""
RUNS_AS = "runs_as"
"""Of a trigger: who changed its spec last, and thus whom it fires as. Without it, that is who made it."""
STATE_SINCE = "state_since"
"""Since when it is in its state. Without it, it is since it was made."""
KEPT = (PRODUCER, RUNS_AS, STATE_SINCE)
"""What a change by a client leaves as it is."""


def name_producer(who: Principal) -> Json:
    """What the metadata of an entity says of who makes it."""
    return {} if who.run_id is None else {PRODUCER: who.run_id}


def note_change(stored: Entity, changed: Entity, who: Principal, *, at: datetime) -> Entity:
    """What is changed, with what the server notes of the change."""
    noted: Json = {}
    if changed.state != stored.state:
        noted[STATE_SINCE] = at.isoformat()
    if changed.type == "trigger" and changed.spec != stored.spec:
        noted[RUNS_AS] = who.name
    return replace(changed, metadata={**changed.metadata, **noted}) if noted else changed


def find_state_since(entity: Entity) -> datetime:
    """When it came to be in its state."""
    since = entity.metadata.get(STATE_SINCE)
    return entity.created_at if since is None else datetime.fromisoformat(since)


def find_actor(trigger: Entity) -> str:
    """Whom a trigger fires as: the one who wrote what it runs."""
    return str(trigger.metadata.get(RUNS_AS) or trigger.user)


def check_own_entity(who: Principal, entity: Entity) -> None:
    """Raises `Forbidden` where the token of a run would change what another made."""
    if who.run_id is not None and entity.metadata.get(PRODUCER) != who.run_id:
        raise Forbidden(f"this token is for run {who.run_id} alone, which did not make {entity.type} {entity.id}")
