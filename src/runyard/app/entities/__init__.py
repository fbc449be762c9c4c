"""Functions, tasks, secrets, artifacts and every other entity that is neither a project nor a run.

Start in `crud.py`. `drafts.py` reads the fields that all entities share, runs and projects included. May import
`identity`.
"""

from runyard.app.entities.crud import (
    check_revision,
    create_entity,
    enter_project,
    get_entity,
    list_entities,
    lock_entity,
    replace_entity,
    require_entity,
    require_project,
    update_entity,
)
from runyard.app.entities.drafts import (
    MOST_DEPTH,
    EntityDraft,
    check_id,
    check_merged,
    check_project,
    drop_nulls,
    expect_name,
    is_deeper,
    read_draft,
    read_restored_draft,
)
from runyard.app.entities.entity_files import MOST_FILES, put_files
from runyard.app.entities.entity_types import LISTED_IN_PROJECTS, STATES, TYPES, EntityType, make_key
from runyard.app.entities.ignored_fields import find_unused, find_unused_name, find_unused_status, with_warnings
from runyard.app.entities.inventory import (
    MOST_VOLUMES,
    list_config_map_names,
    list_secret_names,
    list_volume_claims,
    load_config_maps,
)
from runyard.app.entities.kind_schemas import find_schema, list_schemas
from runyard.app.entities.ownership import PRODUCER, check_own_entity, find_actor, find_state_since, note_change
from runyard.app.entities.secret_rotation import Rotation, rewrap_values, rotate_keys
from runyard.app.entities.secret_values import get_secret_values, put_secret_values
from runyard.app.entities.spec_checks import check_same_project, find_function, is_runnable_kind, unknown_reference
from runyard.app.entities.volume_rows import (
    CLAIM_KIND,
    VOLUME_KIND,
    begin_volume_deletion,
    change_status,
    find_owner_uid,
    find_place,
    get_claim,
    make_claim_name,
    make_kept_volume,
)

__all__ = [
    "CLAIM_KIND",
    "LISTED_IN_PROJECTS",
    "MOST_DEPTH",
    "MOST_FILES",
    "MOST_VOLUMES",
    "PRODUCER",
    "STATES",
    "TYPES",
    "VOLUME_KIND",
    "EntityDraft",
    "EntityType",
    "Rotation",
    "begin_volume_deletion",
    "change_status",
    "check_id",
    "check_merged",
    "check_own_entity",
    "check_project",
    "check_revision",
    "check_same_project",
    "create_entity",
    "drop_nulls",
    "enter_project",
    "expect_name",
    "find_actor",
    "find_function",
    "find_owner_uid",
    "find_place",
    "find_schema",
    "find_state_since",
    "find_unused",
    "find_unused_name",
    "find_unused_status",
    "get_claim",
    "get_entity",
    "get_secret_values",
    "is_deeper",
    "is_runnable_kind",
    "list_config_map_names",
    "list_entities",
    "list_schemas",
    "list_secret_names",
    "list_volume_claims",
    "load_config_maps",
    "lock_entity",
    "make_claim_name",
    "make_kept_volume",
    "make_key",
    "note_change",
    "put_files",
    "put_secret_values",
    "read_draft",
    "read_restored_draft",
    "replace_entity",
    "require_entity",
    "require_project",
    "rewrap_values",
    "rotate_keys",
    "unknown_reference",
    "update_entity",
    "with_warnings",
]
