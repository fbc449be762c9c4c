"""What a run made is its own: its token changes that, and nothing that others made."""

from runyard.app.errors import Forbidden
from runyard.app.model import Entity, Json, Principal

PRODUCER = "produced_by_run"
"""The key of an entity's metadata that says which run made it. The server writes it, clients do not."""


def name_producer(who: Principal) -> Json:
    """What the metadata of an entity says of who makes it."""
    return {} if who.run_id is None else {PRODUCER: who.run_id}


def check_own_entity(who: Principal, entity: Entity) -> None:
    """Raises `Forbidden` where the token of a run would change what another made."""
    if who.run_id is not None and entity.metadata.get(PRODUCER) != who.run_id:
        raise Forbidden(f"this token is for run {who.run_id} alone, which did not make {entity.type} {entity.id}")
