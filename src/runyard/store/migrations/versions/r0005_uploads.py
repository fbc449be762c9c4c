"""Clients can upload a file in several requests: the uploads that are not complete yet."""

from alembic import op

from runyard.store.migrations.frozen_columns import flag, key, number, text, time

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Forward only: a backup is the way back."""
    op.create_table(
        "uploads",
        *map(text, ("blob", "project", "type", "id")),
        time("entity_created_at"),
        text("path"),
        number("size"),
        text("sha256", nullable=True),
        text("content_type"),
        flag("is_new"),
        text("replaces", nullable=True),
        text("user"),
        time("expires_at"),
        text("lease_owner", nullable=True),
        time("lease_until", nullable=True),
        key("uploads", "blob"),
    )
    op.create_index("ix_uploads_entity", "uploads", ["project", "type", "id"])
