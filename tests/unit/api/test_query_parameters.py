"""Query strings are read strictly: every parameter is known, said once, and within its bounds."""

from typing import Any

import httpx2
import pytest
from starlette.datastructures import QueryParams

from runyard.api.context import Limits
from runyard.api.query_parameters import CASCADE, MOST_UNKNOWN, STRICT, read_parameters
from runyard.spec.problems import Refused

RUNS = "/api/v1/-/demo/runs"


WRONG: list[Any] = [
    ("pag=1", "parameter.unknown", "page"),
    ("vresions=all", "parameter.unknown", "versions"),
    ("zzz=1", "parameter.unknown", None),
    ("page=-1", "number.range", None),
    ("page=x", "number.invalid", None),
    ("page=1.5", "number.invalid", None),
    ("page=", "number.invalid", None),
    ("page=99999999999999999999", "number.range", None),
    ("page=1&page=2", "parameter.twice", None),
    ("size=0", "number.range", None),
    ("size=1001", "number.range", None),
    ("sort=creatd,desc", "value.option", "created"),
    ("sort=created,down", "value.option", None),
    ("sort=created;drop table runs", "value.option", None),
    ("&".join(["sort=name"] * 9), "size.entries", None),
    ("labels=" + ",".join(f"l{number}" for number in range(33)), "size.entries", None),
    ("versions=every", "value.option", None),
    ("kind=container+job:run", "value.space", "container%2Bjob:run"),
    ("task=container+job://demo/t1", "value.space", "container%2Bjob://demo/t1"),
    ("state=completed", "value.option", "COMPLETED"),
    ("state=XX", "value.option", None),
    ("created=yesterday", "time.invalid", None),
    ("created=2026-13-01T00:00:00Z", "time.invalid", None),
    ("created=2026-01-01T00:00:00Z,never", "time.invalid", None),
    ("updated=0001-01-01T00:00:00%2B14:00", "time.invalid", None),
    ("name=a%00b", "text.control", None),
    ("q=" + "x" * 1025, "text.long", None),
    ("kind=a&kind=b", "parameter.twice", None),
]


async def test_list_is_refused_when_a_parameter_is_wrong(demo: httpx2.AsyncClient) -> None:
    for query, code, suggestion in WRONG:
        answer = await demo.get(f"{RUNS}?{query}")
        assert answer.status_code == 400, answer.text
        (problem,) = answer.json()["errors"]
        assert (problem["code"], problem.get("suggestion")) == (code, suggestion)
        assert problem["path"].startswith("query")


async def test_every_parameter_is_named_when_several_are_wrong(demo: httpx2.AsyncClient) -> None:
    answer = await demo.get(f"{RUNS}?page=x&size=0&sort=no&created=no&state=no&versions=no&foo=1")
    assert len(answer.json()["errors"]) == 7
    assert len(answer.json()["message"].splitlines()) == 7


RIGHT: list[Any] = [
    "page=1&page=1",
    "name=",
    "created=2026-01-01",
    "created=2026-01-01T00:00:00+01:00",
    "created=2026-01-01T00:00:00%2B01:00,2027-01-01T00:00:00Z",
    "created=,2027-01-01T00:00:00Z",
    "created=9999-12-31T23:59:59Z",
    "sort=created,DESC",
    "sort=name&sort=id,asc",
    "labels=a,b&labels=c",
    "size=1000&page=2147483648",
    "q=%25",
    "kind=container%2Bjob:run",
    "task=container%2Bjob://demo/a%20b",
    "q=_",
    "q='%20or%201=1",
]


async def test_list_is_answered_when_the_parameters_are_right(demo: httpx2.AsyncClient) -> None:
    for query in RIGHT:
        answer = await demo.get(f"{RUNS}?{query}")
        assert answer.status_code == 200, answer.text
        assert answer.json()["content"] == []


