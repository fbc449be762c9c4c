"""The first tables, and the ids of the installation and of its epoch."""

from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_PROSE = sa.Text()
_TIME = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
_SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Forward only: a backup is the way back."""
    _create_entities()
    _create_runs()
    _create_secrets_and_revisions()
    _create_accounts()
    _create_ledgers()
    meta = op.create_table("meta", _text("name"), _prose("value"), _key("meta", "name"))
    op.bulk_insert(meta, [{"name": name, "value": uuid4().hex} for name in ("installation", "epoch")])


def _create_entities() -> None:
    op.create_table(
        "entities",
        _text("type"),
        _text("id"),
        *_list_entity_columns(),
        sa.Column("is_latest", sa.Boolean, nullable=False),
        *_list_documents(),
        _key("entities", "type", "id"),
    )
    op.create_index("ix_entities_latest", "entities", ["project", "type", "is_latest", "created_at", "id"])
    op.create_index("ix_entities_created", "entities", ["project", "type", "created_at", "id"])
    op.create_index("ix_entities_name", "entities", ["project", "type", "name", "created_at", "id"])
    op.create_index("ix_entities_function", "entities", ["project", "type", "function", "created_at", "id"])
    op.create_index("ix_entities_all_created", "entities", ["type", "created_at", "id"])
    op.create_index("ix_entities_all_name", "entities", ["type", "name", "id"])
    _create_partial_index(
        "uq_entities_task_of_function", "entities", ["project", "function", "kind"], where="type = 'task'", unique=True
    )
    _create_partial_index(
        "uq_entities_task_of_workflow", "entities", ["project", "workflow", "kind"], where="type = 'task'", unique=True
    )
    _create_partial_index(
        "uq_entities_secret_name", "entities", ["project", "name"], where="type = 'secret'", unique=True
    )
    op.create_table("labels", _text("type"), _text("id"), _text("label"), _key("labels", "type", "id", "label"))
    op.create_index("ix_labels_label", "labels", ["type", "label", "id"])
    op.create_table(
        "metrics", _text("type"), _text("id"), _text("name"), _prose("value"), _key("metrics", "type", "id", "name")
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        _text("id"),
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
        *_list_documents(),
        _prose("request"),
        _prose("effective", nullable=True),
        _prose("provenance"),
        _prose("warnings"),
        _key("runs", "id"),
    )
    if op.get_bind().dialect.name == "sqlite":
        op.create_index("ix_runs_search", "runs", ["project", "created_at", "id", "search"])
    else:
        op.create_index("ix_runs_created", "runs", ["project", "created_at", "id"])
    op.create_index("ix_runs_state", "runs", ["project", "state", "created_at", "id"])
    op.create_index("ix_runs_function", "runs", ["project", "function", "created_at", "id"])
    op.create_index("ix_runs_function_base", "runs", ["project", "function_base", "created_at", "id"])
    op.create_index("ix_runs_task", "runs", ["project", "task", "created_at", "id"])
    op.create_index("ix_runs_updated", "runs", ["project", "updated_at", "id"])
    op.create_index("ix_runs_all_created", "runs", ["created_at", "id"])
    op.create_index("ix_runs_all_state", "runs", ["state", "updated_at", "id"])
    _create_partial_index("ix_runs_due", "runs", ["due_at", "id"], where="due_at IS NOT NULL")
    op.create_table(
        "transitions",
        _text("run_id"),
        _number("sequence"),
        _text("state"),
        _time("at"),
        _text("actor"),
        _text("reason", nullable=True),
        _prose("message", nullable=True),
        _key("transitions", "run_id", "sequence"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_transitions_run_id", ondelete="CASCADE"),
    )
    op.create_table("run_totals", _text("project"), _number("number"), _key("run_totals", "project"))
    op.create_table("tombstones", _text("run_id"), _text("project"), _time("at"), _key("tombstones", "run_id"))


def _create_secrets_and_revisions() -> None:
    op.create_table(
        "secrets",
        _text("project"),
        _text("name"),
        _number("version"),
        _text("key_id"),
        sa.Column("wrapped_key", sa.LargeBinary, nullable=False),
        sa.Column("ciphertext", sa.LargeBinary, nullable=False),
        _key("secrets", "project", "name", "version"),
    )
    op.create_index("ix_secrets_key_id", "secrets", ["key_id"])
    op.create_table(
        "revisions",
        _text("kind"),
        _text("name"),
        _number("revision"),
        _prose("document", nullable=True),
        _text("user"),
        _time("at"),
        _key("revisions", "kind", "name", "revision"),
    )


def _create_accounts() -> None:
    op.create_table(
        "accounts",
        _text("name"),
        _prose("password_hash", nullable=True),
        sa.Column("is_admin", sa.Boolean, nullable=False),
        sa.Column("is_disabled", sa.Boolean, nullable=False),
        _time("created_at"),
        _key("accounts", "name"),
    )
    op.create_table(
        "tokens",
        _text("id"),
        _text("user"),
        _text("kind"),
        _text("hash"),
        _prose("name"),
        _prose("scopes"),
        _time("created_at"),
        _time("expires_at", nullable=True),
        _time("revoked_at", nullable=True),
        _time("last_used_at", nullable=True),
        _key("tokens", "id"),
        sa.UniqueConstraint("hash", name="uq_tokens_hash"),
    )
    op.create_index("ix_tokens_user", "tokens", ["user", "created_at", "id"])
    op.create_table(
        "shares",
        _text("id"),
        _text("project"),
        _text("user"),
        _text("role"),
        _key("shares", "id"),
        sa.UniqueConstraint("project", "user", name="uq_shares_project_user"),
    )
    op.create_index("ix_shares_user", "shares", ["user", "project"])


def _create_ledgers() -> None:
    op.create_table(
        "audit",
        sa.Column("sequence", _SEQUENCE, nullable=False),
        _time("at"),
        _text("actor"),
        _text("action"),
        _text("project", nullable=True),
        _text("type", nullable=True),
        _prose("id", nullable=True),
        _text("result"),
        _prose("address", nullable=True),
        _prose("details"),
        _key("audit", "sequence"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_index("ix_audit_project", "audit", ["project", "sequence"])
    op.create_index("ix_audit_actor", "audit", ["actor", "sequence"])
    op.create_table(
        "firings",
        sa.Column("sequence", _SEQUENCE, nullable=False),
        _text("trigger_id"),
        _text("occasion"),
        _key("firings", "sequence"),
        sa.UniqueConstraint("trigger_id", "occasion", name="uq_firings_trigger_id_occasion"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_firings_last", "firings", ["trigger_id", "sequence"])


def _list_entity_columns() -> list[sa.Column[Any]]:
    return [
        *(_text(name) for name in ("project", "kind", "name", "user")),
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


def _list_documents() -> list[sa.Column[Any]]:
    return [_prose(name) for name in ("metadata", "spec", "status", "extensions")]


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
