"""The origin guard: headers of every response, and the defence of open mode against DNS rebinding and CSRF."""

from pathlib import Path
from typing import Any

import httpx2

from tests.http_servers import serve

HOSTS: list[Any] = [
    ("localhost", 200),
    ("localhost:1", 200),
    ("LOCALHOST:8080", 200),
    ("127.0.0.1:8080", 200),
    ("[::1]:8080", 200),
    ("[::1]", 200),
    ("localhost.evil.example", 403),
    ("evil.example", 403),
    ("127.0.0.1.evil.example:8080", 403),
    ("0.0.0.0:8080", 403),
    ("[::1", 403),
    ("", 403),
]
ORIGINS: list[Any] = [
    ("http://localhost:8080", 200),
    ("https://localhost:8080", 200),
    ("http://localhost", 403),
    ("http://localhost:9000", 403),
    ("http://127.0.0.1:8080", 403),
    ("https://evil.example", 403),
    ("null", 403),
    ("", 403),
    ("http://[", 403),
    ("file://", 403),
    ("http://localhost:8080@evil.example", 403),
]


async def test_only_our_own_names_are_answered_when_there_are_no_accounts(client: httpx2.AsyncClient) -> None:
    for host, status in HOSTS:
        assert (await client.get("/healthz", headers={"Host": host})).status_code == status, host


async def test_only_our_own_pages_are_answered_when_there_are_no_accounts(client: httpx2.AsyncClient) -> None:
    for origin, status in ORIGINS:
        answer = await client.get("/api/v1/projects", headers={"Host": "localhost:8080", "Origin": origin})
        assert answer.status_code == status, origin
        if status == 403:
            assert set(answer.json()) == {"status", "message", "errorCode", "errors", "request_id"}


async def test_other_sites_are_refused_when_a_browser_names_them(client: httpx2.AsyncClient) -> None:
    for site, status in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]:
        answer = await client.get("/api/v1/projects", headers={"Sec-Fetch-Site": site})
        assert answer.status_code == status, site


async def test_any_name_is_answered_when_there_are_accounts(tmp_path: Path) -> None:
    async with serve(tmp_path, is_open=False) as server, server.client() as client:
        headers = {"Host": "runyard.example", "Origin": "https://console.example", "Sec-Fetch-Site": "cross-site"}
        assert (await client.get("/healthz", headers=headers)).status_code == 200


async def test_every_answer_carries_the_level_of_the_api_when_it_is_an_answer(demo: httpx2.AsyncClient) -> None:
    answers = [
        await demo.get("/api/v1/projects/demo"),
        await demo.get("/api/v1/projects/none"),
        await demo.get("/nothing/here"),
        await demo.post("/api/v1/projects", content=b"{", headers={"Content-Type": "application/json"}),
        await demo.get("/healthz", headers={"Host": "evil.example"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 404, 404, 400, 403]
    for answer in answers:
        assert 15 <= int(answer.headers["X-Api-Level"]) <= 20
        assert answer.headers["X-Api-Version"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"]
        assert answer.headers["Content-Type"] == "application/json"


async def test_nothing_is_kept_by_caches_when_it_is_a_secret(demo: httpx2.AsyncClient) -> None:
    await demo.post("/api/v1/-/demo/secrets", json={"kind": "secret", "name": "token"})
    await demo.put("/api/v1/-/demo/secrets/data", json={"token": "x"})
    answer = await demo.get("/api/v1/-/demo/secrets/data", params={"keys": "token"})
    assert answer.headers["Cache-Control"] == "no-store"
