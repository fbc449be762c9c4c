"""The types of entities, their properties, and the key of an entity."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from runyard.app.model import Entity
from runyard.domain.access import Permission
from runyard.spec.digitalhub.reference_strings import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityType:
    """One type. Its routes are `/api/v1/-/{project}/{plural}`."""

    name: str
    plural: str
    writing: Permission = Permission.WRITE
    """The permission needed to create, update and delete one."""
    on_update: Literal["keep", "replace"] = "keep"
    """Whether an update keeps the spec or replaces it."""
    has_clients_state: bool = False
    """Whether clients set its state, such as UPLOADING or READY."""
    is_named: bool = True
    """Whether a name is required; otherwise it defaults to the id."""
    is_in_sdks: bool = True
    """Whether DigitalHub's SDKs know the type. They cannot read a search result that contains an unknown one."""


_TYPES = (
    EntityType(name="function", plural="functions"),
    EntityType(name="workflow", plural="workflows"),
    EntityType(name="task", plural="tasks", on_update="replace", is_named=False),
    EntityType(name="trigger", plural="triggers", on_update="replace"),
    EntityType(name="secret", plural="secrets"),
    EntityType(name="configmap", plural="configmaps", is_in_sdks=False),
    EntityType(name="artifact", plural="artifacts", writing=Permission.PRODUCE, has_clients_state=True),
    EntityType(name="dataitem", plural="dataitems", writing=Permission.PRODUCE, has_clients_state=True),
    EntityType(name="model", plural="models", writing=Permission.PRODUCE, has_clients_state=True),
    EntityType(name="containerimage", plural="containerimages", writing=Permission.PRODUCE, has_clients_state=True),
    EntityType(name="extension", plural="extensions", writing=Permission.PRODUCE, has_clients_state=True),
)
TYPES: Mapping[str, EntityType] = MappingProxyType({one.name: one for one in _TYPES})
"""All types but projects and runs, which have their own use cases."""

LISTED_IN_PROJECTS = ("functions", "artifacts", "workflows", "dataitems", "models")
"""The plurals of the types that a project lists."""

STATES = frozenset(
    {
        *("BUILT", "CANCELLED", "COMPLETED", "CREATED", "CREATING", "DELETED", "DELETING", "ERROR", "FSM_ERROR"),
        *("IDLE", "NONE", "ONLINE", "PENDING", "READY", "RESUME", "RUN_ERROR", "RUNNING", "STOP", "STOPPED"),
        *("SUCCESS", "UNKNOWN", "UPLOADING"),
    }
)
"""The states that all releases of the SDK can read; any other makes their lists fail."""

BY_ID = frozenset({"task", "run"})
"""Types whose keys have no name."""


def make_key(entity: Entity) -> str:
    """`store://project/type/kind/name:id`, as the SDK writes it."""
    if entity.type == "project":
        return str(Key(project=entity.id))
    if entity.type in BY_ID:
        return str(Key(project=entity.project, type=entity.type, kind=entity.kind, name=entity.id))
    return str(Key(project=entity.project, type=entity.type, kind=entity.kind, name=entity.name, id=entity.id))
