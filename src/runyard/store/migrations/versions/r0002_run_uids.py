"""Runs get a uid, ids become unique per project instead of globally, and the largest entity of each list is noted.

Existing runs and tombstones get their id as uid, so that their logs stay where they are. New uids are random, so no
client can choose one. Every table is rebuilt: SQLite cannot change a primary key.
"""

import sqlalchemy as sa
from alembic import op

from runyard.store.migrations.frozen_columns import (
    DOCUMENTS,
    ENTITY_COLUMNS,
    copy,
    create_partial_index,
    create_run_indexes,
    create_transitions,
    is_sqlite,
    key,
    list_documents,
    list_entity_columns,
    number,
    prose,
    quote,
    sequence,
    set_aside,
    text,
    time,
    write_flag,
)

revision = "0002"
down_revision = "0001"

_RUN_COLUMNS = (
    *("request_hash", "profile_revision", "policy_revision", "is_local", "desired", "desired_generation"),
    *("observed_generation", "due_at", "anchor_uid", "reason", "message", "shard_key"),
    *("lease_owner", "lease_token", "lease_until", "is_nudged"),
)
_RUN_DOCUMENTS = ("request", "effective", "provenance", "warnings")


def upgrade() -> None:
    """Forward only: a backup is the way back."""
    _rebuild_dependents()
    _rebuild_tombstones()
    _rebuild_entities()
    _rebuild_runs()
    _note_largest_documents()


