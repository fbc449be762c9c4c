"""The reconcile loop: the whole life of a run with an engine in memory, on SQLite and PostgreSQL side by side.

`world` has a Core on a real database with a loop that can be started, `engine` the engine, `database` a second
connection that reads what was stored, `lives`, `events` and `restart` the measures, and `section` the table.
"""
