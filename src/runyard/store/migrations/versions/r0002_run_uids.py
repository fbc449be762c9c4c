"""Runs get a uid, ids become unique per project instead of globally, and the largest entity of each list is noted.

Existing runs and tombstones get their id as uid, so that their logs stay where they are. New uids are random, so no
client can choose one. Every table is rebuilt: SQLite cannot change a primary key.
"""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_PROSE = sa.Text()
_TIME = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
_SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_ENTITY_COLUMNS = (
    *("kind", "name", "user", "created_at", "updated_at", "updated_by", "state", "revision"),
    *("function", "function_base", "workflow", "workflow_base", "task", "action", "search"),
)
_DOCUMENTS = ("metadata", "spec", "status", "extensions")
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
        _set_aside(table)
        if table == "labels":
            key = _key("labels", "type", "project", "id", "label")
            op.create_table("labels", *map(_text, ("type", "project", "id", "label")), key)
            op.create_index("ix_labels_label", "labels", ["type", "label", "project", "id"])
        else:
            key = _key("metrics", "type", "project", "id", "name")
            op.create_table("metrics", *map(_text, ("type", "project", "id", "name")), _prose("value"), key)
        for owner, is_owners in (
            ("entities", "owner.type = old.type AND owner.id = old.id AND old.type <> 'run'"),
            ("runs", "owner.id = old.id AND old.type = 'run'"),
        ):
            values = {"type": "old.type", "project": "owner.project", "id": "old.id"}
            values |= {column: f"old.{column}" for column in last}
            _copy(table, values, source=f"old_{table} AS old JOIN {owner} AS owner ON {is_owners}")
        op.drop_table(f"old_{table}")
    _set_aside("firings")
    op.create_table(
        "firings",
        sa.Column("sequence", _SEQUENCE, nullable=False),
        *map(_text, ("project", "trigger_id", "occasion")),
        _key("firings", "sequence"),
        sa.UniqueConstraint("project", "trigger_id", "occasion", name="uq_firings_project_trigger_id_occasion"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_firings_last", "firings", ["project", "trigger_id", "sequence"])
    values = {"sequence": "old.sequence", "project": "owner.project"}
    values |= {"trigger_id": "old.trigger_id", "occasion": "old.occasion"}
    _copy(
        "firings",
        values,
        source="old_firings AS old JOIN entities AS owner ON owner.type = 'trigger' AND owner.id = old.trigger_id",
    )
    op.drop_table("old_firings")
    if not _is_sqlite():
        op.execute(
            "SELECT setval(pg_get_serial_sequence('firings', 'sequence'), max(sequence)) FROM firings "
            "HAVING max(sequence) IS NOT NULL"
        )


def _rebuild_tombstones() -> None:
    """A tombstone of an id that a run has again is dropped: that run has the id as uid, and is not deleted."""
    _set_aside("tombstones")
    op.create_table(
        "tombstones",
        *map(_text, ("run_uid", "project", "run_id")),
        _time("at"),
        sa.Column("is_swept", sa.Boolean, nullable=False),
        _key("tombstones", "run_uid"),
    )
    op.create_index("ix_tombstones_run", "tombstones", ["project", "run_id"])
    _create_partial_index("ix_tombstones_unswept", "tombstones", ["at", "run_uid"], where="NOT is_swept")
    values = {"run_uid": "run_id", "project": "project", "run_id": "run_id", "at": "at", "is_swept": _false()}
    _copy("tombstones", values, source="old_tombstones WHERE run_id NOT IN (SELECT id FROM runs)")
    op.drop_table("old_tombstones")


def _rebuild_entities() -> None:
    _set_aside("entities")
    op.create_table(
        "entities",
        *map(_text, ("type", "id", "project")),
        *_list_entity_columns(),
        sa.Column("is_latest", sa.Boolean, nullable=False),
        *map(_prose, _DOCUMENTS),
        _key("entities", "type", "id", "project"),
    )
    columns = ["type", "project", "id", *_ENTITY_COLUMNS, "is_latest", *_DOCUMENTS]
    _copy("entities", {name: _quote(name) for name in columns}, source="old_entities")
    op.drop_table("old_entities")
    op.create_index("ix_entities_latest", "entities", ["project", "type", "is_latest", "created_at", "id"])
    op.create_index("ix_entities_created", "entities", ["project", "type", "created_at", "id"])
    op.create_index("ix_entities_name", "entities", ["project", "type", "name", "created_at", "id"])
    op.create_index("ix_entities_function", "entities", ["project", "type", "function", "created_at", "id"])
    op.create_index("ix_entities_updated", "entities", ["project", "type", "updated_at", "id"])
    op.create_index("ix_entities_all_created", "entities", ["type", "created_at", "id"])
    op.create_index("ix_entities_all_name", "entities", ["type", "name", "id"])
    for name, key in (("function", "function"), ("workflow", "workflow")):
        columns = ["project", key, "kind"]
        _create_partial_index(f"uq_entities_task_of_{name}", "entities", columns, where="type = 'task'", unique=True)
    columns = ["project", "name"]
    _create_partial_index("uq_entities_secret_name", "entities", columns, where="type = 'secret'", unique=True)


def _rebuild_runs() -> None:
    _set_aside("transitions")
    _set_aside("runs")
    op.create_table(
        "runs",
        *map(_text, ("uid", "project", "id")),
        *_list_entity_columns(),
        _text("request_hash"),
        _number("profile_revision", nullable=True),
        _number("policy_revision", nullable=True),
        sa.Column("is_local", sa.Boolean, nullable=False),
        _text("desired"),
        _number("desired_generation"),
        _number("observed_generation"),
        _time("due_at", nullable=True),
        _text("anchor_uid", nullable=True),
        _text("reason", nullable=True),
        _prose("message", nullable=True),
        sa.Column("shard_key", sa.Integer, nullable=False),
        _text("lease_owner", nullable=True),
        _text("lease_token", nullable=True),
        _time("lease_until", nullable=True),
        sa.Column("is_nudged", sa.Boolean, nullable=False),
        *map(_prose, _DOCUMENTS),
        _prose("request"),
        _prose("effective", nullable=True),
        _prose("provenance"),
        _prose("warnings"),
        _key("runs", "uid"),
        sa.UniqueConstraint("project", "id", name="uq_runs_project_id"),
    )
    columns = ["project", "id", *_ENTITY_COLUMNS, *_RUN_COLUMNS, *_DOCUMENTS, *_RUN_DOCUMENTS]
    _copy("runs", {"uid": "id", **{name: _quote(name) for name in columns}}, source="old_runs")
    op.drop_table("old_runs")
    if _is_sqlite():
        op.create_index("ix_runs_search", "runs", ["project", "created_at", "id", "search"])
    else:
        op.create_index("ix_runs_created", "runs", ["project", "created_at", "id"])
    for name in ("state", "function", "function_base", "task"):
        op.create_index(f"ix_runs_{name}", "runs", ["project", name, "created_at", "id"])
    op.create_index("ix_runs_updated", "runs", ["project", "updated_at", "id"])
    op.create_index("ix_runs_all_created", "runs", ["created_at", "id"])
    op.create_index("ix_runs_all_state", "runs", ["state", "updated_at", "id"])
    _create_partial_index("ix_runs_due", "runs", ["due_at", "uid"], where="due_at IS NOT NULL")
    op.create_table(
        "transitions",
        _text("run_uid"),
        _number("sequence"),
        _text("state"),
        _time("at"),
        _text("actor"),
        _text("reason", nullable=True),
        _prose("message", nullable=True),
        _key("transitions", "run_uid", "sequence"),
        sa.ForeignKeyConstraint(["run_uid"], ["runs.uid"], name="fk_transitions_run_uid", ondelete="CASCADE"),
    )
    kept = ("sequence", "state", "at", "actor", "reason", "message")
    values = {"run_uid": "run_id"} | {name: name for name in kept}
    _copy("transitions", values, source="old_transitions")
    op.drop_table("old_transitions")


def _note_largest_documents() -> None:
    """The size of the documents that lists show; entities of up to 4 KiB need no note."""
    op.create_table(
        "largest_documents",
        *map(_text, ("type", "project")),
        _number("bytes"),
        _key("largest_documents", "type", "project"),
    )
    for table, type_name, documents in (
        ("entities", "type", _DOCUMENTS),
        ("runs", "'run'", (*_DOCUMENTS, "warnings")),
    ):
        size = " + ".join(f"length({name})" for name in documents)
        values = {"type": type_name, "project": "project", "bytes": f"max({size})"}
        grouping = "type, project" if table == "entities" else "project"
        _copy("largest_documents", values, source=f"{table} GROUP BY {grouping} HAVING max({size}) > 4096")


def _set_aside(table: str) -> None:
    """Copy the rows to `old_…` and drop the table. A renamed table would keep the names of its indexes."""
    op.execute(f"CREATE TABLE old_{table} AS SELECT * FROM {table}")  # noqa: S608 - no input
    op.drop_table(table)


def _copy(table: str, values: Mapping[str, str], *, source: str) -> None:
    names = ", ".join(map(_quote, values))
    op.execute(f"INSERT INTO {table} ({names}) SELECT {', '.join(values.values())} FROM {source}")  # noqa: S608 - no input


def _quote(name: str) -> str:
    return f'"{name}"'


def _false() -> str:
    return "0" if _is_sqlite() else "false"


def _is_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"


def _list_entity_columns() -> list[sa.Column[Any]]:
    return [
        *map(_text, ("kind", "name", "user")),
        _time("created_at"),
        _time("updated_at"),
        _text("updated_by"),
        _text("state"),
        _number("revision"),
        *(_text(name, nullable=True) for name in ("function", "function_base", "workflow", "workflow_base")),
        _text("task", nullable=True),
        _text("action", nullable=True),
        _prose("search"),
    ]


def _create_partial_index(name: str, table: str, columns: list[str], *, where: str, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, _TEXT, nullable=nullable)


def _prose(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, _PROSE, nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, _TIME, nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=f"pk_{table}")
