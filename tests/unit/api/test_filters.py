"""Filters of lists: exact where they are, and never ignored."""

from typing import Any

import httpx2
import pytest

BASE = "/api/v1/-/demo"


@pytest.fixture
async def filled(demo: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """Two functions more, three runs, labels."""
    made = [
        await demo.post(
            f"{BASE}/functions",
            json={"kind": "dbt", "name": "boxes", "id": "f2", "metadata": {"labels": ["a", "b", "a"]}},
        ),
        await demo.post(
            f"{BASE}/functions",
            json={
                "kind": "container",
                "name": "box",
                "id": "f3",
                "spec": {"image": "a:1"},
                "metadata": {"labels": ["a"]},
            },
        ),
        await demo.post(
            f"{BASE}/tasks", json={"kind": "container+job", "id": "t3", "spec": {"function": "container://demo/box:f3"}}
        ),
        *[
            await demo.post(
                f"{BASE}/runs", json={"kind": f"{kind}:run", "id": run, "name": name, "spec": {"task": task}}
            )
            for run, name, kind, task in (
                ("r1", "one", "container+job", "container+job://demo/t1"),
                ("r2", "two", "container+serve", "container+serve://demo/t2"),
                ("r3", "three", "container+job", "container+job://demo/t3"),
            )
        ],
    ]
    assert [answer.status_code for answer in made] == [200] * 6, [answer.text for answer in made]
    return demo


async def find(client: httpx2.AsyncClient, plural: str, **params: Any) -> list[str]:
    answer = await client.get(f"{BASE}/{plural}", params={"sort": "id,asc", **params})
    assert answer.status_code == 200, answer.text
    return [one["id"] for one in answer.json()["content"]]


RUNS: list[Any] = [
    ({}, ["r1", "r2", "r3"]),
    ({"kind": "container+job:run"}, ["r1", "r3"]),
    ({"kind": "container+job"}, []),
    ({"kind": "job"}, []),
    ({"name": "one"}, ["r1"]),
    ({"name": "on"}, []),
    ({"q": "TW"}, ["r2"]),
    ({"q": "box:f3"}, ["r3"]),
    ({"q": "%"}, []),
    ({"state": "READY"}, ["r1", "r2", "r3"]),
    ({"state": "COMPLETED"}, []),
    ({"task": "container+job://demo/t1"}, ["r1"]),
    ({"task": "container+job://demo/t"}, []),
    ({"function": "container://demo/box:f1"}, ["r1", "r2"]),
    ({"function": "container://demo/box"}, ["r1", "r2", "r3"]),
    ({"function": "container://demo/bo"}, []),
    ({"workflow": "hera://demo/box"}, []),
    ({"action": "serve"}, ["r2"]),
    ({"action": "serv"}, []),
    ({"user": "nobody"}, []),
    ({"created": "2000-01-01T00:00:00Z"}, ["r1", "r2", "r3"]),
    ({"created": "2000-01-01T00:00:00Z,2001-01-01T00:00:00Z"}, []),
    ({"updated": ",2001-01-01T00:00:00Z"}, []),
    ({"function": "container://demo/box:f1", "action": "job", "state": "READY"}, ["r1"]),
]


async def test_runs_are_filtered_exactly_when_asked(filled: httpx2.AsyncClient) -> None:
    for params, expected in RUNS:
        assert await find(filled, "runs", **params) == expected


TASKS: list[Any] = [
    ({"function": "container://demo/box:f1"}, ["t1", "t2"]),
    ({"function": "container://demo/box:f1", "kind": "container+job"}, ["t1"]),
    ({"function": "container://demo/box:f1", "kind": "job"}, []),
    ({"function": "container://demo/box"}, ["t1", "t2", "t3"]),
]


async def test_tasks_are_filtered_exactly_when_asked(filled: httpx2.AsyncClient) -> None:
    for params, expected in TASKS:
        assert await find(filled, "tasks", **params) == expected


LABELS: list[Any] = [
    ("a", ["f2", "f3"]),
    ("a,b", ["f2"]),
    (["a", "b"], ["f2"]),
    ("b,c", []),
    ("A", []),
    ("a,,", ["f2", "f3"]),
]


async def test_all_labels_must_be_there_when_several_are_asked_for(filled: httpx2.AsyncClient) -> None:
    for labels, expected in LABELS:
        assert await find(filled, "functions", labels=labels) == expected


@pytest.mark.parametrize("name", ["function", "workflow", "task", "action"])
async def test_nothing_is_found_when_a_filter_cannot_hold_for_the_type(filled: httpx2.AsyncClient, name: str) -> None:
    assert await find(filled, "secrets", **{name: "x"}) == []
    assert await find(filled, "functions", **{name: "x"}) == []


async def test_projects_are_found_by_a_part_of_their_name_when_a_name_is_asked_for(filled: httpx2.AsyncClient) -> None:
    answer = await filled.get("/api/v1/projects", params={"name": "em"})
    assert [one["name"] for one in answer.json()["content"]] == ["demo"]


async def test_labels_of_the_project_are_listed_once_when_asked(filled: httpx2.AsyncClient) -> None:
    assert (await filled.get(f"{BASE}/labels")).json() == ["a", "b"]
    assert (await filled.get(f"{BASE}/labels", params={"label": "b"})).json() == ["b"]


async def test_labels_are_found_no_more_when_an_update_takes_them_away(filled: httpx2.AsyncClient) -> None:
    body = {"kind": "container", "name": "box", "id": "f3", "metadata": {"labels": ["c"]}}
    assert (await filled.put(f"{BASE}/functions/f3", json=body)).status_code == 200
    assert await find(filled, "functions", labels="c") == ["f3"]
    assert await find(filled, "functions", labels="a") == ["f2"]
