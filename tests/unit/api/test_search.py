"""Search, in the words of the SDK."""

import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.api.context import Limits
from runyard.app.projects import search
from runyard.store import columns
from tests.http_servers import serve

SEARCH = "/api/v1/-/demo/solr/search/item"
ALWAYS = "metadata.updated:[* TO *]"


@pytest.fixture
async def filled(demo: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """Three functions (one with two versions), an artifact, a run."""
    made: list[tuple[str, dict[str, Any]]] = [
        ("functions", {"kind": "container", "name": "grow", "id": "g1", "metadata": {"labels": ["calm", "slow"]}}),
        ("functions", {"kind": "container", "name": "grow", "id": "g2", "metadata": {"description": "Makes LARGER"}}),
        ("functions", {"kind": "dbt", "name": "shrink", "id": "s1", "metadata": {"labels": ["calm"]}}),
        ("artifacts", {"kind": "artifact", "name": "weights", "id": "a1", "spec": {"path": "s3://b/w"}}),
        ("runs", {"kind": "container+job:run", "id": "r1", "spec": {"task": "container+job://demo/t1"}}),
    ]
    for plural, document in made:
        spec = {"spec": {"image": "busybox:1.36"}} if document["kind"] == "container" else {}
        answer = await demo.post(f"/api/v1/-/demo/{plural}", json={**document, **spec})
        assert answer.status_code == 200, answer.text
    return demo


async def _find(client: httpx2.AsyncClient, *filters: str, **parameters: Any) -> list[str]:
    answer = await client.get(SEARCH, params={"fq": [*filters, ALWAYS], **parameters})
    assert answer.status_code == 200, answer.text
    return [f"{item['type']}/{item['id']}" for item in answer.json()["content"]]


async def test_everything_is_found_newest_first_when_nothing_filters(filled: httpx2.AsyncClient) -> None:
    found = await _find(filled)
    assert found[:5] == ["run/r1", "artifact/a1", "function/s1", "function/g2", "function/g1"]
    assert sorted(found[5:]) == ["function/f1", "task/t1", "task/t2"]
    ordered = await _find(filled, sort="metadata.updated,ASC")
    assert ordered == found[::-1]


async def test_item_says_where_it_is_when_it_is_found(filled: httpx2.AsyncClient) -> None:
    page = (await filled.get(SEARCH, params={"fq": 'metadata.name:"weights"'})).json()
    assert (page["totalElements"], page["totalPages"]) == (1, 1)
    item = page["content"][0]
    assert item["key"] == "store://demo/artifact/artifact/weights:a1"
    assert (item["type"], item["name"], item["project"]) == ("artifact", "weights", "demo")
    assert "spec" not in item


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["type:(function)", 'kind:"dbt"'], ["function/s1"]),
        (["type:(artifact OR run)"], ["run/r1", "artifact/a1"]),
        (['metadata.name:"grow"'], ["function/g2", "function/g1"]),
        (["metadata.labels:(calm AND slow)"], ["function/g1"]),
        (["metadata.labels:(calm)"], ["function/s1", "function/g1"]),
        (['metadata.description:"larger"'], ["function/g2"]),
        (["type:function", 'metadata.name:"no-such-name"'], []),
        (["metadata.created:[2999-01-01T00:00:00Z TO *]"], []),
        (["metadata.created:[* TO 2020-01-01T00:00:00+01:00]"], []),
    ],
)
async def test_filters_hold_together_when_there_are_several(
    filled: httpx2.AsyncClient, filters: list[str], found: list[str]
) -> None:
    assert await _find(filled, *filters) == found


async def test_words_are_found_in_names_descriptions_and_labels_when_asked(filled: httpx2.AsyncClient) -> None:
    assert await _find(filled, q="WEIGH") == ["artifact/a1"]
    assert await _find(filled, q="larger makes") == ["function/g2"]
    assert await _find(filled, q="slow") == ["function/g1"]
    assert await _find(filled, "type:(run)", q="grow") == []


async def test_pages_follow_each_other_when_there_are_more_than_asked_for(filled: httpx2.AsyncClient) -> None:
    every = await _find(filled)
    pages = [await _find(filled, page=number, size=3, sort="metadata.updated,DESC") for number in range(4)]
    assert [one for page in pages for one in page] == every
    assert (await filled.get(SEARCH, params={"size": 3})).json()["totalPages"] == 3


