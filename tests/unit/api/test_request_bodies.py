"""What a body may be, and that nothing else gets in or brings the server down."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.api.context import Limits
from runyard.api.request_bodies import MOST_VALUES
from tests.http_servers import serve

FUNCTIONS = "/api/v1/-/demo/functions"
HEADERS = {"Content-Type": "application/json"}
YAML = {"Content-Type": "application/x-yaml"}


async def post(client: httpx2.AsyncClient, content: bytes | str, headers: dict[str, str] | None = None) -> Any:
    data = content.encode() if isinstance(content, str) else content
    return await client.post(FUNCTIONS, content=data, headers=headers or HEADERS)


def make_function(spec: str, *, name: str = "f") -> str:
    """A function of a foreign kind, whose spec is kept as it is."""
    return f'{{"kind": "dbt", "name": "{name}", "id": "{name}", "spec": {spec}}}'


WRONG: list[Any] = [
    (b"", "the body is not JSON"),
    (b"{", "line 1, column 2"),
    (b'{"kind": NaN}', "NaN is not a number in JSON"),
    (b'{"kind": Infinity}', "Infinity is not a number in JSON"),
    (b'{"kind": 1e999}', "the number 1e999 is too large"),
    (b'{"a": 1, "a": 2}', "the key `a` is there twice"),
    (b'{"kind": "\xe9"}', "it is not UTF-8"),
    ('{"kind": "x"}'.encode("utf-16"), "it is not UTF-8"),
    (b'{"kind": "\xed\xa0\x80"}', "it is not UTF-8"),
    (b'{"kind": "\\ud800"}', "unpaired surrogate"),
    (b'{"kind": "\\u0000"}', "zero byte"),
    (b'{"\\u0000": 1}', "zero byte"),
    (b'{"kind": "a\x00"}', "Invalid control character"),
    (b"[" * 50_000, "nested too deeply"),
    (b"[" * 100 + b"]" * 100, "nested in more than"),
    (b'{"kind": ' + b"9" * 5000 + b"}", "the body is not JSON"),
    (b"[]", "must be a mapping"),
    (b"null", "must be a mapping"),
    (b'"text"', "must be a mapping"),
]


async def test_body_is_refused_when_it_is_not_a_document_that_can_be_kept(demo: httpx2.AsyncClient) -> None:
    for content, words in WRONG:
        answer = await post(demo, content)
        assert (answer.status_code, answer.json()["errorCode"]) == (400, "refused")
        assert words in answer.json()["message"]
        assert len(answer.text) < 2000


async def test_key_is_named_at_once_when_one_of_very_many_is_there_twice(demo: httpx2.AsyncClient) -> None:
    pairs = ", ".join(f'"k{number}": 0' for number in [*range(70_000), 69_999])
    answer = await post(demo, f"{{{pairs}}}")
    assert "the key `k69999` is there twice" in answer.json()["message"]


async def test_body_is_refused_before_it_is_parsed_when_it_has_too_many_values(demo: httpx2.AsyncClient) -> None:
    answer = await post(demo, f"[{'{},' * 1_000_000}")
    assert answer.json()["errors"] == [
        {
            "code": "body.values",
            "path": "",
            "message": "the body has too many values",
            "allowed": f"at most {MOST_VALUES}",
        }
    ]


async def test_body_is_read_when_it_has_a_byte_order_mark(demo: httpx2.AsyncClient) -> None:
    assert (await post(demo, b"\xef\xbb\xbf" + make_function("{}").encode())).status_code == 200


async def test_spec_comes_back_as_it_was_sent_when_its_numbers_and_texts_are_strange(demo: httpx2.AsyncClient) -> None:
    spec = {
        "big": 10**300,
        "small": -(2**63),
        "float": 1e-300,
        "exact": 0.1,
        "text": "äß€😀\u0085\u2028",
        "": "empty key",
        "nested": [[[{"a": [1, "2", True, False]}]]],
    }
    answer = await post(demo, make_function(json.dumps(spec)))
    assert answer.json()["spec"] == spec
    assert (await demo.get(f"{FUNCTIONS}/f")).json()["spec"] == spec


async def test_depth_is_bounded_when_a_spec_is_nested(demo: httpx2.AsyncClient) -> None:
    deepest = "[" * 59 + "]" * 59
    assert (await post(demo, make_function(f'{{"a": {deepest}}}'))).status_code == 200
    answer = await post(demo, make_function(f'{{"a": [{deepest}]}}', name="g"))
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "too.deep")


@pytest.mark.parametrize(("size", "status"), [(4 << 20, 200), ((4 << 20) + 1, 413)])
async def test_body_is_bounded_when_it_is_large(demo: httpx2.AsyncClient, size: int, status: int) -> None:
    frame = make_function('{"text": ""}')
    body = make_function(json.dumps({"text": "x" * (size - len(frame))}))
    assert len(body) == size
    answer = await post(demo, body)
    assert answer.status_code == status
    if status == 413:
        assert answer.json()["errorCode"] == "http.413"


TYPES: list[Any] = [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jso"]


async def test_body_is_refused_when_its_type_is_another(demo: httpx2.AsyncClient) -> None:
    for content_type in TYPES:
        headers = {} if content_type is None else {"Content-Type": content_type}
        answer = await demo.post(FUNCTIONS, content=b"{}", headers=headers)
        assert answer.status_code == 415
        assert answer.json()["errors"] == []


async def test_parameters_of_the_content_type_are_fine_when_they_are_there(demo: httpx2.AsyncClient) -> None:
    answer = await post(demo, make_function("{}"), {"Content-Type": "Application/JSON; charset=utf-8"})
    assert answer.status_code == 200


async def test_yaml_is_read_when_it_is_said(demo: httpx2.AsyncClient) -> None:
    text = "kind: dbt\nname: f\nid: f\nspec:\n  a: &x [1, no, 1.10]\n  b: text\n"
    answer = await post(demo, text.replace("&x ", ""), YAML)
    assert answer.status_code == 200, answer.text
    assert answer.json()["spec"]["b"] == "text"


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{chr(98 + level)}: &{chr(98 + level)} [{','.join([f'*{chr(97 + level)}'] * 9)}]" for level in range(12)
)


HOSTILE: list[Any] = [
    BOMB,
    "a: &a [*a]",
    "kind: a\nkind: b",
    "---\nkind: a\n---\nkind: b",
    "",
    "!!python/object/apply:os.system ['true']",
    'kind: "\\0"',
    'kind: "\\ud800"',
    "kind: .nan",
    "spec: {a: .inf}\nkind: dbt\nname: f",
    "{" * 5000,
    "- " * 5000,
    "kind: [",
    "\xff\xfe",
    "spec: {a: 0x" + "f" * 5000 + "}\nkind: dbt\nname: f",
    "spec: {a: " + "9" * 5000 + "}\nkind: dbt\nname: f",
    "? [a]\n: b",
]


async def test_yaml_is_refused_when_it_is_hostile(demo: httpx2.AsyncClient) -> None:
    for text in HOSTILE:
        answer = await post(demo, text, YAML)
        assert answer.status_code == 400, answer.text
        assert answer.json()["errors"]
        assert len(answer.text) < 20_000


async def test_yaml_is_bounded_when_it_is_large(demo: httpx2.AsyncClient) -> None:
    answer = await post(demo, b"a: " + b"x" * (1 << 18), YAML)
    assert (answer.status_code, answer.json()["errorCode"]) == (413, "http.413")


async def test_every_body_is_read_when_many_come_as_yaml_at_once(demo: httpx2.AsyncClient) -> None:
    bodies = [f"kind: dbt\nname: f\nid: g{number}\n" for number in range(10)]
    answers = await asyncio.gather(*(post(demo, body, YAML) for body in bodies))
    assert [answer.status_code for answer in answers] == [200] * 10


async def test_value_is_not_shown_when_the_body_of_a_secret_cannot_be_read(demo: httpx2.AsyncClient) -> None:
    for headers, body in (
        (YAML, "token: *c4n4ry"),
        (YAML, "token: !c4n4ry x"),
        (HEADERS, '{"token": 4e4444}'),
        (HEADERS, '{"c4n4ry": 1, "c4n4ry": 2}'),
    ):
        answer = await demo.put("/api/v1/-/demo/secrets/data", content=body.encode(), headers=headers)
        assert answer.json()["errors"][0]["code"] == "body.invalid"
        assert "c4n4ry" not in answer.text
        assert "4e4444" not in answer.text


async def test_request_is_given_up_when_its_body_stands_still(tmp_path: Path) -> None:
    async with serve(tmp_path, limits=Limits(body_seconds=0.05)) as server:
        sent: list[dict[str, Any]] = []
        scope = make_scope()
        parts = iter([{"type": "http.request", "body": b'{"kind"', "more_body": True}])
        never = asyncio.Event()

        async def receive() -> dict[str, Any]:
            part = next(parts, None)
            if part is None:
                await never.wait()
            assert part is not None
            return part

        async def send(message: Any) -> None:
            sent.append(message)

        await server.app(scope, receive, send)
    assert sent[0]["status"] == 408
    body = json.loads(sent[1]["body"])
    assert (body["status"], body["errorCode"], body["errors"]) == (408, "http.408", [])


async def test_request_goes_on_when_its_body_comes_in_many_parts(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        sent: list[dict[str, Any]] = []
        body = b'{"kind": "project", "name": "demo"}'
        parts = iter([{"type": "http.request", "body": bytes([byte]), "more_body": True} for byte in body])

        async def receive() -> dict[str, Any]:
            return next(parts, {"type": "http.request", "body": b"", "more_body": False})

        async def send(message: Any) -> None:
            sent.append(message)

        await server.app(make_scope("/api/v1/projects"), receive, send)
    assert sent[0]["status"] == 200


async def test_nothing_fails_when_the_client_goes_away_before_its_body_is_complete(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await server.app(make_scope("/api/v1/projects"), receive, send)
    assert sent[0]["status"] == 400


def make_scope(path: str = "/api/v1/projects") -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost:8080"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 5000),
        "server": ("localhost", 8080),
    }
