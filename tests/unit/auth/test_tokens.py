"""Requests with tokens: personal ones, access tokens, and those of runs."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from runyard.app.errors import Unauthenticated
from runyard.app.identity.accounts import delete_account, set_admin, set_disabled
from runyard.app.identity.personal_tokens import revoke_personal_token
from runyard.app.identity.sign_in import Grant
from runyard.app.model import Principal
from runyard.bootstrap import RUN_TOKEN_LIFE
from tests.contract.store.builders import make_run
from tests.unit.auth.world import ADDRESS, SYSTEM, World, open_world

ADA = Principal(name="ada", via="password")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        await opened.add_account("root", is_admin=True)
        await opened.add_account("ada")
        await opened.add_project("p", user="root", shares=[("ada", "editor")])
        yield opened


async def add_run(world: World, run_id: str = "r", **fields: object) -> None:
    async with world.store.begin() as unit:
        await unit.runs.add(make_run(run_id, **fields), [])
        await unit.commit()


async def end_run(world: World, state: str) -> None:
    async with world.store.begin() as unit:
        run = await unit.runs.find("r", project="p")
        assert run is not None
        await unit.runs.update(run, replace(run, state=state))
        await unit.commit()


async def test_principal_is_the_owner_when_a_personal_token_is_sent(world: World) -> None:
    whole, limited = await world.add_token("ada"), await world.add_token("ada", scopes=["read", "openid"])
    assert await world.send(whole.text) == Principal(name="ada", via="token", address=ADDRESS)
    assert (await world.send(limited.text)).scopes == frozenset({"read"})
    assert whole.text.startswith("ryp_")
    assert len(whole.text) == 47


async def test_personal_token_is_refused_when_it_is_changed_ended_or_revoked(world: World) -> None:
    created = await world.add_token("ada", life=timedelta(hours=1))
    for text in (created.text[:-1], created.text + "x", created.text.upper(), "ryp_", created.token.hash):
        with pytest.raises(Unauthenticated):
            await world.send(text)
    world.turn(hours=1)
    with pytest.raises(Unauthenticated, match="the personal token has expired or was revoked"):
        await world.send(created.text)
    other = await world.add_token("ada")
    await world.send(other.text)
    await revoke_personal_token(world.core, ADA, other.token.id)
    with pytest.raises(Unauthenticated, match="revoked"):
        await world.send(other.text)


async def test_use_is_noted_now_and_then_when_a_personal_token_is_sent(world: World) -> None:
    created = await world.add_token("ada")

    async def read_last_use() -> object:
        async with world.store.begin(is_read_only=True) as unit:
            stored = await unit.accounts.find_token(created.token.hash)
        assert stored is not None
        return stored.last_used_at

    first = world.at
    await world.send(created.text)
    world.turn(minutes=59)
    await world.send(created.text)
    assert await read_last_use() == first
    world.turn(minutes=1)
    await world.send(created.text)
    assert await read_last_use() == world.at


async def test_every_token_stops_at_once_when_the_account_is_disabled_or_deleted(world: World) -> None:
    await add_run(world)
    tokens = [
        (await world.add_token("ada")).text,
        (await world.issuer.issue(Grant(user="ada"))).text,
        (await world.issuer.issue_run_token(make_run("r"), timedelta(days=1))).text,
    ]
    for token in tokens:
        await world.send(token)
    await set_disabled(world.core, SYSTEM, "ada", is_disabled=True)
    for token in tokens:
        with pytest.raises(Unauthenticated, match="gone or disabled"):
            await world.send(token)
    await set_disabled(world.core, SYSTEM, "ada", is_disabled=False)
    for token in tokens:
        await world.send(token)
    await delete_account(world.core, SYSTEM, "ada")
    world.turn(minutes=1)
    await world.add_account("ada")
    for token in tokens:
        with pytest.raises(Unauthenticated):
            await world.send(token)


async def test_rights_are_those_of_now_when_an_account_is_no_longer_an_admin(world: World) -> None:
    await world.add_account("eve", is_admin=True)
    token = (await world.issuer.issue(Grant(user="eve"))).text
    assert (await world.send(token)).is_admin
    await set_admin(world.core, SYSTEM, "eve", is_admin=False)
    assert not (await world.send(token)).is_admin


async def test_access_token_is_limited_when_its_grant_was(world: World) -> None:
    signed = await world.issuer.issue(Grant(user="ada", scopes=frozenset({"read"})))
    who = await world.send(signed.text)
    assert (who.scopes, who.via) == (frozenset({"read"}), "jwt")


async def test_run_token_is_the_runs_alone_when_an_admin_started_it(world: World) -> None:
    await add_run(world, user="root")
    signed = await world.issuer.issue_run_token(make_run("r", user="root"), timedelta(days=1))
    assert await world.send(signed.text) == Principal(
        name="root", is_admin=False, run_id="r", run_uid="r", project="p", via="run", address=ADDRESS
    )


@pytest.mark.parametrize("state", ["COMPLETED", "ERROR", "STOPPED", "DELETING", "DELETED"])
async def test_run_token_ends_when_the_run_does(world: World, state: str) -> None:
    await add_run(world)
    token = (await world.issuer.issue_run_token(make_run("r"), timedelta(days=1))).text
    await world.send(token)
    await end_run(world, "STOP")
    await world.send(token)
    await end_run(world, state)
    with pytest.raises(Unauthenticated, match="run r has ended"):
        await world.send(token)


async def test_run_token_is_good_for_30_days_when_the_run_goes_on(world: World) -> None:
    await add_run(world)
    signed = await world.issuer.issue_run_token(make_run("r"), RUN_TOKEN_LIFE)
    world.turn(days=30, seconds=-1)
    await world.send(signed.text)
    world.turn(seconds=1)
    with pytest.raises(Unauthenticated, match="the token has expired: sign in again"):
        await world.send(signed.text)
    another = await world.issuer.issue_run_token(make_run("r"), RUN_TOKEN_LIFE)
    assert (await world.send(another.text)).run_id == "r"


async def test_run_token_is_refused_when_the_run_is_gone_or_elsewhere(world: World) -> None:
    await add_run(world)
    elsewhere = await world.issuer.issue_run_token(make_run("r", project="q"), timedelta(days=1))
    unknown = await world.issuer.issue_run_token(make_run("r2"), timedelta(days=1))
    for signed in (elsewhere, unknown):
        with pytest.raises(Unauthenticated):
            await world.send(signed.text)


async def test_way_is_told_when_a_refresh_token_is_sent_as_an_access_token(world: World) -> None:
    with pytest.raises(Unauthenticated, match="exchange it at the token endpoint"):
        await world.send("ryr_abc")
    with pytest.raises(Unauthenticated, match="credentials are needed"):
        await world.authenticator.authenticate(None, address=None)
