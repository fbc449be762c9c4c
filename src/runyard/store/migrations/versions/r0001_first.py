"""The first tables, and the ids of the installation and of its epoch."""

from uuid import uuid4

import sqlalchemy as sa
from alembic import op

from runyard.store.migrations.frozen_columns import (
    create_partial_index,
    create_run_indexes,
    key,
    list_documents,
    list_entity_columns,
    number,
    prose,
    sequence,
    text,
    time,
)

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Forward only: a backup is the way back."""
    _create_entities()
    _create_runs()
    _create_secrets_and_revisions()
    _create_accounts()
    _create_ledgers()
    meta = op.create_table("meta", text("name"), prose("value"), key("meta", "name"))
    op.bulk_insert(meta, [{"name": name, "value": uuid4().hex} for name in ("installation", "epoch")])


def _create_entities() -> None:
    op.create_table(
        "entities",
        text("type"),
        text("id"),
        text("project"),
        *list_entity_columns(),
        sa.Column("is_latest", sa.Boolean, nullable=False),
        *list_documents(),
        key("entities", "type", "id"),
    )
    op.create_index("ix_entities_latest", "entities", ["project", "type", "is_latest", "created_at", "id"])
    op.create_index("ix_entities_created", "entities", ["project", "type", "created_at", "id"])
    op.create_index("ix_entities_name", "entities", ["project", "type", "name", "created_at", "id"])
    op.create_index("ix_entities_function", "entities", ["project", "type", "function", "created_at", "id"])
    op.create_index("ix_entities_all_created", "entities", ["type", "created_at", "id"])
    op.create_index("ix_entities_all_name", "entities", ["type", "name", "id"])
    create_partial_index(
        "uq_entities_task_of_function", "entities", ["project", "function", "kind"], where="type = 'task'", unique=True
    )
    create_partial_index(
        "uq_entities_task_of_workflow", "entities", ["project", "workflow", "kind"], where="type = 'task'", unique=True
    )
    create_partial_index(
        "uq_entities_secret_name", "entities", ["project", "name"], where="type = 'secret'", unique=True
    )
    op.create_table("labels", text("type"), text("id"), text("label"), key("labels", "type", "id", "label"))
    op.create_index("ix_labels_label", "labels", ["type", "label", "id"])
    op.create_table(
        "metrics", text("type"), text("id"), text("name"), prose("value"), key("metrics", "type", "id", "name")
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        text("id"),
        text("project"),
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
        key("runs", "id"),
    )
    create_run_indexes()
    create_partial_index("ix_runs_due", "runs", ["due_at", "id"], where="due_at IS NOT NULL")
    op.create_table(
        "transitions",
        text("run_id"),
        number("sequence"),
        text("state"),
        time("at"),
        text("actor"),
        text("reason", nullable=True),
        prose("message", nullable=True),
        key("transitions", "run_id", "sequence"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_transitions_run_id", ondelete="CASCADE"),
    )
    op.create_table("run_totals", text("project"), number("number"), key("run_totals", "project"))
    op.create_table("tombstones", text("run_id"), text("project"), time("at"), key("tombstones", "run_id"))


def _create_secrets_and_revisions() -> None:
    op.create_table(
        "secrets",
        text("project"),
        text("name"),
        number("version"),
        text("key_id"),
        sa.Column("wrapped_key", sa.LargeBinary, nullable=False),
        sa.Column("ciphertext", sa.LargeBinary, nullable=False),
        key("secrets", "project", "name", "version"),
    )
    op.create_index("ix_secrets_key_id", "secrets", ["key_id"])
    op.create_table(
        "revisions",
        text("kind"),
        text("name"),
        number("revision"),
        prose("document", nullable=True),
        text("user"),
        time("at"),
        key("revisions", "kind", "name", "revision"),
    )


def _create_accounts() -> None:
    op.create_table(
        "accounts",
        text("name"),
        prose("password_hash", nullable=True),
        sa.Column("is_admin", sa.Boolean, nullable=False),
        sa.Column("is_disabled", sa.Boolean, nullable=False),
        time("created_at"),
        key("accounts", "name"),
    )
    op.create_table(
        "tokens",
        text("id"),
        text("user"),
        text("kind"),
        text("hash"),
        prose("name"),
        prose("scopes"),
        time("created_at"),
        time("expires_at", nullable=True),
        time("revoked_at", nullable=True),
        time("last_used_at", nullable=True),
        key("tokens", "id"),
        sa.UniqueConstraint("hash", name="uq_tokens_hash"),
    )
    op.create_index("ix_tokens_user", "tokens", ["user", "created_at", "id"])
    op.create_table(
        "shares",
        text("id"),
        text("project"),
        text("user"),
        text("role"),
        key("shares", "id"),
        sa.UniqueConstraint("project", "user", name="uq_shares_project_user"),
    )
    op.create_index("ix_shares_user", "shares", ["user", "project"])


def _create_ledgers() -> None:
    op.create_table(
        "audit",
        sequence("sequence"),
        time("at"),
        text("actor"),
        text("action"),
        text("project", nullable=True),
        text("type", nullable=True),
        prose("id", nullable=True),
        text("result"),
        prose("address", nullable=True),
        prose("details"),
        key("audit", "sequence"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_index("ix_audit_project", "audit", ["project", "sequence"])
    op.create_index("ix_audit_actor", "audit", ["actor", "sequence"])
    op.create_table(
        "firings",
        sequence("sequence"),
        text("trigger_id"),
        text("occasion"),
        key("firings", "sequence"),
        sa.UniqueConstraint("trigger_id", "occasion", name="uq_firings_trigger_id_occasion"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_firings_last", "firings", ["trigger_id", "sequence"])
