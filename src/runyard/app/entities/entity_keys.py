"""The key of an entity: one form for answers, for templates of triggers and for the patterns they wait for."""

from runyard.app.model import Entity
from runyard.spec.digitalhub.reference_strings import Key

BY_ID = frozenset({"task", "run"})
"""Types whose keys have no name."""


def make_key(entity: Entity) -> str:
    """`store://project/type/kind/name:id`, in the form that the SDK makes too."""
    if entity.type == "project":
        return str(Key(project=entity.id))
    if entity.type in BY_ID:
        return str(Key(project=entity.project, type=entity.type, kind=entity.kind, name=entity.id))
    return str(Key(project=entity.project, type=entity.type, kind=entity.kind, name=entity.name, id=entity.id))
