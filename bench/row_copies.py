"""Copies of rows inside a database: many runs in a moment, because submitting them would take too long."""

from collections.abc import Mapping

from runyard.store import tables


def make_copy(table: str, count: int, *, where: str, replaced: Mapping[str, str]) -> str:
    """The statement that copies rows `t`, so many times each. `replaced`: SQL by column; `n.i` counts copies from 1."""
    names = [column.name for column in tables.metadata.tables[table].columns]
    values = [replaced.get(name, f't."{name}"') for name in names]
    quoted = ", ".join(f'"{name}"' for name in names)
    return (
        f"INSERT INTO {table} ({quoted}) "
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) "
        f"SELECT {', '.join(values)} FROM {table} AS t, n WHERE {where}"
    )