def _rebuild_dependents() -> None:
    """Labels, metrics and firings get the project of what they belong to. Rows that belong to nothing are dropped."""
    for table, last in (("labels", ["label"]), ("metrics", ["name", "value"])):
        set_aside(table)
        if table == "labels":
            primary = key("labels", "type", "project", "id", "label")
            op.create_table("labels", *map(text, ("type", "project", "id", "label")), primary)
            op.create_index("ix_labels_label", "labels", ["type", "label", "project", "id"])
        else:
            primary = key("metrics", "type", "project", "id", "name")
            op.create_table("metrics", *map(text, ("type", "project", "id", "name")), prose("value"), primary)
        for owner, is_owners in (
            ("entities", "owner.type = old.type AND owner.id = old.id AND old.type <> 'run'"),
            ("runs", "owner.id = old.id AND old.type = 'run'"),
        ):
            values = {"type": "old.type", "project": "owner.project", "id": "old.id"}
            values |= {column: f"old.{column}" for column in last}
            copy(table, values, source=f"old_{table} AS old JOIN {owner} AS owner ON {is_owners}")
        op.drop_table(f"old_{table}")
    set_aside("firings")
    op.create_table(
        "firings",
        sequence("sequence"),
        *map(text, ("project", "trigger_id", "occasion")),
        key("firings", "sequence"),
        sa.UniqueConstraint("project", "trigger_id", "occasion", name="uq_firings_project_trigger_id_occasion"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_firings_last", "firings", ["project", "trigger_id", "sequence"])
    values = {"sequence": "old.sequence", "project": "owner.project"}
    values |= {"trigger_id": "old.trigger_id", "occasion": "old.occasion"}
    copy(
        "firings",
        values,
        source="old_firings AS old JOIN entities AS owner ON owner.type = 'trigger' AND owner.id = old.trigger_id",
    )
    op.drop_table("old_firings")
    if not is_sqlite():
        op.execute(
            "SELECT setval(pg_get_serial_sequence('firings', 'sequence'), max(sequence)) FROM firings "
            "HAVING max(sequence) IS NOT NULL"
        )


def _rebuild_tombstones() -> None:
    """A tombstone of an id that a run has again is dropped: that run has the id as uid, and is not deleted."""
    set_aside("tombstones")
    op.create_table(
        "tombstones",
        *map(text, ("run_uid", "project", "run_id")),
        time("at"),
        sa.Column("is_swept", sa.Boolean, nullable=False),
        key("tombstones", "run_uid"),
    )
    op.create_index("ix_tombstones_run", "tombstones", ["project", "run_id"])
    create_partial_index("ix_tombstones_unswept", "tombstones", ["at", "run_uid"], where="NOT is_swept")
    values = {
        "run_uid": "run_id",
        "project": "project",
        "run_id": "run_id",
        "at": "at",
        "is_swept": write_flag(value=False),
    }
    copy("tombstones", values, source="old_tombstones WHERE run_id NOT IN (SELECT id FROM runs)")
    op.drop_table("old_tombstones")


def _rebuild_entities() -> None:
    set_aside("entities")
    op.create_table(
        "entities",
        *map(text, ("type", "id", "project")),
        *list_entity_columns(),
        sa.Column("is_latest", sa.Boolean, nullable=False),
        *list_documents(),
        key("entities", "type", "id", "project"),
    )
    columns = ["type", "project", "id", *ENTITY_COLUMNS, "is_latest", *DOCUMENTS]
    copy("entities", {name: quote(name) for name in columns}, source="old_entities")
    op.drop_table("old_entities")
    op.create_index("ix_entities_latest", "entities", ["project", "type", "is_latest", "created_at", "id"])
    op.create_index("ix_entities_created", "entities", ["project", "type", "created_at", "id"])
    op.create_index("ix_entities_name", "entities", ["project", "type", "name", "created_at", "id"])
    op.create_index("ix_entities_function", "entities", ["project", "type", "function", "created_at", "id"])
    op.create_index("ix_entities_updated", "entities", ["project", "type", "updated_at", "id"])
    op.create_index("ix_entities_all_created", "entities", ["type", "created_at", "id"])
    op.create_index("ix_entities_all_name", "entities", ["type", "name", "id"])
    for name in ("function", "workflow"):
        columns = ["project", name, "kind"]
        create_partial_index(f"uq_entities_task_of_{name}", "entities", columns, where="type = 'task'", unique=True)
    columns = ["project", "name"]
    create_partial_index("uq_entities_secret_name", "entities", columns, where="type = 'secret'", unique=True)


def _rebuild_runs() -> None:
    set_aside("transitions")
    set_aside("runs")
    op.create_table(
        "runs",
        *map(text, ("uid", "project", "id")),
        *list_entity_columns(),
        text("request_hash"),
        number("profile_revision", nullable=True),
        number("policy_revision", nullable=True),
        sa.Column("is_local", sa.Boolean, nullable=False),
        text("desired"),
        number("desired_generation"),
        number("observed_generation"),
        time("due_at", nullable=True),
        text("anchor_uid", nullable=True),
        text("reason", nullable=True),
        prose("message", nullable=True),
        sa.Column("shard_key", sa.Integer, nullable=False),
        text("lease_owner", nullable=True),
        text("lease_token", nullable=True),
        time("lease_until", nullable=True),
        sa.Column("is_nudged", sa.Boolean, nullable=False),
        *list_documents(),
        prose("request"),
        prose("effective", nullable=True),
        prose("provenance"),
        prose("warnings"),
        key("runs", "uid"),
        sa.UniqueConstraint("project", "id", name="uq_runs_project_id"),
    )
    columns = ["project", "id", *ENTITY_COLUMNS, *_RUN_COLUMNS, *DOCUMENTS, *_RUN_DOCUMENTS]
    copy("runs", {"uid": "id", **{name: quote(name) for name in columns}}, source="old_runs")
    op.drop_table("old_runs")
    create_run_indexes()
    create_partial_index("ix_runs_due", "runs", ["due_at", "uid"], where="due_at IS NOT NULL")
    create_transitions()
    kept = ("sequence", "state", "at", "actor", "reason", "message")
    values = {"run_uid": "run_id"} | {name: name for name in kept}
    copy("transitions", values, source="old_transitions")
    op.drop_table("old_transitions")


def _note_largest_documents() -> None:
    """The size of the documents that lists show; entities of up to 4 KiB need no note."""
    op.create_table(
        "largest_documents",
        *map(text, ("type", "project")),
        number("bytes"),
        key("largest_documents", "type", "project"),
    )
    for table, type_name, documents in (
        ("entities", "type", DOCUMENTS),
        ("runs", "'run'", (*DOCUMENTS, "warnings")),
    ):
        size = " + ".join(f"length({name})" for name in documents)
        values = {"type": type_name, "project": "project", "bytes": f"max({size})"}
        grouping = "type, project" if table == "entities" else "project"
        copy("largest_documents", values, source=f"{table} GROUP BY {grouping} HAVING max({size}) > 4096")
