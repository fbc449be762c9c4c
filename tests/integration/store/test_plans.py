"""The hot lists are read along an index and nothing is sorted whole, on both engines, with many rows."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest

from runyard.app.list_query import Query
from runyard.app.model import AuditFilter, Entity, Run
from runyard.app.ports import UnitOfWork
from runyard.store import SqlStore, open_store, tables
from runyard.store.derived_columns import derive_columns, hash_to_shard_key
from runyard.store.entities import _FIELDS as ENTITY_FIELDS
from runyard.store.runs import RUN_COLUMNS
from tests.contract.store.builders import after, claim, make_audit, make_entity, make_run, make_task
from tests.integration.store.plans import ask_writer, explain_postgresql, explain_sqlite, record
from tests.postgres import Postgres

PROJECTS = 24
RUNS = 12_000
ENTITIES = 4_000
# Of the 500 runs of a project: what an exact filter leaves may be sorted, if that is thought to be cheaper.
FEW = 100
STATES = ("COMPLETED",) * 7 + ("ERROR", "RUNNING", "READY")

Ask = Callable[[UnitOfWork], Awaitable[Any]]


def runs(**filters: Any) -> Ask:
    return lambda work: work.runs.find_page(Query(type="run", **filters))


def entities(entity_type: str, **filters: Any) -> Ask:
    return lambda work: work.entities.find_page(Query(type=entity_type, **filters))


CASES: dict[str, tuple[Ask, str]] = {
    "runs of a project": (runs(project="p1"), "ix_runs_created|ix_runs_search"),
    "runs of a project, later page": (runs(project="p1", page=4), "ix_runs_created|ix_runs_search"),
    "runs of a project, oldest first": (
        runs(project="p1", sort=(("created", "asc"),)),
        "ix_runs_created|ix_runs_search",
    ),
    "runs of a project in a span": (
        runs(project="p1", created=(after(10), after(900))),
        "ix_runs_created|ix_runs_search",
    ),
    "runs of all projects": (runs(), "ix_runs_all_created"),
    "runs by state": (runs(project="p1", state="RUNNING"), "ix_runs_state"),
    "runs by version of a function": (runs(project="p1", function="python://p1/f7:v1"), "ix_runs_function"),
    "runs by function": (runs(project="p1", function="python://p1/f7"), "ix_runs_function_base"),
    "runs by task": (runs(project="p1", task="python+job://p1/t7"), "ix_runs_task"),
    "a run": (lambda work: work.runs.find("r17", project="p17"), "uq_runs_project_id"),
    "a run by uid": (lambda work: work.runs.find_by_uid("r17"), "pk_runs"),
    "history of a run": (lambda work: work.runs.list_transitions("r17"), "pk_transitions"),
    "histories of a list": (lambda work: work.runs.list_brief_histories(["r17", "r18"]), "pk_transitions"),
    "what is due": (
        lambda work: claim(work, owner="me", limit=20, lease_for=timedelta(seconds=30)),
        "ix_runs_due",
    ),
    "latest functions": (entities("function", project="p1"), "ix_entities_latest|ix_entities_created"),
    "all versions": (entities("function", project="p1", versions="all"), "ix_entities_created"),
    "functions by name": (entities("function", project="p1", name="n7", versions="all"), "ix_entities_name"),
    "latest of a name": (
        lambda work: work.entities.find_latest("function", project="p1", name="n7"),
        "ix_entities_name",
    ),
    "secrets in order of names": (
        entities("secret", project="p1", sort=(("name", "asc"),)),
        "ix_entities_name|uq_entities_secret_name",
    ),
    "tasks of a function": (
        entities("task", project="p1", function="python://p1/f7:v1"),
        "ix_entities_function|uq_entities_task_of_function",
    ),
    "tasks of a project": (entities("task", project="p1"), "ix_entities_created"),
    "projects in order of names": (entities("project", sort=(("name", "asc"),)), "ix_entities_all_name"),
    "projects, newest first": (entities("project"), "ix_entities_all_created"),
    "functions of all projects": (entities("function", versions="all"), "ix_entities_all_created"),
    "briefs of all projects": (lambda work: work.entities.list_brief("function", limit=500), "pk_entities"),
    "briefs of all projects, later page": (
        lambda work: work.entities.list_brief("function", after=("e17", "p17"), limit=500),
        "pk_entities",
    ),
    "an entity": (lambda work: work.entities.find("function", "e17", project="p17"), "pk_entities"),
    "runs of a chain of triggers": (lambda work: work.firings.count("t7", project="p7"), "ix_firings_last|uq_firings"),
    "audit": (lambda work: work.audit.list_entries(), "pk_audit"),
    "audit of a project": (
        lambda work: work.audit.list_entries(AuditFilter(project="p1")),
        "ix_audit_project|pk_audit",
    ),
}


def iter_runs() -> list[Run]:
    return [
        make_run(
            f"r{n}",
            project=f"p{n % PROJECTS}",
            created_at=after(n // 2),
            state=STATES[n // PROJECTS % len(STATES)],
            function=f"python://p{n % PROJECTS}/f{n // PROJECTS % 10}:v{n // 1000 % 3}",
            task=f"python+job://p{n % PROJECTS}/t{n // PROJECTS % 10}",
            due_at=after(n - RUNS) if n % 50 == 0 else None,
            request={"x": "y" * 500},
        )
        for n in range(RUNS)
    ]


def iter_entities() -> list[Entity]:
    made = []
    for n in range(ENTITIES):
        project, at = f"p{n % PROJECTS}", after(n // 2)
        if n % 10 == 0:
            # A project for some thirty entities: were there hardly any in each, every index by project would do.
            made.append(make_entity(f"x{n}", type="project", project=f"x{n}", name=f"x{n}", created_at=at))
        made += [
            make_entity(f"e{n}", project=project, name=f"n{n % 300}", created_at=at),
            make_entity(f"s{n}", type="secret", project=project, name=f"s{n}", created_at=at),
            make_task(
                f"t{n}", project=project, spec={"function": f"python://{project}/f{n // PROJECTS}:v1"}, created_at=at
            ),
        ]
    return made


async def fill(store: SqlStore) -> None:
    names = [column.name for column in RUN_COLUMNS]
    async with store.begin() as work:
        await work.session.write_all(
            tables.runs.insert(),
            (
                {name: getattr(run, name) for name in names}
                | derive_columns(run)
                | {"lane": int(run.lane), "shard_key": hash_to_shard_key(run.id), "is_woken": False}
                for run in iter_runs()
            ),
        )
        await work.session.write_all(
            tables.entities.insert(),
            (
                {name: getattr(entity, name) for name in ENTITY_FIELDS}
                | derive_columns(entity)
                | {"is_latest": int(entity.id[1:]) >= ENTITIES - 300}
                for entity in iter_entities()
            ),
        )
        await work.session.write_all(
            tables.transitions.insert(),
            (
                {"run_uid": f"r{n}", "sequence": step, "state": "READY", "at": after(n), "actor": "ada"}
                for n in range(RUNS)
                for step in (1, 2)
            ),
        )
        await work.session.write_all(
            tables.audit.insert(),
            (asdict(make_audit(id=f"r{n}", project=f"p{n % PROJECTS}", at=after(n))) for n in range(RUNS)),
        )
        await work.session.write_all(
            tables.firings.insert(),
            ({"project": f"p{n % PROJECTS}", "trigger_id": f"t{n % 300}", "occasion": f"o{n}"} for n in range(RUNS)),
        )
        await work.commit()


async def make_full(url: str) -> None:
    store = await open_store(url)
    await fill(store)
    await store.close()


@pytest.fixture(scope="module")
def sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('plans')}/runyard.db"
    asyncio.run(make_full(url))
    return url


@pytest.fixture
async def sqlite_store(sqlite_url: str) -> AsyncIterator[SqlStore]:
    store = await open_store(sqlite_url)
    yield store
    await store.close()


@pytest.fixture(scope="module")
def postgres_url(postgres: Postgres) -> str:
    url = postgres.create_database()
    asyncio.run(make_full(url))
    postgres.run_sql("VACUUM ANALYZE", database=url.rpartition("/")[2])
    return url


@pytest.fixture
async def postgres_store(postgres_url: str) -> AsyncIterator[SqlStore]:
    store = await open_store(postgres_url)
    yield store
    await store.close()


async def ask(store: SqlStore, act: Ask) -> tuple[str, Any]:
    """The statement that reads the rows of the list: the first but for that which reads the clock."""
    with record(store) as asked:
        async with store.begin() as work:
            await act(work)
    return next(one for one in asked if re.search(r"FROM \w", one[0]) and "count(*)" not in one[0])


@pytest.mark.parametrize("name", CASES)
async def test_sqlite_reads_along_the_index_when_it_is_asked_for(sqlite_store: SqlStore, name: str) -> None:
    act, index = CASES[name]
    asked = await ask(sqlite_store, act)

    plan = await ask_writer(sqlite_store, lambda connection: explain_sqlite(connection, asked))

    expected = index if index.startswith(("ix", "uq_entities")) else "PRIMARY KEY|sqlite_autoindex|SCAN audit"
    assert any(re.search(expected, line) for line in plan), plan
    assert not [line for line in plan if line == "USE TEMP B-TREE FOR ORDER BY"], plan
    assert not [line for line in plan if re.fullmatch(r"SCAN (runs|entities|transitions)", line)], plan


@pytest.mark.parametrize("is_generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("name", CASES)
async def test_postgresql_reads_along_the_index_when_it_is_asked_for(
    postgres_store: SqlStore, name: str, is_generic: bool
) -> None:
    act, index = CASES[name]
    asked = await ask(postgres_store, act)

    plan = await ask_writer(
        postgres_store, lambda connection: explain_postgresql(connection, asked, is_generic=is_generic)
    )

    assert any(re.search(f"using ({index})( |$)", node) for node in plan), plan
    sorted_rows = [int(node.split()[2]) for node in plan if node.startswith("Sort of")]
    assert all(number <= FEW for number in sorted_rows), plan
    # A table with one row per server is read whole.
    scans = [node for node in plan if node.startswith("Seq Scan on") and node != "Seq Scan on replicas"]
    assert not scans, plan


async def test_sqlite_counts_in_the_index_alone_when_a_state_is_listed(sqlite_store: SqlStore) -> None:
    with record(sqlite_store) as asked:
        async with sqlite_store.begin() as work:
            await work.runs.find_page(Query(type="run", project="p1", state="COMPLETED"))
    [counting] = [one for one in asked if "count(*)" in one[0]]

    plan = await ask_writer(sqlite_store, lambda connection: explain_sqlite(connection, counting))

    assert any("USING COVERING INDEX ix_runs_state" in line for line in plan), plan


async def test_sqlite_searches_without_reading_documents_when_a_part_is_asked_for(sqlite_store: SqlStore) -> None:
    asked = await ask(sqlite_store, runs(project="p1", q="zzz"))

    plan = await ask_writer(sqlite_store, lambda connection: explain_sqlite(connection, asked))

    assert any("USING INDEX ix_runs_search" in line for line in plan), plan
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan
