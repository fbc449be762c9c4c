"""Known values of secrets, passwords and tokens go through everything, and are found nowhere but where they belong."""

import base64
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote, quote_plus

import asyncpg  # type: ignore[import-untyped]
import httpx2
import pytest

from tests.core_process import CoreProcess, call_runyard, make_client, run_core
from tests.integration.core.conftest import Place, fill, make_run

SECRET = 'canary-sécret-Zx7 "quoted" <&>\\ +%\ttwo\nlines'
OLDER = "canary-older-value-Kq41"
REFUSED = "canary-refused-value-Wm93"
PASSWORD = "canary-password-Hg28 ü&="
WRONG = "canary-wrong-password-Ty55"
DATA = "/api/v1/-/demo/secrets/data"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
PERSONAL = "urn:ietf:params:oauth:token-type:pat"


@pytest.fixture
def guarded(place: Place) -> Iterator[CoreProcess]:
    """A server with accounts that logs everything it can."""
    made = call_runyard(
        *("user", "create", "ada", "--admin", "--password-stdin"), environment=place.environment, given=f"{PASSWORD}\n"
    )
    assert made.code == 0, made.err
    arguments = ("--auth", "accounts", "--log-level", "debug", "--log-format", "json")
    program = (sys.executable, "-m", "tests.integration.core.faulty")
    with run_core(*arguments, folder=place.folder, environment=place.environment, program=program) as core:
        yield core


async def test_known_values_are_found_nowhere_when_everything_was_used(
    guarded: CoreProcess, place: Place, engine: str
) -> None:
    seen: list[bytes] = []
    tokens: list[str] = []
    async with make_client(guarded.url, user=("ada", PASSWORD), event_hooks={"response": [keep_in(seen)]}) as client:
        await fill(client)
        await use_secrets(client)
        tokens = await use_tokens(client)
        await use_wrongly(client, tokens)
        await read_everything(client)
        await client.post("/api/v1/-/demo/secrets", json={"kind": "secret", "name": "broken"})
        for answer in (
            await client.put(DATA, json={"token": SECRET, "broken": SECRET}),
            await client.get(DATA, params={"keys": "token,on-fire"}),
        ):
            assert (answer.status_code, answer.json()["errorCode"]) == (500, "internal")
        backup = place.folder / "backup"
        taken = call_runyard("db", "backup", str(backup), environment=place.environment)
        assert taken.code == 0, taken.err
        rows = await dump(place, engine)
        await drop_tables(place, engine, "secrets", "audit")
        for answer in (
            await client.put(DATA, json={"token": SECRET}),
            await client.get(DATA, params={"keys": "token"}),
            await client.post("/api/v1/-/demo/secrets", json={"kind": "secret", "name": "third"}),
        ):
            assert answer.status_code >= 500
            assert "runyard.db" not in answer.text
            assert "127.0.0.1" not in answer.text
    log = guarded.read_errors().encode()
    assert b"Traceback" in log
    places: dict[str, bytes] = {
        "answers": b"\n".join(seen),
        "log": log + guarded.read_output().encode(),
        "commands": (taken.out + taken.err).encode(),
        "backup": backup.read_bytes(),
        "rows": rows,
    }
    kept = [path for path in place.folder.rglob("*") if path.is_file() and path.name not in ("key", "backup")]
    assert any(path.name.startswith("logs.db") for path in kept)
    places |= {str(path): path.read_bytes() for path in kept}
    known = [SECRET, OLDER, REFUSED, PASSWORD, WRONG, "p@ss-word", "p%40ss-word", *tokens]
    assert find_leaks(places, known) == []
    # That they would be found: the one place where they belong has them.
    assert find_leaks({"data": json.dumps({"token": SECRET}).encode()}, known) != []


def keep_in(seen: list[bytes]) -> Any:
    """A hook that keeps answers, but for those that are there to give the values."""

    async def keep(answer: httpx2.Response) -> None:
        await answer.aread()
        path = answer.request.url.path
        gives_values = answer.status_code == 200 and (
            (path == DATA and answer.request.method == "GET")
            or path == "/auth/token"
            or (path == "/api/v1/tokens/personal" and answer.request.method == "POST")
        )
        # Whoever puts a token into an address is told so with that address: nobody else sees it.
        is_echo = path.startswith(("/nowhere/", "/api/v1/tokens/personal/"))
        if not gives_values and not is_echo:
            seen.append(answer.content + repr(answer.headers.multi_items()).encode())

    return keep


async def use_secrets(client: httpx2.AsyncClient) -> None:
    """Store, replace and read a value, and name it in runs; a value at every wrong place."""
    context = "/api/v1/-/demo"
    assert (await client.post(f"{context}/secrets", json={"kind": "secret", "name": "token"})).status_code == 200
    for value in (OLDER, SECRET):
        assert (await client.put(DATA, json={"token": value})).status_code == 200
    assert (await client.get(DATA, params={"keys": "token"})).json() == {"token": SECRET}
    run = make_run("demo", "r1")
    run["spec"]["secrets"] = ["token"]
    for path in ("runs/explain", "runs"):
        assert (await client.post(f"{context}/{path}", json=run)).status_code == 200
    await client.post(f"{context}/runs/r1/stop")
    for wrong in ({"tokken": REFUSED}, {"token": [REFUSED]}, {"token": {REFUSED: REFUSED}}, [REFUSED], REFUSED):
        assert (await client.put(DATA, json=wrong)).status_code == 400
    for kind, text in (
        ("application/json", f'{{"token": "{REFUSED}'),
        ("application/json", f'{{"token": "{REFUSED}", "token": "{REFUSED}"}}'),
        ("application/json", f'{{"token": {REFUSED}}}'),
        ("application/json", f'{{"token": "{REFUSED}\\u0000"}}'),
        ("application/x-yaml", f'token: "{REFUSED}'),
        ("application/x-yaml", f"token: !!python/object {REFUSED}"),
        ("application/x-yaml", f"token: {REFUSED}: x\n  - {REFUSED}"),
        ("application/x-yaml", f"- {REFUSED}"),
        ("text/plain", REFUSED),
    ):
        answer = await client.put(DATA, content=text.encode(), headers={"Content-Type": kind})
        assert 400 <= answer.status_code < 500, (kind, text)


async def use_tokens(client: httpx2.AsyncClient) -> list[str]:
    """Every kind of token, made, used and refused; their texts."""
    personal = (await client.post("/api/v1/tokens/personal", json={"name": "laptop"})).json()["value"]
    form = {"grant_type": EXCHANGE, "subject_token": personal, "subject_token_type": PERSONAL, "scope": "credentials"}
    first = (await client.post("/auth/token", data=form)).json()
    refreshing = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    second = (await client.post("/auth/token", data=refreshing)).json()
    assert (await client.post("/auth/token", data=refreshing)).status_code == 400
    tokens = [personal, first["access_token"], first["refresh_token"], second["access_token"], second["refresh_token"]]
    for token in tokens:
        for header in (f"Bearer {token}", f"Token {token}", token, f"Bearer {token}x"):
            await client.get("/api/auth", headers={"Authorization": header}, auth=None)
        await client.post("/auth/token", data={**form, "subject_token": f"{token}x"})
        await client.get(f"/api/v1/tokens/personal/{token}")
        await client.get("/api/v1/projects", params={"access_token": token})
    return tokens


async def use_wrongly(client: httpx2.AsyncClient, tokens: list[str]) -> None:
    """What people do: wrong passwords, a password as the name, broken headers, a token in the address."""
    for name, password in (("ada", WRONG), (WRONG, WRONG), (PASSWORD, "ada"), ("ada", f"{PASSWORD}x")):
        answer = await client.get("/api/auth", auth=(name, password))
        assert answer.status_code in (401, 429)
    broken = base64.b64encode(PASSWORD.encode()).decode()
    for header in (f"Basic {broken}", f"Basic {PASSWORD!a}", f"Digest {broken}"):
        assert (await client.get("/api/auth", headers={"Authorization": header}, auth=None)).status_code == 401
    await client.get(f"/nowhere/{tokens[0]}", headers={"X-Request-Id": tokens[0], "Cookie": f"session={tokens[1]}"})


async def read_everything(client: httpx2.AsyncClient) -> None:
    """Whatever can be read."""
    context = "/api/v1/-/demo"
    for path in (
        *("/openapi.json", "/metrics", "/readyz", "/api/v1/audit?limit=1000", "/api/v1/projects/demo"),
        *(f"{context}/{plural}" for plural in ("runs", "secrets", "functions", "tasks", "labels")),
        *(f"{context}/runs/r1{more}" for more in ("", "/effective", "/events", "/log", "/logs", "/metrics")),
        *("/.well-known/configuration", "/auth/jwks", "/api/v1/tokens/personal", f"{context}/solr/search/item?q=token"),
    ):
        assert (await client.get(path)).status_code == 200, path


async def dump(place: Place, engine: str) -> bytes:
    """Every row of every table, as text."""
    if engine == "sqlite":
        with closing(sqlite3.connect(place.database.removeprefix("sqlite:///"))) as connection:
            return "\n".join(connection.iterdump()).encode()
    postgres = await asyncpg.connect(place.database)
    tables = await postgres.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    rows = [
        row["row"] for (table,) in tables for row in await postgres.fetch(f'SELECT t::text AS row FROM "{table}" AS t')
    ]
    await postgres.close()
    return "\n".join(rows).encode()


async def drop_tables(place: Place, engine: str, *names: str) -> None:
    """A fault behind the server's back: what it does with them now fails with an error that nobody foresaw."""
    statements = [f"DROP TABLE {name}" for name in names]
    if engine == "sqlite":
        with closing(sqlite3.connect(place.database.removeprefix("sqlite:///"))) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()
        return
    postgres = await asyncpg.connect(place.database)
    for statement in statements:
        await postgres.execute(statement)
    await postgres.close()


def find_leaks(places: dict[str, bytes], known: list[str]) -> list[tuple[str, bytes]]:
    """Where one of them stands, in whatever writing, with what is around it."""
    return [
        (place, content[max(0, content.index(form) - 200) : content.index(form) + 40])
        for place, content in places.items()
        for text in known
        for form in write_in_all_ways(text)
        if form in content
    ]


def write_in_all_ways(text: str) -> set[bytes]:
    """Raw, escaped for JSON, Python and addresses, and in Base64 at each of its three positions."""
    raw = text.encode()
    forms = {raw, json.dumps(text)[1:-1].encode(), json.dumps(text, ensure_ascii=False)[1:-1].encode()}
    forms |= {json.dumps(form.decode())[1:-1].encode() for form in tuple(forms)}
    forms |= {repr(text)[1:-1].encode(), quote(text).encode(), quote(text, safe="").encode(), quote_plus(text).encode()}
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + raw)
        # The first and last characters mix with what stands beside.
        forms |= {whole[4 if before else 0 : -4], whole[4 if before else 0 : -4].translate(_URL_SAFE)}
    return forms


_URL_SAFE = bytes.maketrans(b"+/", b"-_")
