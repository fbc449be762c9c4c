"""Lists of entities: every filter, every order, pages that fit together."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta, timezone
from itertools import chain
from typing import Any

import pytest

from runyard.app.list_query import Query
from runyard.app.model import Entity
from runyard.app.ports import Store
from tests.contract.store.builders import NOON, after, make_entity, make_task


async def add(store: Store, entities: Sequence[Entity]) -> None:
    async with store.begin() as work:
        for entity in entities:
            await work.entities.add(entity)
        await work.commit()


async def find_ids(store: Store, **filters: Any) -> list[str]:
    async with store.begin(is_read_only=True) as work:
        page = await work.entities.find_page(Query(**{"type": "function", "versions": "all", **filters}))
    assert page.total >= len(page.content)
    return [entity.id for entity in page.content]


async def test_pages_hold_every_entity_once_when_they_are_put_together(store: Store) -> None:
    await add(store, [make_entity(f"f{n:02}", name=f"n{n}", created_at=after(n // 3)) for n in range(45)])

    pages = []
    for number in range(6):
        async with store.begin(is_read_only=True) as work:
            page = await work.entities.find_page(Query(type="function", project="p", page=number, size=10))
        assert page.total == 45
        pages.append([entity.id for entity in page.content])

    assert [len(page) for page in pages] == [10, 10, 10, 10, 5, 0]
    assert list(chain.from_iterable(pages)) == sorted((f"f{n:02}" for n in range(45)), reverse=True)


async def test_total_is_told_when_the_page_is_far_away_or_has_no_size(store: Store) -> None:
    await add(store, [make_entity("f1"), make_entity("f2", name="g")])

    for page, size in ((10**18, 25), (0, 0), (2, 1), (1, 1)):
        async with store.begin(is_read_only=True) as work:
            found = await work.entities.find_page(Query(type="function", page=page, size=size))
        assert found.total == 2
        assert len(found.content) == (1 if (page, size) == (1, 1) else 0)


async def test_page_is_empty_when_nothing_matches(store: Store) -> None:
    async with store.begin(is_read_only=True) as work:
        page = await work.entities.find_page(Query(type="function"))
    assert page.content == ()
    assert page.total == 0


async def test_newest_come_first_when_no_order_is_asked_for(store: Store) -> None:
    await add(store, [make_entity("a", created_at=after(1)), make_entity("c"), make_entity("b")])
    assert await find_ids(store) == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ((("name", "asc"),), ["x1", "x2", "x3"]),
        ((("name", "desc"),), ["x3", "x2", "x1"]),
        ((("kind", "asc"), ("id", "desc")), ["x3", "x1", "x2"]),
        ((("kind", "asc"), ("created", "asc")), ["x1", "x3", "x2"]),
        ((("updated", "asc"),), ["x2", "x1", "x3"]),
        ((("state", "asc"),), ["x3", "x2", "x1"]),
        ((("user", "desc"),), ["x2", "x3", "x1"]),
        ((("project", "desc"),), ["x3", "x2", "x1"]),
        ((("project", "asc"),), ["x1", "x2", "x3"]),
        ((("id", "asc"),), ["x1", "x2", "x3"]),
        ((("created", "asc"),), ["x1", "x2", "x3"]),
    ],
)
async def test_order_is_the_one_asked_for_when_a_column_is_named(
    store: Store, sort: tuple[tuple[str, str], ...], expected: list[str]
) -> None:
    await add(
        store,
        [
            make_entity("x1", name="B", kind="a", updated_at=after(5), state="READY", user="A"),
            make_entity("x2", name="a", kind="b", updated_at=after(4), state="ERROR", user="b", created_at=after(1)),
            make_entity("x3", name="é", kind="a", updated_at=after(6), state="CREATED", user="a", created_at=after(2)),
        ],
    )
    # Bytes decide, not a locale: capitals stand before small letters, and accents come last.
    assert await find_ids(store, sort=sort) == expected


async def test_mistake_is_told_when_the_order_is_by_something_else(store: Store) -> None:
    with pytest.raises(ValueError, match="sorted by spec"):
        await find_ids(store, sort=(("spec", "asc"),))


FILTERED = [
    make_entity("f1", name="train", kind="python", user="ada", state="CREATED", created_at=after(1)),
    make_entity("f2", name="Train-GPU", kind="container", user="bob", state="READY", created_at=after(2)),
    make_entity("f3", name="straße_100%", project="q", created_at=after(3), updated_at=after(30)),
    make_entity("f4", name="TRAIN", metadata={"labels": ["x", "y", 3, "x"]}, created_at=after(4)),
    make_entity("f5", name="eval", metadata={"labels": ["x"]}, created_at=after(5)),
    make_entity("m1", name="train", type="model", created_at=after(6)),
]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"project": "q"}, ["f3"]),
        ({"project": "x"}, []),
        ({"visible_projects": frozenset({"q", "z"})}, ["f3"]),
        ({"visible_projects": frozenset()}, []),
        ({"visible_projects": frozenset({"q"}), "visible_to": "bob"}, ["f3", "f2"]),
        ({"name": "train"}, ["f1"]),
        ({"name": "trai"}, []),
        ({"kind": "container"}, ["f2"]),
        ({"kind": "contain"}, []),
        ({"user": "bob"}, ["f2"]),
        ({"state": "READY"}, ["f2"]),
        ({"q": "train"}, ["f4", "f2", "f1"]),
        ({"q": "RAIN-g"}, ["f2"]),
        ({"q": "F5"}, ["f5"]),
        ({"q": "STRASSE"}, ["f3"]),
        ({"q": "00%"}, ["f3"]),
        ({"q": "_1"}, ["f3"]),
        ({"q": "%"}, ["f3"]),
        ({"q": "f1train"}, []),
        ({"q": "\0"}, []),
        ({"q": "\ud800"}, []),
        ({"q": "x" * 60_000}, []),
        ({"name": "x\0"}, []),
        ({"labels": ("x",)}, ["f5", "f4"]),
        ({"labels": ("x", "y")}, ["f4"]),
        ({"labels": ("y", "z")}, []),
        ({"labels": ("\0",)}, []),
        ({"created": (after(2), after(4))}, ["f4", "f3", "f2"]),
        ({"created": (after(4), None)}, ["f5", "f4"]),
        ({"created": (None, after(1))}, ["f1"]),
        ({"created": (None, None)}, ["f5", "f4", "f3", "f2", "f1"]),
        ({"updated": (after(1), None)}, ["f3"]),
        ({"type": "model"}, ["m1"]),
        ({"q": "train", "kind": "python", "user": "ada", "project": "p", "labels": ("y",)}, ["f4"]),
        ({"q": ""}, ["f5", "f4", "f3", "f2", "f1"]),
    ],
)
async def test_list_holds_what_matches_when_it_is_filtered(
    store: Store, filters: dict[str, Any], expected: list[str]
) -> None:
    await add(store, FILTERED)
    assert await find_ids(store, **filters) == expected


async def test_time_zone_makes_no_difference_when_a_span_is_asked_for(store: Store) -> None:
    await add(store, FILTERED)
    elsewhere = after(4).astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert await find_ids(store, created=(elsewhere, elsewhere)) == ["f4"]


async def test_projects_are_found_by_a_part_of_the_name_when_they_are_listed(store: Store) -> None:
    names = ("alpha", "beta", "alphabet")
    await add(store, [make_entity(name, type="project", project=name, name=name, kind="project") for name in names])

    assert await find_ids(store, type="project", name="alpha", sort=(("name", "asc"),)) == ["alpha", "alphabet"]
    seen = frozenset({"beta", "alphabet"})
    assert await find_ids(store, type="project", name="bet", visible_projects=seen) == ["beta", "alphabet"]
    many = frozenset(f"p{number}" for number in range(40_000)) | {"beta"}
    assert await find_ids(store, type="project", visible_projects=many) == ["beta"]


async def test_tasks_are_found_when_function_kind_or_action_is_asked_for(store: Store) -> None:
    await add(
        store,
        [
            make_task("t1", created_at=after(1)),
            make_task("t2", kind="python+serve", created_at=after(2)),
            make_task("t3", spec={"function": "python://p/f:f2"}, created_at=after(3)),
            make_task("t4", spec={"function": "python://p/ff:f1"}, created_at=after(4)),
            make_task("t5", kind="hera+pipeline", spec={"workflow": "hera://p/w:w1"}, created_at=after(5)),
            make_task("t6", kind="odd", spec={"function": {"no": "text"}}, created_at=NOON),
        ],
    )

    assert await find_ids(store, type="task", function="python://p/f:f1") == ["t2", "t1"]
    assert await find_ids(store, type="task", function="python://p/f:f1", kind="python+job") == ["t1"]
    assert await find_ids(store, type="task", function="python://p/f:f1", kind="job") == []
    assert await find_ids(store, type="task", function="python://p/f") == ["t3", "t2", "t1"]
    assert await find_ids(store, type="task", workflow="hera://p/w") == ["t5"]
    assert await find_ids(store, type="task", workflow="hera://p/w:w1") == ["t5"]
    assert await find_ids(store, type="task", action="job") == ["t4", "t3", "t1"]


async def test_labels_follow_when_an_entity_is_replaced(store: Store) -> None:
    entity = make_entity("f1", metadata={"labels": ["a", "b"]})
    await add(store, [entity])
    async with store.begin() as work:
        await work.entities.replace(replace(entity, metadata={"labels": ["b", "c"]}))
        await work.commit()

    found = [await find_ids(store, labels=(label,)) for label in ("a", "b", "c")]
    assert found == [[], ["f1"], ["f1"]]


async def test_names_are_told_once_when_they_have_versions(store: Store) -> None:
    await add(store, [make_entity("f1", name="b"), make_entity("f2", name="a"), make_entity("f3", name="a")])
    await add(store, [make_entity("f4", name="c", project="other")])
    async with store.begin(is_read_only=True) as work:
        assert list(await work.entities.list_names("function", project="p")) == ["a", "b"]
        assert list(await work.entities.list_names("secret", project="p")) == []


async def test_labels_of_a_project_are_told_once_when_several_have_them(store: Store) -> None:
    await add(store, [make_entity(f"f{n}", metadata={"labels": ["x", f"gpu{n}"]}) for n in range(2)])
    await add(store, [make_entity("f9", project="other", metadata={"labels": ["theirs"]})])
    async with store.begin(is_read_only=True) as work:
        assert list(await work.entities.list_labels("p")) == ["gpu0", "gpu1", "x"]
        assert list(await work.entities.list_labels("p", containing="gpu", limit=1)) == ["gpu0"]


async def test_pages_hold_every_entity_once_when_they_are_short_because_one_is_large(store: Store) -> None:
    small = [make_entity(f"f{n:02}", name=f"n{n}", created_at=after(n)) for n in range(10)]
    await add(store, [*small, make_entity("large", name="large", spec={"code": "a" * 20_000})])

    found, query = [], Query(type="function", project="p", size=1000, most_bytes=70_000)
    for number in range(5):
        async with store.begin(is_read_only=True) as work:
            page = await work.entities.find_page(replace(query, page=number))
        assert (page.total, page.size) == (11, 3)
        found.append([entity.id for entity in page.content])

    assert [len(ids) for ids in found] == [3, 3, 3, 2, 0]
    assert sorted(chain.from_iterable(found)) == [*(f"f{n:02}" for n in range(10)), "large"]


async def test_pages_stay_short_when_the_large_entity_becomes_small_or_is_deleted(store: Store) -> None:
    query = Query(type="function", project="p", size=1000, most_bytes=70_000)
    large = make_entity("large", spec={"code": "a" * 20_000})
    await add(store, [large, make_entity("f1", name="g")])
    assert await find_size(store, query) == 3

    async with store.begin() as work:
        await work.entities.replace(replace(large, spec={}))
        await work.commit()
    assert await find_size(store, query) == 3
    async with store.begin() as work:
        await work.entities.delete("function", "large", project="p")
        await work.commit()
    assert await find_size(store, query) == 3


async def test_pages_become_shorter_when_an_entity_grows(store: Store) -> None:
    query = Query(type="function", project="p", size=1000, most_bytes=70_000)
    entity = make_entity("f1", name="g")
    await add(store, [entity])
    assert await find_size(store, query) == 17
    for characters, size in ((20_000, 3), (40_000, 1), (100_000, 1)):
        async with store.begin() as work:
            await work.entities.replace(replace(entity, status={"text": "a" * characters}))
            await work.commit()
        assert await find_size(store, query) == size


async def test_pages_are_long_when_the_large_entity_is_in_another_list(store: Store) -> None:
    await add(store, [make_entity("large", spec={"code": "a" * 20_000}), make_entity("f1", name="g", project="other")])
    most = 70_000
    assert await find_size(store, Query(type="function", project="other", size=10, most_bytes=most)) == 10
    assert await find_size(store, Query(type="artifact", project="p", size=10, most_bytes=most)) == 10
    assert await find_size(store, Query(type="function", size=10, most_bytes=most)) == 3
    assert await find_size(store, Query(type="function", project="p", size=10)) == 10


async def test_pages_are_long_again_when_the_project_is_deleted(store: Store) -> None:
    await add(store, [make_entity("large", spec={"code": "a" * 20_000})])
    async with store.begin() as work:
        await work.entities.delete_project("p")
        await work.commit()
    assert await find_size(store, Query(type="function", project="p", size=10, most_bytes=70_000)) == 10


async def test_summary_has_metadata_only_when_it_is_asked_for(store: Store) -> None:
    entity = make_entity("f1", metadata={"b": 1}, extensions=({"a": 1},))
    await add(store, [entity])
    async with store.begin(is_read_only=True) as work:
        (found,) = (await work.entities.find_page(Query(type="function", is_summary=True))).content
        (bare,) = (await work.entities.find_page(Query(type="function", is_without_documents=True))).content
    assert found == replace(entity, spec={}, status={}, extensions=())
    assert bare == replace(found, metadata={})


async def find_size(store: Store, query: Query) -> int:
    """How many entities a page has."""
    async with store.begin(is_read_only=True) as work:
        return (await work.entities.find_page(query)).size