async def test_work_is_bounded_and_said_when_the_project_is_large(
    filled: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_READ", 2)
    assert len(await _find(filled)) == 8
    monkeypatch.setattr(search, "MOST_FOUND", 3)
    answer = await filled.get(SEARCH, params={"size": 2, "page": 1})
    assert len(answer.json()["content"]) == 1
    assert (answer.json()["totalElements"], answer.json()["totalPages"]) == (3, 2)
    assert answer.headers["X-Search-Bounded"] == "the first 3 of 8 matches are served"
    assert (await filled.get(SEARCH, params={"page": 9})).json()["content"] == []
    monkeypatch.setattr(search, "MOST_SCANNED", 1)
    words = await filled.get(SEARCH, params={"q": "grow"})
    assert [item["id"] for item in words.json()["content"]] == ["g2", "g1"]
    assert "descriptions of 1 of 8" in words.headers["X-Search-Bounded"]


async def test_bound_is_said_when_more_match_the_words_than_are_served(
    filled: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_FOUND", 1)
    by_name = await filled.get(SEARCH, params={"q": "grow"})
    assert by_name.json()["totalElements"] == 1
    assert by_name.headers["X-Search-Bounded"] == (
        "the first 1 of 2 matches are served; 1 of 2 entities with the words in their id or name were searched"
    )
    by_label = await filled.get(SEARCH, params={"q": "calm"})
    assert by_label.headers["X-Search-Bounded"] == "the first 1 of 2 matches are served"
    assert "X-Search-Bounded" not in (await filled.get(SEARCH, params={"q": "slow"})).headers


async def test_end_of_the_labels_is_not_searched_when_they_are_long(filled: httpx2.AsyncClient) -> None:
    labels = ["early", *(f"{number:03}{'x' * 100}" for number in range(50)), "late"]
    long = {"kind": "artifact", "name": "long", "spec": {"path": "s3://b/w"}, "metadata": {"labels": labels}}
    assert (await filled.post("/api/v1/-/demo/artifacts", json=long)).is_success
    found = {word: await filled.get(SEARCH, params={"q": word}) for word in ("early", "late")}
    assert [len(answer.json()["content"]) for answer in found.values()] == [1, 0]
    for answer in found.values():
        assert answer.headers["X-Search-Bounded"] == "the first 4096 characters of longer labels were searched"


async def test_documents_are_parsed_off_the_event_loop_when_many_entities_are_searched(
    filled: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, parse = list[threading.Thread](), columns.JsonText.parse

    def note_thread(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return parse(*given)

    monkeypatch.setattr(columns.JsonText, "parse", note_thread)
    assert await _find(filled, q="larger") == ["function/g2"]
    # Three documents of the project itself, the metadata of eight entities, and that of the match, which is small.
    assert (threads.count(threading.main_thread()), len(threads)) == (4, 12)


@pytest.mark.parametrize("wanted", [{"fq": "type:(artifact)"}, {"q": "needle"}], ids=["filter", "words"])
async def test_pages_are_shorter_and_nothing_is_missed_when_matches_are_large(
    tmp_path: Path, wanted: dict[str, str]
) -> None:
    limits = Limits(page_bytes=100_000)
    async with serve(tmp_path, limits=limits) as server, server.client() as client:
        await _add_large(client, number=5, metadata={"description": "x" * 30_000})
        found, sizes, pages = list[str](), list[int](), 1
        while len(sizes) < pages:
            answer = await client.get(SEARCH, params={**wanted, "size": 1000, "page": len(sizes)})
            page = answer.json()
            pages = page["totalPages"]
            assert (page["totalElements"], page["size"], pages) == (5, 3, 2)
            assert len(answer.content) < limits.page_bytes
            sizes.append(page["numberOfElements"])
            found += [item["id"] for item in page["content"]]
        assert (sizes, found) == ([3, 2], ["needle-4", "needle-3", "needle-2", "needle-1", "needle-0"])
        assert not (await client.get(SEARCH, params={**wanted, "size": 1000, "page": 2})).json()["content"]


@pytest.mark.parametrize("wanted", [{"fq": "type:(artifact)"}, {"q": "needle"}], ids=["filter", "words"])
async def test_metadata_is_not_kept_when_a_page_has_one_of_many_matches(
    tmp_path: Path, wanted: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As objects, this metadata takes twenty times its bytes."""
    monkeypatch.setattr(search, "MOST_READ_BYTES", 1 << 16)
    async with serve(tmp_path) as server, server.client() as client:
        await _add_large(client, number=128, metadata={"x": [[]] * 900})
        tracemalloc.start()
        try:
            page = (await client.get(SEARCH, params={**wanted, "size": 1})).json()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (page["totalElements"], page["numberOfElements"]) == (128, 1)
    assert peak < 128 * 900 * sys.getsizeof([]) / 2


async def _add_large(client: httpx2.AsyncClient, *, number: int, metadata: dict[str, Any]) -> None:
    """A project with so many artifacts."""
    assert (await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})).is_success
    for index in range(number):
        name = f"needle-{index}"
        body = {"kind": "artifact", "name": name, "id": name, "spec": {"path": "s3://b/w"}, "metadata": metadata}
        assert (await client.post("/api/v1/-/demo/artifacts", json=body)).is_success


async def test_end_of_a_description_is_not_searched_when_it_is_long(filled: httpx2.AsyncClient) -> None:
    text = f"early {'x' * search.MOST_SEARCHED_CHARACTERS} late"
    long = {"kind": "artifact", "name": "long", "spec": {"path": "s3://b/w"}, "metadata": {"description": text}}
    assert (await filled.post("/api/v1/-/demo/artifacts", json=long)).is_success
    early = await filled.get(SEARCH, params={"q": "early"})
    assert [item["name"] for item in early.json()["content"]] == ["long"]
    late = await filled.get(SEARCH, params={"q": "late"})
    assert late.json()["content"] == []
    for answer in (early, late):
        assert answer.headers["X-Search-Bounded"] == "the first 4096 characters of longer descriptions were searched"


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"fq": "typ:(function)"}, "filter.unknown"),
        ({"fq": "function"}, "filter.unknown"),
        ({"fq": "type:(functions)"}, "value.option"),
        ({"fq": "type:(function AND run)"}, "filter.operator"),
        ({"fq": "metadata.labels:(a OR b)"}, "filter.operator"),
        ({"fq": "metadata.updated:[yesterday TO *]"}, "time.invalid"),
        ({"fq": "metadata.updated:2026"}, "filter.span"),
        ({"fq": 'metadata.name:""'}, "text.empty"),
        ({"fq": ["kind:a", "kind:b"]}, "filter.twice"),
        ({"fq": ["metadata.labels:(a)"] * 60}, "size.entries"),
        ({"fq": f"type:({' OR '.join(f't{number}' for number in range(60))})"}, "size.entries"),
        ({"sort": "spec.image,asc"}, "value.option"),
        ({"sort": "metadata.name,up"}, "value.option"),
        ({"sort": ["metadata.name", "kind"]}, "size.entries"),
        ({"size": "0"}, "number.range"),
        ({"page": "-1"}, "number.range"),
        ({"query": "x"}, "parameter.unknown"),
        ({"q": "x" * 2000}, "text.long"),
        ({"q": "a\0b"}, "text.control"),
        ({"q": " ".join("abcdefghijklmnopq")}, "size.entries"),
    ],
)
async def test_question_is_refused_when_it_cannot_be_read(
    demo: httpx2.AsyncClient, parameters: dict[str, Any], code: str
) -> None:
    answer = await demo.get(SEARCH, params=parameters)
    assert answer.status_code == 400, answer.text
    assert code in [one["code"] for one in answer.json()["errors"]]


async def test_near_filter_is_named_when_it_is_not_known(demo: httpx2.AsyncClient) -> None:
    answer = await demo.get(SEARCH, params={"fq": 'metadata.nam:"x"'})
    assert answer.json()["errors"][0]["suggestion"] == "metadata.name"


async def test_only_members_search_when_there_are_accounts(tmp_path: Path) -> None:
    async with serve(tmp_path, is_open=False) as server:
        await server.add_user("ada")
        await server.add_user("eve")
        async with server.client("ada") as ada, server.client("eve") as eve, server.client() as nobody:
            await ada.post("/api/v1/projects", json={"kind": "project", "name": "demo"})
            assert (await ada.get(SEARCH)).json()["content"] == []
            assert (await eve.get(SEARCH)).status_code == 403
            assert (await nobody.get(SEARCH)).status_code == 401
            assert (await ada.get(SEARCH.replace("demo", "none"))).status_code == 404
