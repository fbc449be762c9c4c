"""How an engine goes about the statements of the store: what it was asked, and its plan for that."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event, text

from runyard.store.postgresql_transactions import PostgresqlTransactionFactory
from runyard.store.sql_store import SqlStore
from runyard.store.sqlite_transactions import SqliteTransactionFactory
from runyard.store.transactions import T, Work

Statement = tuple[str, Any]


async def ask_writer(store: SqlStore, work: Work[T]) -> T:
    """Ask the database itself, through one of the connections that write."""
    transaction = store._writer.make()
    try:
        return await transaction.run(work, "write")
    finally:
        await transaction.close()


@contextmanager
def record(store: SqlStore) -> Iterator[list[Statement]]:
    """The statements that go to the driver, with their parameters."""
    asked: list[Statement] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: Any) -> None:
        asked.append((statement, parameters))

    factory = store._writer
    assert isinstance(factory, SqliteTransactionFactory | PostgresqlTransactionFactory)
    engine = factory.engine if isinstance(factory, SqliteTransactionFactory) else factory.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(engine, "before_cursor_execute", note)


def explain_sqlite(connection: Connection, asked: Statement) -> list[str]:
    """The lines of its plan."""
    statement, parameters = asked
    rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
    return [row.detail for row in rows]


def explain_postgresql(connection: Connection, asked: Statement, *, is_generic: bool) -> list[str]:
    """The nodes of its plan, `Index Scan using ix on runs` or `Sort of 17 rows`.

    Generic: the plan that the server keeps for any parameters, once a statement was used a few times.
    """
    statement, parameters = asked
    mode = "force_generic_plan" if is_generic else "force_custom_plan"
    connection.execute(text(f"SET LOCAL plan_cache_mode = {mode}"))
    connection.exec_driver_sql(f"PREPARE asked AS {statement}")
    values = ", ".join(_quote(connection, value) for value in parameters)
    arguments = f"({values})" if values else ""
    [[plan]] = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) EXECUTE asked{arguments}")
    connection.execute(text("DEALLOCATE asked"))
    return list(_iter_nodes((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))


def _quote(connection: Connection, value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return f"ARRAY[{', '.join(_quote(connection, one) for one in value)}]"
    quoted = connection.execute(text("SELECT quote_literal(:value)"), {"value": str(value)})
    return str(quoted.scalar_one())


def _iter_nodes(plan: dict[str, Any]) -> Iterator[str]:
    relation, index = plan.get("Relation Name"), plan.get("Index Name")
    words = plan["Node Type"] + (f" using {index}" if index else "") + (f" on {relation}" if relation else "")
    yield f"Sort of {plan['Plan Rows']} rows" if words == "Sort" else words
    for child in plan.get("Plans", ()):
        yield from _iter_nodes(child)
