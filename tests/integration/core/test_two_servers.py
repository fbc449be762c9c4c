"""Two servers with accounts that start at once on one empty PostgreSQL: one schema, one key, one winner."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx2
import pytest

from tests.core_process import CoreProcess, call_runyard, make_client, run_core
from tests.postgres import Postgres

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
PERSONAL = "urn:ietf:params:oauth:token-type:pat"
PASSWORD = "correct horse battery staple"


@pytest.fixture(scope="module")
def servers(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[CoreProcess], str]]:
    """Both, and a personal token of the admin `ada`. They share the key's file, which neither finds."""
    folder = tmp_path_factory.mktemp("two")
    environment = {
        "RUNYARD_DATABASE": postgres.create_database(),
        "RUNYARD_AUTH": "accounts",
        "RUNYARD_KEY_FILE": str(folder / "key"),
        "RUNYARD_MAX_REQUESTS": "100000",
        "RUNYARD_ENDPOINT": "https://runyard.example.org",
    }
    with ExitStack() as stack:
        with ThreadPoolExecutor(2) as threads:
            started = [
                threads.submit(stack.enter_context, run_core(folder=folder / name, environment=environment))
                for name in ("a", "b")
            ]
        cores = [one.result() for one in started]
        words = ("user", "create", "ada", "--admin", "--password-stdin")
        made = call_runyard(*words, environment=environment, given=f"{PASSWORD}\n")
        assert made.code == 0, made.err
        token = call_runyard("user", "token", "ada", environment=environment)
        assert token.code == 0, token.err
        yield cores, token.out.split()[-1]


async def test_both_have_the_same_keys_when_they_start_at_once(servers: tuple[list[CoreProcess], str]) -> None:
    cores, _ = servers
    keys = []
    for core in cores:
        async with core.client() as client:
            keys.append((await client.get("/auth/jwks")).json()["keys"])
    assert keys[0] == keys[1]
    assert len(keys[0]) == 1


async def test_one_gets_tokens_that_end_at_once_when_many_use_the_same_refresh_token(
    servers: tuple[list[CoreProcess], str],
) -> None:
    cores, personal = servers
    async with make_client(cores[0].url) as first, make_client(cores[1].url) as second:
        clients = [first, second]
        for number in range(4):
            refresh = await sign_in(first, personal)
            form = {"grant_type": "refresh_token", "refresh_token": refresh}
            asked = [clients[(number + which) % 2].post("/auth/token", data=form) for which in range(10)]
            answers = await asyncio.gather(*asked)
            won = [answer.json() for answer in answers if answer.status_code == 200]
            assert len(won) == 1, [answer.text for answer in answers]
            assert {answer.json()["error"] for answer in answers if answer.status_code != 200} == {"invalid_grant"}
            # One of two that have the same token may be a thief: the whole family is revoked, on both servers.
            for client in clients:
                bearer = {"Authorization": f"Bearer {won[0]['access_token']}"}
                assert (await client.get("/auth/userinfo", headers=bearer)).status_code == 401
                again = {"grant_type": "refresh_token", "refresh_token": won[0]["refresh_token"]}
                assert (await client.post("/auth/token", data=again)).status_code == 400


async def test_tokens_of_one_server_are_good_at_the_other_when_they_share_a_database(
    servers: tuple[list[CoreProcess], str],
) -> None:
    cores, personal = servers
    async with make_client(cores[0].url) as first, make_client(cores[1].url) as second:
        refresh = await sign_in(first, personal)
        for client, other in ((second, first), (first, second)):
            form = {"grant_type": "refresh_token", "refresh_token": refresh}
            granted = (await client.post("/auth/token", data=form)).json()
            bearer = {"Authorization": f"Bearer {granted['access_token']}"}
            assert (await other.get("/auth/userinfo", headers=bearer)).json()["sub"] == "ada"
            refresh = granted["refresh_token"]


async def test_token_is_refused_by_both_when_it_was_revoked_at_one(servers: tuple[list[CoreProcess], str]) -> None:
    cores, personal = servers
    bearer = {"Authorization": f"Bearer {personal}"}
    async with make_client(cores[0].url) as first, make_client(cores[1].url) as second:
        address, asked = "/api/v1/tokens/personal", {"name": "other"}
        assert (await first.post(address, json=asked, headers=bearer)).status_code == 403
        made = (await first.post(address, json=asked, auth=("ada", PASSWORD))).json()
        other = {"Authorization": f"Bearer {made['value']}"}
        assert (await second.get("/api/auth", headers=other)).status_code == 200
        assert (await first.delete(f"/api/v1/tokens/personal/{made['id']}", headers=bearer)).status_code == 200
        for client in (first, second):
            assert (await client.get("/api/auth", headers=other)).status_code == 401


async def sign_in(client: httpx2.AsyncClient, personal: str) -> str:
    """A refresh token for a personal one."""
    form = {
        "grant_type": EXCHANGE,
        "subject_token": personal,
        "subject_token_type": PERSONAL,
        "scope": "offline_access",
    }
    answer = await client.post("/auth/token", data=form)
    assert answer.status_code == 200, answer.text
    refresh: str = answer.json()["refresh_token"]
    return refresh
