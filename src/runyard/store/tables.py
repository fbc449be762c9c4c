"""The tables, with an index for every frequent query (tests check the query plans of both engines).

The scripts in `migrations/` create them; a test compares both. Small columns come before the documents, so that SQLite
filters rows without reading their overflow pages.
"""

from typing import Any

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, MetaData, Table, UniqueConstraint, text

from runyard.store.columns import Bytes, Count, JsonText, JsonTuple, Name, Prose, Reference, Sequence, UtcTime

metadata = MetaData(
    naming_convention={
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)


def _make_entity_columns() -> list[Column[Any]]:
    """Columns that runs and other entities share, without keys and documents."""
    return [
        Column("kind", Name, nullable=False),
        Column("name", Name, nullable=False),
        Column("user", Name, nullable=False),
        Column("created_at", UtcTime, nullable=False),
        Column("updated_at", UtcTime, nullable=False),
        Column("updated_by", Name, nullable=False),
        Column("state", Name, nullable=False),
        Column("revision", Count, nullable=False),
        Column("function", Reference),
        Column("function_base", Reference),
        Column("workflow", Reference),
        Column("workflow_base", Reference),
        Column("task", Reference),
        Column("action", Name),
        Column("search", Prose, nullable=False),
    ]


def _make_documents() -> list[Column[Any]]:
    return [
        Column("metadata", JsonText, nullable=False),
        Column("spec", JsonText, nullable=False),
        Column("status", JsonText, nullable=False),
        Column("extensions", JsonTuple, nullable=False),
    ]


def _index_where(table: Table, name: str, columns: str, *, where: str, unique: bool = False) -> None:
    """A partial index."""
    condition = text(where)
    chosen = [table.c[column] for column in columns.split()]
    Index(name, *chosen, unique=unique, sqlite_where=condition, postgresql_where=condition)


entities = Table(
    "entities",
    metadata,
    Column("type", Name, primary_key=True),
    Column("id", Name, primary_key=True),
    Column("project", Name, primary_key=True),
    *_make_entity_columns(),
    Column("is_latest", Boolean, nullable=False),
    *_make_documents(),
    Index("ix_entities_latest", "project", "type", "is_latest", "created_at", "id"),
    Index("ix_entities_created", "project", "type", "created_at", "id"),
    Index("ix_entities_name", "project", "type", "name", "created_at", "id"),
    Index("ix_entities_function", "project", "type", "function", "created_at", "id"),
    Index("ix_entities_updated", "project", "type", "updated_at", "id"),
    Index("ix_entities_all_created", "type", "created_at", "id"),
    Index("ix_entities_all_name", "type", "name", "id"),
)
_index_where(entities, "uq_entities_task_of_function", "project function kind", where="type = 'task'", unique=True)
_index_where(entities, "uq_entities_task_of_workflow", "project workflow kind", where="type = 'task'", unique=True)
_index_where(entities, "uq_entities_secret_name", "project name", where="type = 'secret'", unique=True)

labels = Table(
    "labels",
    metadata,
    Column("type", Name, primary_key=True),
    Column("project", Name, primary_key=True),
    Column("id", Name, primary_key=True),
    Column("label", Name, primary_key=True),
    Index("ix_labels_label", "type", "label", "project", "id"),
)

metrics = Table(
    "metrics",
    metadata,
    Column("type", Name, primary_key=True),
    Column("project", Name, primary_key=True),
    Column("id", Name, primary_key=True),
    Column("name", Name, primary_key=True),
    Column("value", JsonText, nullable=False),
)

files = Table(
    "files",
    metadata,
    Column("project", Name, primary_key=True),
    Column("type", Name, primary_key=True),
    Column("id", Name, primary_key=True),
    Column("path", Name, primary_key=True),
    Column("blob", Name, nullable=False),
    Column("size", Count, nullable=False),
    Column("sha256", Name, nullable=False),
    Column("content_type", Name, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("user", Name, nullable=False),
)

file_totals = Table(
    "file_totals",
    metadata,
    Column("project", Name, primary_key=True),
    Column("type", Name, primary_key=True),
    Column("id", Name, primary_key=True),
    Column("number", Count, nullable=False),
    Column("bytes", Count, nullable=False),
)

unused_blobs = Table(
    "unused_blobs",
    metadata,
    Column("blob", Name, primary_key=True),
    Column("project", Name, nullable=False),
    Column("type", Name, nullable=False),
    Column("id", Name, nullable=False),
    Column("reserved", Count, nullable=False),
    Column("due_at", UtcTime, nullable=False),
)
_index_where(unused_blobs, "ix_unused_blobs_reserved", "project type id", where="reserved > 0")

uploads = Table(
    "uploads",
    metadata,
    Column("blob", Name, primary_key=True),
    Column("project", Name, nullable=False),
    Column("type", Name, nullable=False),
    Column("id", Name, nullable=False),
    Column("entity_created_at", UtcTime, nullable=False),
    Column("path", Name, nullable=False),
    Column("size", Count, nullable=False),
    Column("sha256", Name),
    Column("content_type", Name, nullable=False),
    Column("is_new", Boolean, nullable=False),
    Column("replaces", Name),
    Column("user", Name, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Column("lease_owner", Name),
    Column("lease_until", UtcTime),
    Index("ix_uploads_entity", "project", "type", "id"),
)

runs = Table(
    "runs",
    metadata,
    Column("uid", Name, primary_key=True),
    Column("project", Name, nullable=False),
    Column("id", Name, nullable=False),
    *_make_entity_columns(),
    Column("request_hash", Name, nullable=False),
    Column("profile_revision", Count),
    Column("policy_revision", Count),
    Column("is_local", Boolean, nullable=False),
    Column("desired", Name, nullable=False),
    Column("desired_generation", Count, nullable=False),
    Column("observed_generation", Count, nullable=False),
    Column("observed_epoch", Count, nullable=False),
    Column("observed_version", Count, nullable=False),
    Column("lane", Integer, nullable=False),
    Column("due_at", UtcTime),
    Column("place", Name),
    Column("anchor_uid", Name),
    Column("reason", Name),
    Column("message", Prose),
    Column("last_sequence", Count, nullable=False),
    Column("settled_at", UtcTime),
    Column("is_log_complete", Boolean, nullable=False),
    Column("shard_key", Integer, nullable=False),
    Column("lease_owner", Name),
    Column("lease_token", Name),
    Column("lease_until", UtcTime),
    Column("is_woken", Boolean, nullable=False),
    *_make_documents(),
    Column("request", JsonText, nullable=False),
    Column("effective", JsonText),
    Column("provenance", JsonTuple, nullable=False),
    Column("warnings", JsonTuple, nullable=False),
    UniqueConstraint("project", "id"),
    Index("ix_runs_created", "project", "created_at", "id").ddl_if(dialect="postgresql"),
    # SQLite would read a row with its documents to search in it; PostgreSQL stores those out of line.
    Index("ix_runs_search", "project", "created_at", "id", "search").ddl_if(dialect="sqlite"),
    Index("ix_runs_state", "project", "state", "created_at", "id"),
    Index("ix_runs_function", "project", "function", "created_at", "id"),
    Index("ix_runs_function_base", "project", "function_base", "created_at", "id"),
    Index("ix_runs_task", "project", "task", "created_at", "id"),
    Index("ix_runs_updated", "project", "updated_at", "id"),
    Index("ix_runs_all_created", "created_at", "id"),
    Index("ix_runs_all_state", "state", "updated_at", "id"),
)
_index_where(runs, "ix_runs_due", "lane due_at uid", where="due_at IS NOT NULL")
_index_where(runs, "ix_runs_leased", "lease_owner", where="lease_owner IS NOT NULL")
_index_where(runs, "ix_runs_unsettled", "place uid", where="settled_at IS NULL")

run_totals = Table(
    "run_totals",
    metadata,
    Column("project", Name, primary_key=True),
    Column("number", Count, nullable=False),
)

largest_documents = Table(
    "largest_documents",
    metadata,
    Column("type", Name, primary_key=True),
    Column("project", Name, primary_key=True),
    Column("bytes", Count, nullable=False),
)

transitions = Table(
    "transitions",
    metadata,
    Column("run_uid", Name, ForeignKey("runs.uid", ondelete="CASCADE"), primary_key=True),
    Column("sequence", Count, primary_key=True, autoincrement=False),
    Column("state", Name, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("actor", Name, nullable=False),
    Column("reason", Name),
    Column("message", Prose),
)

tombstones = Table(
    "tombstones",
    metadata,
    Column("run_uid", Name, primary_key=True),
    Column("project", Name, nullable=False),
    Column("run_id", Name, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("is_swept", Boolean, nullable=False),
    Index("ix_tombstones_run", "project", "run_id"),
)
_index_where(tombstones, "ix_tombstones_unswept", "at run_uid", where="NOT is_swept")

secrets = Table(
    "secrets",
    metadata,
    Column("project", Name, primary_key=True),
    Column("name", Name, primary_key=True),
    Column("version", Count, primary_key=True, autoincrement=False),
    Column("key_id", Name, nullable=False),
    Column("wrapped_key", Bytes, nullable=False),
    Column("ciphertext", Bytes, nullable=False),
    Index("ix_secrets_key_id", "key_id"),
)

revisions = Table(
    "revisions",
    metadata,
    Column("kind", Name, primary_key=True),
    Column("name", Name, primary_key=True),
    Column("revision", Count, primary_key=True, autoincrement=False),
    Column("document", JsonText),
    Column("user", Name, nullable=False),
    Column("at", UtcTime, nullable=False),
)

accounts = Table(
    "accounts",
    metadata,
    Column("name", Name, primary_key=True),
    Column("password_hash", Prose),
    Column("is_admin", Boolean, nullable=False),
    Column("is_disabled", Boolean, nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Name, primary_key=True),
    Column("user", Name, nullable=False),
    Column("kind", Name, nullable=False),
    Column("hash", Name, nullable=False),
    Column("name", Prose, nullable=False),
    Column("scopes", JsonTuple, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime),
    Column("revoked_at", UtcTime),
    Column("last_used_at", UtcTime),
    UniqueConstraint("hash"),
    Index("ix_tokens_user", "user", "created_at", "id"),
)

shares = Table(
    "shares",
    metadata,
    Column("id", Name, primary_key=True),
    Column("project", Name, nullable=False),
    Column("user", Name, nullable=False),
    Column("role", Name, nullable=False),
    UniqueConstraint("project", "user"),
    Index("ix_shares_user", "user", "project"),
)

audit = Table(
    "audit",
    metadata,
    Column("sequence", Sequence, primary_key=True),
    Column("at", UtcTime, nullable=False),
    Column("actor", Name, nullable=False),
    Column("action", Name, nullable=False),
    Column("project", Name),
    Column("type", Name),
    Column("id", Prose),
    Column("result", Name, nullable=False),
    Column("address", Prose),
    Column("details", JsonText, nullable=False),
    Index("ix_audit_at", "at"),
    Index("ix_audit_project", "project", "sequence"),
    Index("ix_audit_actor", "actor", "sequence"),
    sqlite_autoincrement=True,
)

firings = Table(
    "firings",
    metadata,
    Column("sequence", Sequence, primary_key=True),
    Column("project", Name, nullable=False),
    Column("trigger_id", Name, nullable=False),
    Column("occasion", Name, nullable=False),
    UniqueConstraint("project", "trigger_id", "occasion"),
    Index("ix_firings_last", "project", "trigger_id", "sequence"),
    sqlite_autoincrement=True,
)

replicas = Table(
    "replicas",
    metadata,
    Column("owner", Name, primary_key=True),
    Column("place", Name),
    Column("until", UtcTime, nullable=False),
)

meta = Table(
    "meta",
    metadata,
    Column("name", Name, primary_key=True),
    Column("value", Prose, nullable=False),
)
