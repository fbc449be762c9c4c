"""Runs get a place, a lane of the work queue, their last sequence, and what follows their end; replicas are listed.

Runs that have ended count as settled: no engine had objects of a run before this revision. The table is rebuilt, so
that small columns stay before the documents.
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
    flag,
    key,
    list_documents,
    list_entity_columns,
    number,
    prose,
    quote,
    set_aside,
    text,
    time,
    write_flag,
)

revision = "0003"
down_revision = "0002"

_KEPT = (
    *("uid", "project", "id", *ENTITY_COLUMNS),
    *("request_hash", "profile_revision", "policy_revision", "is_local", "desired", "desired_generation"),
    *("observed_generation", "due_at", "anchor_uid", "reason", "message", "shard_key"),
    *("lease_owner", "lease_token", "lease_until"),
    *(*DOCUMENTS, "request", "effective", "provenance", "warnings"),
)
_TRANSITION_COLUMNS = ("run_uid", "sequence", "state", "at", "actor", "reason", "message")
_FINAL = "('COMPLETED', 'ERROR', 'STOPPED')"
_LANE = f"""
    CASE WHEN old.state IN {_FINAL} THEN 3
         WHEN old.state IN ('DELETING', 'DELETED') OR old.desired <> 'run' THEN 0
         WHEN old.state IN ('PENDING', 'RUNNING') THEN 1
         ELSE 2 END
"""
_SOURCE = """
    old_runs AS old LEFT JOIN
    (SELECT run_uid, max(sequence) AS last FROM old_transitions GROUP BY run_uid) AS history
    ON history.run_uid = old.uid
"""


def upgrade() -> None:
    """Forward only: a backup is the way back."""
    set_aside("transitions")
    set_aside("runs")
    _create_runs()
    _copy_runs()
    create_run_indexes()
    create_partial_index("ix_runs_due", "runs", ["lane", "due_at", "uid"], where="due_at IS NOT NULL")
    create_partial_index("ix_runs_leased", "runs", ["lease_owner"], where="lease_owner IS NOT NULL")
    create_partial_index("ix_runs_unsettled", "runs", ["place", "uid"], where="settled_at IS NULL")
    create_transitions()
    copy("transitions", {name: name for name in _TRANSITION_COLUMNS}, source="old_transitions")
    op.drop_table("old_runs")
    op.drop_table("old_transitions")
    op.create_table("replicas", text("owner"), text("place", nullable=True), time("until"), key("replicas", "owner"))


def _create_runs() -> None:
    op.create_table(
        "runs",
        *map(text, ("uid", "project", "id")),
        *list_entity_columns(),
        text("request_hash"),
        number("profile_revision", nullable=True),
        number("policy_revision", nullable=True),
        flag("is_local"),
        text("desired"),
        *map(number, ("desired_generation", "observed_generation", "observed_epoch", "observed_version")),
        sa.Column("lane", sa.Integer, nullable=False),
        time("due_at", nullable=True),
        *(text(name, nullable=True) for name in ("place", "anchor_uid", "reason")),
        prose("message", nullable=True),
        number("last_sequence"),
        time("settled_at", nullable=True),
        flag("is_log_complete"),
        sa.Column("shard_key", sa.Integer, nullable=False),
        text("lease_owner", nullable=True),
        text("lease_token", nullable=True),
        time("lease_until", nullable=True),
        flag("is_woken"),
        *list_documents(),
        prose("request"),
        prose("effective", nullable=True),
        prose("provenance"),
        prose("warnings"),
        key("runs", "uid"),
        sa.UniqueConstraint("project", "id", name="uq_runs_project_id"),
    )


def _copy_runs() -> None:
    is_ended = f"old.state IN {_FINAL}"
    values = {name: f"old.{quote(name)}" for name in _KEPT} | {
        "is_woken": "old.is_nudged",
        "observed_epoch": "0",
        "observed_version": "0",
        "lane": _LANE,
        "last_sequence": "coalesce(history.last, 0)",
        "settled_at": f"CASE WHEN {is_ended} THEN old.updated_at END",
        "is_log_complete": f"CASE WHEN {is_ended} THEN {write_flag(value=True)} ELSE {write_flag(value=False)} END",
    }
    copy("runs", values, source=_SOURCE)
