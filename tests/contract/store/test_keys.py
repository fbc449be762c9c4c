"""Entities and runs without the documents that a caller does not need."""

from typing import Any

import pytest

from runyard.app.list_query import Query
from runyard.app.ports import EntityKey, Store
from tests.contract.store.builders import NOON, after, make_entity, make_run
from tests.parsed_documents import record_parsed

METADATA = {"description": "dé"}
METADATA_BYTES = len('{"description":"d\\u00e9"}')


async def test_keys_of_entities_are_those_of_the_page_when_it_is_filtered_and_sorted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store.begin() as work:
        for number in range(3):
            await work.entities.add(
                make_entity(f"f{number}", name=f"n{number}", updated_at=after(number), metadata=METADATA)
            )
        await work.entities.add(make_entity("a1", type="artifact"))
        await work.commit()
    parsed = record_parsed(monkeypatch)
    query = Query(type="function", project="p", sort=(("updated", "desc"),), size=2, most_bytes=1)
    async with store.begin(is_read_only=True) as work:
        first = await work.entities.find_keys(query)
        rest = await work.entities.find_keys(Query(type="function", project="p", name="n0"))
    assert [key.id for key in first.content] == ["f2", "f1"]
    assert first.total == 3
    assert rest.content == (
        EntityKey(
            type="function",
            id="f0",
            name="n0",
            kind="python",
            created_at=NOON,
            updated_at=NOON,
            metadata_bytes=METADATA_BYTES,
        ),
    )
    assert parsed == []


async def test_keys_of_runs_are_those_of_the_page_when_it_is_filtered(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store.begin() as work:
        for number in range(3):
            await work.runs.add(make_run(f"r{number}", created_at=after(number), metadata=METADATA), [])
        await work.runs.add(make_run("q1", project="q"), [])
        await work.commit()
    parsed = record_parsed(monkeypatch)
    async with store.begin(is_read_only=True) as work:
        found = await work.runs.find_keys(Query(type="run", project="p", size=2))
    assert [(key.type, key.id, key.metadata_bytes) for key in found.content] == [
        ("run", "r2", METADATA_BYTES),
        ("run", "r1", METADATA_BYTES),
    ]
    assert found.total == 3
    assert parsed == []


async def test_summaries_have_metadata_only_when_some_are_named(store: Store) -> None:
    async with store.begin() as work:
        for project in ("p", "q"):
            await work.entities.add(make_entity("f1", project=project, metadata={"in": project}))
            await work.runs.add(make_run("r1", uid=f"{project}-r1", project=project, metadata={"in": project}), [])
        await work.entities.add(make_entity("f2", name="g"))
        await work.commit()
    async with store.begin(is_read_only=True) as work:
        entities = await work.entities.list_summaries("function", ["f1", "f9", "\0"], project="p")
        runs = await work.runs.list_summaries(["r1", "r9", "\0"], project="p")
        assert await work.entities.list_summaries("function", [], project="p") == []
        assert await work.runs.list_summaries([], project="p") == []
    for [unparsed] in (entities, runs):
        found = unparsed.parse()
        assert (unparsed.id, unparsed.characters) == (found.id, len('{"in":"p"}'))
        assert (found.project, found.metadata, found.spec, found.status) == ("p", {"in": "p"}, {}, {})


async def test_running_runs_come_without_documents_when_an_engine_has_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: dict[str, Any] = {"state": "RUNNING", "place": "memory/a", "anchor_uid": "x"}
    async with store.begin() as work:
        await work.runs.add(make_run("r1", **running, created_at=after(1), updated_at=after(9)), [])
        await work.runs.add(make_run("r2", **running, created_at=after(2), updated_at=after(2)), [])
        await work.runs.add(make_run("q1", **running, project="q", user="bob", updated_at=after(5)), [])
        await work.runs.add(make_run("local", **{**running, "anchor_uid": None}, is_local=True), [])
        await work.runs.add(make_run("ended", **{**running, "state": "COMPLETED"}), [])
        await work.commit()
    parsed = record_parsed(monkeypatch)
    async with store.begin(is_read_only=True) as work:
        found = {
            "all": await work.runs.list_running(limit=9),
            "some": await work.runs.list_running(limit=2),
            "project": await work.runs.list_running(project="p", limit=1),
            "user": await work.runs.list_running(user="bob", limit=1),
            "none": await work.runs.list_running(project="none", limit=1),
        }
    assert {name: ([run.id for run in runs], total) for name, (runs, total) in found.items()} == {
        "all": (["r1", "q1", "r2"], 3),
        "some": (["r1", "q1"], 3),
        "project": (["r2"], 2),
        "user": (["q1"], 1),
        "none": ([], 0),
    }
    assert {run.anchor_uid for runs, _ in found.values() for run in runs} == {"x"}
    assert parsed == []


async def test_statuses_of_projects_come_in_pages_when_there_are_many(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store.begin() as work:
        for name in ("c", "a", "b"):
            state = "READY" if name == "b" else "DELETING"
            project = make_entity(name, type="project", project=name, name=name, status={"is": name}, state=state)
            await work.entities.add(project)
        await work.entities.add(make_entity("d", state="DELETING"))
        await work.commit()
    parsed = record_parsed(monkeypatch)
    async with store.begin(is_read_only=True) as work:
        first = await work.entities.list_project_statuses(limit=2)
        rest = await work.entities.list_project_statuses(after="b", limit=2)
        assert len(parsed) == 3
        assert await work.entities.list_projects_in_state("DELETING") == ["a", "c"]
    assert [*first, *rest] == [("a", {"is": "a"}), ("b", {"is": "b"}), ("c", {"is": "c"})]
    assert len(parsed) == 3
