"""Columns, keys and copies as the scripts write them. Frozen: a change here would change what old scripts have made."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_PROSE = sa.Text()
_TIME = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
_SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

ENTITY_COLUMNS = (
    *("kind", "name", "user", "created_at", "updated_at", "updated_by", "state", "revision"),
    *("function", "function_base", "workflow", "workflow_base", "task", "action", "search"),
)
"""The names of what `list_entity_columns` makes."""
DOCUMENTS = ("metadata", "spec", "status", "extensions")


def text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    """A text that is compared and sorted by bytes."""
    return sa.Column(name, _TEXT, nullable=nullable)


def prose(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    """A text that is not indexed."""
    return sa.Column(name, _PROSE, nullable=nullable)


def time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    """A time."""
    return sa.Column(name, _TIME, nullable=nullable)


def number(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    """A whole number of 64 bits."""
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def flag(name: str) -> sa.Column[Any]:
    """True or false."""
    return sa.Column(name, sa.Boolean, nullable=False)


def sequence(name: str) -> sa.Column[Any]:
    """An auto-incremented number."""
    return sa.Column(name, _SEQUENCE, nullable=False)


def key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    """The primary key."""
    return sa.PrimaryKeyConstraint(*columns, name=f"pk_{table}")


def list_entity_columns() -> list[sa.Column[Any]]:
    """The columns that runs and other entities share, without keys, project and documents."""
    return [
        *map(text, ("kind", "name", "user")),
        time("created_at"),
        time("updated_at"),
        text("updated_by"),
        text("state"),
        number("revision"),
        *(text(name, nullable=True) for name in ("function", "function_base", "workflow", "workflow_base")),
        text("task", nullable=True),
        text("action", nullable=True),
        prose("search"),
    ]


def list_documents() -> list[sa.Column[Any]]:
    """The documents that runs and other entities share."""
    return [prose(name) for name in DOCUMENTS]


def create_partial_index(name: str, table: str, columns: list[str], *, where: str, unique: bool = False) -> None:
    """An index of the rows for which the condition holds."""
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def create_run_indexes() -> None:
    """The indexes of the lists of runs."""
    if is_sqlite():
        op.create_index("ix_runs_search", "runs", ["project", "created_at", "id", "search"])
    else:
        op.create_index("ix_runs_created", "runs", ["project", "created_at", "id"])
    for name in ("state", "function", "function_base", "task"):
        op.create_index(f"ix_runs_{name}", "runs", ["project", name, "created_at", "id"])
    op.create_index("ix_runs_updated", "runs", ["project", "updated_at", "id"])
    op.create_index("ix_runs_all_created", "runs", ["created_at", "id"])
    op.create_index("ix_runs_all_state", "runs", ["state", "updated_at", "id"])


def create_transitions() -> None:
    """The table of transitions by the uid of the run."""
    op.create_table(
        "transitions",
        text("run_uid"),
        number("sequence"),
        text("state"),
        time("at"),
        text("actor"),
        text("reason", nullable=True),
        prose("message", nullable=True),
        key("transitions", "run_uid", "sequence"),
        sa.ForeignKeyConstraint(["run_uid"], ["runs.uid"], name="fk_transitions_run_uid", ondelete="CASCADE"),
    )


def set_aside(table: str) -> None:
    """Copy the rows to `old_…` and drop the table. A renamed table would keep the names of its indexes."""
    op.execute(f"CREATE TABLE old_{table} AS SELECT * FROM {table}")  # noqa: S608 - no input
    op.drop_table(table)


def copy(table: str, values: Mapping[str, str], *, source: str) -> None:
    """Fill a table; `values` are SQL expressions by column."""
    names = ", ".join(map(quote, values))
    op.execute(f"INSERT INTO {table} ({names}) SELECT {', '.join(values.values())} FROM {source}")  # noqa: S608 - no input


def quote(name: str) -> str:
    """The name of a column, quoted: `user` is a word of SQL."""
    return f'"{name}"'


def write_flag(*, value: bool) -> str:
    """True or false as an SQL literal."""
    return str(int(value)) if is_sqlite() else str(value).lower()


def is_sqlite() -> bool:
    """Whether the script runs on SQLite."""
    return op.get_bind().dialect.name == "sqlite"
