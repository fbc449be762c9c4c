"""Entities: what is written is found, and the latest of a name is kept right."""

from dataclasses import replace
from itertools import permutations

import pytest

from runyard.app.list_query import Query
from runyard.app.ports import Duplicate, Stale, Store
from tests.contract.store.builders import NOON, after, make_entity, make_run, make_task
from tests.contract.store.test_secrets import make_value


async def add(store: Store, *entities: object) -> None:
    async with store.begin() as work:
        for entity in entities:
            await work.entities.add(entity)  # type: ignore[arg-type]
        await work.commit()


async def test_entity_comes_back_as_it_was_when_it_is_found(store: Store) -> None:
    entity = make_entity(
        "f1",
        name="naïve-Ünïcode",
        state="UPLOADING",
        metadata={"z": 1, "a": [True, None, 1.5, "\0 \ud800 ☃"], "labels": ["x"]},
        spec={"k": {"n": 10**30}},
        status={"files": [{"size": 2**40}]},
        extensions=({"kind": "x", "spec": {}},),
        updated_at=after(0.000001),
    )
    await add(store, entity)

    async with store.begin(is_read_only=True) as work:
        found = await work.entities.find("function", "f1", project="p")

    assert found == entity
    assert found is not None
    assert list(found.metadata) == ["z", "a", "labels"]
    assert found.updated_at - found.created_at == after(0.000001) - NOON
    assert found.created_at.utcoffset() == NOON.utcoffset()


async def test_nothing_is_found_when_type_project_or_id_is_another(store: Store) -> None:
    await add(store, make_entity("f1"))

    async with store.begin(is_read_only=True) as work:
        assert await work.entities.find("function", "f1", project="p") is not None
        assert await work.entities.find("function", "f1", project="q") is None
        assert await work.entities.find("model", "f1", project="p") is None
        assert await work.entities.find("function", "F1", project="p") is None
        assert await work.entities.find("function", "f1\0", project="p") is None
        assert await work.entities.find("function", "x" * 10_000, project="p") is None


@pytest.mark.parametrize("odd", ["\0", "\ud800", "x" * 2_000])
async def test_odd_texts_are_refused_or_match_nothing_when_they_cannot_be_names(store: Store, odd: str) -> None:
    async with store.begin() as work:
        with pytest.raises(ValueError, match="stored"):
            await work.entities.add(make_entity("f1", name=odd))
        with pytest.raises(ValueError, match="stored"):
            await work.runs.add(make_run(odd), [])
        assert await work.entities.delete("function", odd, project=odd) is False
        assert await work.accounts.delete_token(odd, user=odd) is False
        assert await work.runs.has_tombstone(odd, project="p") is False
        assert await work.secrets.find(odd, odd) is None
        await work.runs.delete([odd])
        await work.secrets.delete(odd, odd)
        await work.accounts.delete(odd)
        await work.entities.delete_project(odd)
        await work.entities.add(make_entity("f1"))
        await work.commit()


async def test_mistake_is_told_when_a_time_has_no_zone(store: Store) -> None:
    naive = NOON.replace(tzinfo=None)
    async with store.begin() as work:
        with pytest.raises(ValueError, match="time zone"):
            await work.entities.add(make_entity("f1", created_at=naive))
        with pytest.raises(ValueError, match="time zone"):
            await work.entities.find_page(Query(type="model", created=(naive, None)))


async def test_second_is_refused_and_the_work_goes_on_when_the_id_is_taken(store: Store) -> None:
    await add(store, make_entity("f1"), make_entity("f1", type="model"))

    async with store.begin() as work:
        with pytest.raises(Duplicate):
            await work.entities.add(make_entity("f1", name="other"))
        await work.entities.add(make_entity("f2"))
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        first = await work.entities.find("function", "f1", project="p")
        assert first is not None
        assert first.name == "f"
        assert await work.entities.find("function", "f2", project="p") is not None


