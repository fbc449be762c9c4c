"""The server stores files of artifacts, data items and models: their rows, totals, and blobs to be deleted."""

from alembic import op

from runyard.store.migrations.frozen_columns import create_partial_index, key, number, text, time

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Forward only: a backup is the way back."""
    op.create_table(
        "files",
        *map(text, ("project", "type", "id", "path", "blob")),
        number("size"),
        *map(text, ("sha256", "content_type")),
        time("at"),
        text("user"),
        key("files", "project", "type", "id", "path"),
    )
    op.create_table(
        "file_totals",
        *map(text, ("project", "type", "id")),
        *map(number, ("number", "bytes")),
        key("file_totals", "project", "type", "id"),
    )
    op.create_table(
        "unused_blobs",
        *map(text, ("blob", "project", "type", "id")),
        number("reserved"),
        time("due_at"),
        key("unused_blobs", "blob"),
    )
    create_partial_index("ix_unused_blobs_reserved", "unused_blobs", ["project", "type", "id"], where="reserved > 0")