@pytest.mark.parametrize(
    ("direction", "expected"),
    [("", ["t1", "t2"]), (",asc", ["t1", "t2"]), (",ASC", ["t1", "t2"])]
    + [(text, ["t2", "t1"]) for text in (",desc", ",DESC", ", Desc ")],
)
async def test_order_is_the_one_asked_for_when_a_direction_is_in_any_case(
    demo: httpx2.AsyncClient, direction: str, expected: list[str]
) -> None:
    answer = await demo.get("/api/v1/-/demo/tasks", params={"sort": f"id{direction}"})
    assert [one["id"] for one in answer.json()["content"]] == expected


async def test_parameter_cannot_be_read_when_its_route_does_not_declare_it() -> None:
    parameters = read_parameters(QueryParams("strict=true"), (STRICT,), limits=Limits())
    assert parameters[STRICT] is True
    with pytest.raises(KeyError):
        parameters[CASCADE]


REFUSED: list[Any] = [
    ("GET", "/api/v1/-/demo/functions/f1"),
    ("POST", "/api/v1/-/demo/functions"),
    ("PUT", "/api/v1/-/demo/functions/f1"),
    ("DELETE", "/api/v1/-/demo/functions/f1"),
    ("DELETE", "/api/v1/-/demo/functions"),
    ("GET", "/api/v1/projects/demo"),
    ("GET", "/api/v1/projects/demo/share"),
    ("GET", "/api/v1/-/demo/labels"),
    ("GET", "/api/v1/tokens/personal"),
    ("GET", "/api/v1/schemas/function"),
    ("GET", "/api/v1/schemas/function/python"),
    ("GET", "/auth/userinfo"),
    ("GET", "/api/auth"),
]


async def test_request_is_refused_when_a_parameter_is_not_known(demo: httpx2.AsyncClient) -> None:
    for method, path in REFUSED:
        answer = await demo.request(method, path, params={"strct": "true"})
        assert answer.status_code == 400
        assert "parameter.unknown" in [problem["code"] for problem in answer.json()["errors"]]
        assert (await demo.get("/api/v1/-/demo/functions/f1")).status_code == 200


async def test_flag_is_refused_when_it_is_neither_true_nor_false(demo: httpx2.AsyncClient) -> None:
    answer = await demo.delete("/api/v1/projects/demo", params={"cascade": "yes"})
    assert answer.json()["errors"][0]["allowed"] == "true, false"
    assert (await demo.get("/api/v1/projects/demo")).status_code == 200


async def test_address_is_refused_when_it_has_a_zero_byte(demo: httpx2.AsyncClient) -> None:
    for path in ("/api/v1/-/demo/functions/a%00b", "/api/v1/-/de%00mo/functions", "/api/v1/projects/%00"):
        answer = await demo.get(path)
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["code"] == "text.control"


async def test_only_that_version_is_answered_when_an_id_comes_with_a_name(demo: httpx2.AsyncClient) -> None:
    path = "/api/v1/-/demo/functions/f1"
    assert (await demo.get(path, params={"name": "box"})).status_code == 200
    answer = await demo.get(path, params={"name": "other"})
    assert answer.status_code == 404
    assert "No such EntityName" in answer.json()["message"]


@pytest.mark.parametrize(("given", "status"), [('"1"', 200), ('W/"1"', 200), ("*", 200), ('"2"', 412), ("x", 400)])
async def test_if_match_is_read_strictly_when_it_is_sent(demo: httpx2.AsyncClient, given: str, status: int) -> None:
    body: dict[str, Any] = {"kind": "container", "name": "box", "id": "f1"}
    answer = await demo.put("/api/v1/-/demo/functions/f1", json=body, headers={"If-Match": given})
    assert answer.status_code == status


def test_few_unknown_parameters_are_reported_when_a_query_has_thousands() -> None:
    query = QueryParams("&".join(f"k{number}" for number in range(5000)))
    with pytest.raises(Refused) as refused:
        read_parameters(query, (STRICT,), limits=Limits())
    first, *others = refused.value.problems
    assert (first.path, first.message) == (("query",), "has 5000 unknown parameters; the first 100 are listed")
    assert [problem.path for problem in others] == [("query", f"k{number}") for number in range(MOST_UNKNOWN)]