async def test_second_task_is_refused_when_project_function_and_kind_are_the_same(store: Store) -> None:
    of_workflow = {"spec": {"workflow": "hera://p/w:w1"}, "kind": "hera+pipeline"}
    await add(store, make_task("t1"), make_task("w1", **of_workflow))

    async with store.begin() as work:
        with pytest.raises(Duplicate):
            await work.entities.add(make_task("t2"))
        with pytest.raises(Duplicate):
            await work.entities.add(make_task("w2", **of_workflow))
        await work.entities.add(make_task("t3", kind="python+serve"))
        await work.entities.add(make_task("t4", spec={"function": "python://p/f:f2"}))
        await work.entities.add(make_task("t5", project="q"))
        await work.commit()


async def test_second_secret_is_refused_when_the_name_is_the_same_in_the_project(store: Store) -> None:
    await add(store, make_entity("s1", type="secret", name="key"))

    async with store.begin() as work:
        with pytest.raises(Duplicate):
            await work.entities.add(make_entity("s2", type="secret", name="key"))
        await work.entities.add(make_entity("s3", type="secret", name="key", project="q"))
        await work.commit()


@pytest.mark.parametrize("order", list(permutations([1, 2, 3])))
async def test_latest_is_the_newest_when_versions_come_in_any_order(store: Store, order: tuple[int, ...]) -> None:
    await add(store, *(make_entity(f"f{number}", created_at=after(number)) for number in order))

    async with store.begin(is_read_only=True) as work:
        latest = await work.entities.find_latest("function", project="p", name="f")
        listed = await work.entities.find_page(Query(type="function", project="p"))
        every = await work.entities.find_page(Query(type="function", project="p", versions="all"))

    assert latest is not None
    assert latest.id == "f3"
    assert [entity.id for entity in listed.content] == ["f3"]
    assert listed.total == 1
    assert [entity.id for entity in every.content] == ["f3", "f2", "f1"]


async def test_the_greater_id_is_the_latest_when_versions_are_of_the_same_instant(store: Store) -> None:
    await add(store, make_entity("b"), make_entity("c"), make_entity("a"))

    async with store.begin(is_read_only=True) as work:
        latest = await work.entities.find_latest("function", project="p", name="f")
        listed = await work.entities.find_page(Query(type="function", project="p"))
        every = await work.entities.find_page(Query(type="function", project="p", versions="all"))

    assert latest is not None
    assert latest.id == "c"
    assert [entity.id for entity in listed.content] == ["c"]
    assert [entity.id for entity in every.content] == ["c", "b", "a"]


async def test_older_version_becomes_the_latest_when_the_newest_is_deleted(store: Store) -> None:
    await add(store, *(make_entity(f"f{number}", created_at=after(number)) for number in (1, 2, 3)))

    for gone, left in (("f2", "f3"), ("f3", "f1")):
        async with store.begin() as work:
            assert await work.entities.delete("function", gone, project="p") is True
            await work.commit()
        async with store.begin(is_read_only=True) as work:
            listed = await work.entities.find_page(Query(type="function", project="p"))
            assert [entity.id for entity in listed.content] == [left]


async def test_all_are_listed_when_the_type_has_no_versions(store: Store) -> None:
    await add(store, make_task("t1", name="same"), make_task("t2", name="same", kind="python+serve"))

    async with store.begin(is_read_only=True) as work:
        listed = await work.entities.find_page(Query(type="task", project="p"))

    assert {entity.id for entity in listed.content} == {"t1", "t2"}


async def test_none_is_the_latest_when_the_name_is_unknown(store: Store) -> None:
    await add(store, make_entity("f1"))

    async with store.begin(is_read_only=True) as work:
        assert await work.entities.find_latest("function", project="p", name="g") is None
        assert await work.entities.find_latest("function", project="q", name="f") is None


async def test_revision_counts_on_when_an_entity_is_replaced(store: Store) -> None:
    entity = make_entity("f1")
    await add(store, entity)

    async with store.begin() as work:
        changed = replace(entity, metadata={"labels": ["new"]}, updated_at=after(5), updated_by="bob", state="READY")
        written = await work.entities.replace(changed)
        again = await work.entities.replace(written, expected_revision=2)
        await work.commit()

    assert written == replace(changed, revision=2)
    assert again.revision == 3
    async with store.begin(is_read_only=True) as work:
        assert await work.entities.find("function", "f1", project="p") == again


async def test_nothing_is_written_when_the_revision_is_not_the_expected_one(store: Store) -> None:
    entity = make_entity("f1")
    await add(store, entity)

    async with store.begin() as work:
        for expected in (0, 2, 10**30):
            with pytest.raises(Stale):
                await work.entities.replace(replace(entity, state="READY"), expected_revision=expected)
        with pytest.raises(Stale):
            await work.entities.replace(make_entity("f2"))
        with pytest.raises(Stale):
            await work.entities.replace(replace(entity, project="q"))
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        assert await work.entities.find("function", "f1", project="p") == entity


async def test_mistake_is_told_when_a_name_or_a_time_of_creation_would_change(store: Store) -> None:
    entity = make_entity("f1")
    await add(store, entity)

    for changed in (replace(entity, name="g"), replace(entity, created_at=after(1))):
        async with store.begin() as work:
            with pytest.raises(ValueError, match="never changes"):
                await work.entities.replace(changed)


async def test_delete_says_whether_there_was_one_when_it_is_called_twice(store: Store) -> None:
    await add(store, make_entity("f1"))

    async with store.begin() as work:
        assert await work.entities.delete("function", "f1", project="q") is False
        assert await work.entities.delete("function", "f1", project="p") is True
        assert await work.entities.delete("function", "f1", project="p") is False
        await work.entities.add(make_entity("f1"))
        await work.commit()


async def test_metrics_and_labels_go_when_their_entity_goes(store: Store) -> None:
    labelled = make_entity("m1", type="model", metadata={"labels": ["a"]})
    await add(store, labelled)

    async with store.begin() as work:
        await work.metrics.put("model", "m1", "loss", 0.5, project="p")
        await work.entities.delete("model", "m1", project="p")
        await work.entities.add(replace(labelled, metadata={}))
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        assert await work.metrics.list_values("model", "m1", project="p") == {}
        page = await work.entities.find_page(Query(type="model", labels=("a",)))
        assert page.total == 0


async def test_nothing_of_a_project_is_left_when_it_is_deleted(store: Store) -> None:
    await add(store, *(make_entity(name, type="project", project=name, name=name) for name in ("p", "q")))
    await add(store, *(make_entity(f"{name}-f", project=name) for name in ("p", "q")))
    async with store.begin() as work:
        for name in ("p", "q"):
            await work.runs.add(make_run(f"{name}-r", project=name), [])
            await work.metrics.put("run", f"{name}-r", "loss", 1.0, project=name)
            await work.secrets.put(make_value(project=name))
        await work.commit()

    async with store.begin() as work:
        await work.runs.delete(["p-r"])
        await work.entities.delete_project("p")
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        for name, is_left in (("p", False), ("q", True)):
            assert (await work.entities.find_project(name) is not None) is is_left
            assert (await work.entities.find("function", f"{name}-f", project=name) is not None) is is_left
            assert (await work.runs.find(f"{name}-r", project=name) is not None) is is_left
            assert (await work.secrets.find(name, "key") is not None) is is_left
            assert bool(await work.metrics.list_values("run", f"{name}-r", project=name)) is is_left
        assert await work.runs.has_tombstone("p-r", project="p") is True
        assert await work.runs.has_tombstone("q-r", project="q") is False


async def test_content_of_a_project_goes_in_batches_when_it_is_deleted(store: Store) -> None:
    await add(store, *(make_entity(name, type="project", project=name, name=name) for name in ("p", "q")))
    await add(store, *(make_entity(f"f{number}", metadata={"labels": ["x"]}) for number in range(5)))
    await add(store, make_entity("f1", project="q"))
    async with store.begin() as work:
        await work.metrics.put("function", "f1", "loss", 1.0, project="p")
        for version in (1, 2):
            await work.secrets.put(make_value(version=version))
        await work.secrets.put(make_value(project="q"))
        await work.commit()

    numbers = []
    for _ in range(5):
        async with store.begin() as work:
            numbers.append(await work.entities.delete_content("p", limit=2))
            await work.commit()

    assert numbers == [2, 2, 1, 2, 0]
    async with store.begin(is_read_only=True) as work:
        assert (await work.entities.find_page(Query(type="function", project="p"))).total == 0
        assert list(await work.entities.list_labels("p")) == []
        assert not await work.metrics.list_values("function", "f1", project="p")
        assert await work.secrets.find("p", "key") is None
        assert await work.entities.find_project("p") is not None
        assert await work.entities.find("function", "f1", project="q") is not None
        assert await work.secrets.find("q", "key") is not None


async def test_project_stays_when_it_still_has_runs(store: Store) -> None:
    await add(store, make_entity("p", type="project", name="p"), make_entity("f1"))
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), [])
        with pytest.raises(Stale, match="still has runs"):
            await work.entities.delete_project("p")
        await work.commit()
    async with store.begin(is_read_only=True) as work:
        assert await work.entities.find("function", "f1", project="p") is not None


async def test_entities_stay_apart_when_projects_use_the_same_id(store: Store) -> None:
    ours, theirs = (make_entity("f1", project=name, metadata={"labels": [name]}) for name in ("p", "q"))
    triggers = [make_entity("t1", type="trigger", project=name, name="t") for name in ("p", "q")]
    await add(store, ours, theirs, *triggers)
    async with store.begin() as work:
        for name, loss in (("p", 1.0), ("q", 2.0)):
            await work.metrics.put("function", "f1", "loss", loss, project=name)
            assert await work.firings.use("t1", "noon", project=name) is True
        changed = await work.entities.replace(replace(ours, state="READY"))
        await work.commit()

    async with store.begin() as work:
        assert await work.entities.find("function", "f1", project="p") == changed
        assert await work.entities.find("function", "f1", project="q") == theirs
        assert await work.entities.find("function", "f1", project="r") is None
        for name in ("p", "q"):
            page = await work.entities.find_page(Query(type="function", labels=(name,)))
            assert [one.project for one in page.content] == [name]
            assert await work.entities.list_labels(name) == [name]
        page = await work.entities.find_page(Query(type="function", project="p", labels=("q",)))
        assert page.total == 0
        assert await work.entities.delete("function", "f1", project="p") is True
        assert await work.entities.delete("trigger", "t1", project="p") is True
        assert await work.entities.find("function", "f1", project="q") == theirs
        assert await work.metrics.list_values("function", "f1", project="p") == {}
        assert await work.metrics.list_values("function", "f1", project="q") == {"loss": 2.0}
        assert (await work.firings.find_last("t1", project="p"), await work.firings.find_last("t1", project="q")) == (
            None,
            "noon",
        )


async def test_pages_hold_each_entity_once_when_projects_use_the_same_ids(store: Store) -> None:
    await add(store, *(make_entity(f"f{n}", project=name) for n in range(4) for name in ("q", "p", "r")))
    for sort in ((), (("name", "asc"),), (("id", "desc"),)):
        seen = []
        async with store.begin(is_read_only=True) as work:
            for page in range(4):
                query = Query(type="function", versions="all", sort=sort, size=3, page=page)
                seen += [(one.project, one.id) for one in (await work.entities.find_page(query)).content]
        assert len(set(seen)) == len(seen) == 12
