"""Personal tokens: shown once, and never more powerful than what made them."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.app.errors import Forbidden, Missing, NotPossible
from runyard.app.identity import personal_tokens
from runyard.app.identity.accounts import set_disabled
from runyard.app.identity.personal_tokens import (
    create_personal_token,
    list_personal_tokens,
    narrow,
    note_token_use,
    revoke_personal_token,
)
from runyard.app.model import Principal
from runyard.domain.access import SCOPES, Permission, Role, allows
from runyard.spec.problems import Refused
from tests.unit.auth.world import SYSTEM, World, open_world

ADA = Principal(name="ada", via="password")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        await opened.add_account("root", is_admin=True)
        await opened.add_account("ada")
        await opened.add_account("bob")
        yield opened


async def test_text_is_shown_once_when_a_token_is_made(world: World) -> None:
    created = await create_personal_token(world.core, ADA, name="laptop", scopes=["openid", "read"])
    assert created.token.expires_at == world.at + timedelta(days=365)
    assert created.text not in repr(created)
    (listed,) = await list_personal_tokens(world.core, ADA)
    assert (listed.id, listed.name, listed.scopes) == (created.token.id, "laptop", ("openid", "read"))
    assert listed.hash == ""
    assert created.text not in repr(await world.list_audit())


async def test_token_is_somebody_elses_when_another_asks_for_it(world: World) -> None:
    created = await world.add_token("ada")
    bob = Principal(name="bob", via="password")
    assert await list_personal_tokens(world.core, bob) == []
    with pytest.raises(Missing):
        await revoke_personal_token(world.core, bob, created.token.id)
    assert (await world.send(created.text)).name == "ada"


async def test_token_is_refused_when_a_scope_is_not_known(world: World) -> None:
    with pytest.raises(Refused) as caught:
        await create_personal_token(world.core, ADA, scopes=["raed", "openid", "root"])
    assert [(problem.where, problem.suggestion) for problem in caught.value.problems] == [
        ("scopes[0]", "read"),
        ("scopes[2]", None),
    ]


@pytest.mark.parametrize("life", [timedelta(0), timedelta(seconds=-1), timedelta(days=2000)])
async def test_token_is_refused_when_its_life_is_none_or_endless(world: World, life: timedelta) -> None:
    with pytest.raises(
        Refused, match=r"days: (must be positive|too long); given: .*; allowed: more than 0 and at most 365"
    ):
        await create_personal_token(world.core, ADA, life=life, name="x")


async def test_token_is_refused_when_its_name_is_endless(world: World) -> None:
    with pytest.raises(Refused, match="at most 200"):
        await create_personal_token(world.core, ADA, name="x" * 201)


@pytest.mark.parametrize("via", ["token", "jwt"])
async def test_token_is_refused_when_it_would_be_made_with_a_token(world: World, via: Any) -> None:
    for scopes in (None, frozenset({"write"}), frozenset({"admin"})):
        with pytest.raises(Forbidden, match="sign in with a password instead of a token"):
            await create_personal_token(world.core, Principal(name="ada", scopes=scopes, via=via))
    assert await list_personal_tokens(world.core, ADA) == []


async def test_token_is_revoked_when_one_asks_that_may_write(world: World) -> None:
    created = await world.add_token("ada")
    with pytest.raises(Forbidden, match="limited to read"):
        await revoke_personal_token(
            world.core, Principal(name="ada", scopes=frozenset({"read"}), via="token"), created.token.id
        )
    writer = Principal(name="ada", scopes=frozenset({"write"}), via="token")
    await revoke_personal_token(world.core, writer, created.token.id)
    assert await list_personal_tokens(world.core, ADA) == []


async def test_token_is_refused_when_a_run_or_nobody_asks(world: World) -> None:
    run = Principal(name="ada", run_id="r", project="p", via="run")
    with pytest.raises(Forbidden, match="token of run r"):
        await create_personal_token(world.core, run)
    with pytest.raises(Forbidden):
        await list_personal_tokens(world.core, run)
    with pytest.raises(NotPossible, match="no token is needed"):
        await create_personal_token(world.core, Principal(name="anonymous", is_admin=True, via="open"))


async def test_token_is_refused_when_the_account_is_disabled_or_has_many(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(personal_tokens, "MOST_TOKENS", 2)
    for _ in range(2):
        await world.add_token("ada")
    with pytest.raises(NotPossible, match="revoke some first"):
        await world.add_token("ada")
    await set_disabled(world.core, SYSTEM, "bob", is_disabled=True)
    with pytest.raises(NotPossible, match="gone or disabled"):
        await world.add_token("bob")


async def test_token_stays_revoked_when_its_use_is_noted_late(world: World) -> None:
    created = await world.add_token("ada")
    await revoke_personal_token(world.core, ADA, created.token.id)
    await note_token_use(world.core, created.token)
    assert await list_personal_tokens(world.core, ADA) == []


async def test_making_and_revoking_are_written_down_when_they_happen(world: World) -> None:
    created = await world.add_token("ada", name="laptop", scopes=["read"])
    await revoke_personal_token(world.core, ADA, created.token.id)
    made, revoked = (await world.list_audit())[-2:]
    assert (made.action, made.id, made.details["scopes"]) == ("token.create", created.token.id, ["read"])
    assert (revoked.action, revoked.actor, revoked.details) == ("token.revoke", "ada", {"name": "laptop"})


@given(st.frozensets(st.sampled_from([*SCOPES, "openid"])), st.frozensets(st.sampled_from([*SCOPES, "openid"])))
def test_nothing_is_gained_when_scopes_are_narrowed(held: frozenset[str], asked: frozenset[str]) -> None:
    try:
        given_scopes = narrow(held, asked)
    except Forbidden:
        return
    for permission in Permission:
        if allows(Role.ADMIN, permission, scopes=given_scopes):
            assert allows(Role.ADMIN, permission, scopes=held)
