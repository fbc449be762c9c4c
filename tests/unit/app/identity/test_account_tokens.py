"""Personal tokens of others: admins see and end them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runyard.app.errors import Forbidden, Missing, Unauthenticated
from runyard.app.identity.account_tokens import list_account_tokens, revoke_account_tokens
from runyard.app.identity.sign_in import EXCHANGE_GRANT, PERSONAL_TYPE, REFRESH_GRANT, GrantRefused, grant_token
from runyard.app.model import Principal
from tests.unit.auth.world import ADDRESS, World, open_world

ROOT = Principal(name="root", is_admin=True, via="password", address=ADDRESS)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        for name in ("ada", "bob"):
            await opened.add_account(name)
        yield opened


async def ask(world: World, **form: str) -> dict[str, str]:
    return await grant_token(
        world.core, world.issuer, world.authenticator, form, address=ADDRESS, admit=lambda _who: None
    )


async def test_tokens_are_listed_without_hashes_when_an_admin_asks(world: World) -> None:
    made = await world.add_token("ada", name="laptop", scopes=["read"])
    await world.add_token("bob")
    (listed,) = await list_account_tokens(world.core, ROOT, "ada")
    assert (listed.id, listed.name, listed.scopes, listed.hash) == (made.token.id, "laptop", ("read",), "")


async def test_session_ends_when_the_token_that_began_it_is_revoked(world: World) -> None:
    stolen, other = await world.add_token("ada"), await world.add_token("ada")
    form = {"subject_token": stolen.text, "subject_token_type": PERSONAL_TYPE, "scope": "offline_access"}
    granted = await ask(world, grant_type=EXCHANGE_GRANT, **form)
    (revoked,) = await revoke_account_tokens(world.core, ROOT, "ada", token_id=stolen.token.id)
    assert (revoked.id, revoked.hash) == (stolen.token.id, "")
    for text in (stolen.text, granted["access_token"]):
        with pytest.raises(Unauthenticated):
            await world.send(text)
    with pytest.raises(GrantRefused):
        await ask(world, grant_type=REFRESH_GRANT, refresh_token=granted["refresh_token"])
    assert (await world.send(other.text)).name == "ada"
    entry = (await world.list_audit())[-1]
    assert (entry.actor, entry.action, entry.id) == ("root", "token.revoke", stolen.token.id)


async def test_only_those_of_the_account_end_when_all_are_revoked(world: World) -> None:
    held = [await world.add_token("ada") for _ in range(3)]
    other = await world.add_token("bob")
    revoked = await revoke_account_tokens(world.core, ROOT, "ada")
    assert {token.id for token in revoked} == {one.token.id for one in held}
    assert await list_account_tokens(world.core, ROOT, "ada") == []
    assert (await world.send(other.text)).name == "bob"


async def test_missing_is_told_when_there_is_no_such_token_or_account(world: World) -> None:
    bobs = await world.add_token("bob")
    for attempt in (
        list_account_tokens(world.core, ROOT, "eve"),
        revoke_account_tokens(world.core, ROOT, "eve"),
        revoke_account_tokens(world.core, ROOT, "ada", token_id=bobs.token.id),
    ):
        with pytest.raises(Missing):
            await attempt


async def test_others_are_forbidden_when_they_are_no_admins(world: World) -> None:
    ada = Principal(name="ada", via="password")
    for attempt in (list_account_tokens(world.core, ada, "bob"), revoke_account_tokens(world.core, ada, "bob")):
        with pytest.raises(Forbidden):
            await attempt
