"""The token endpoint, as the SDK uses it and as others try it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runyard.app.errors import Unauthenticated
from runyard.app.identity import refresh_tokens
from runyard.app.identity.accounts import delete_account, set_disabled, set_password
from runyard.app.identity.personal_tokens import revoke_personal_token
from runyard.app.identity.sign_in import ACCESS_TYPE, EXCHANGE_GRANT, PERSONAL_TYPE, Grant, GrantRefused, grant_token
from runyard.app.model import Principal
from tests.contract.store.builders import make_run
from tests.unit.auth.world import ADDRESS, ENDPOINT, SYSTEM, World, open_world

ADA = Principal(name="ada", via="password")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        await opened.add_account("root", is_admin=True)
        await opened.add_account("ada")
        yield opened


async def ask(world: World, **form: str) -> dict[str, Any]:
    return await grant_token(
        world.core, world.issuer, world.authenticator, form, address=ADDRESS, admit=lambda _who: None
    )


async def exchange(world: World, token: str, **form: str) -> dict[str, Any]:
    """As the SDK does with a personal token."""
    chosen = {
        "client_id": "c",
        "subject_token": token,
        "subject_token_type": PERSONAL_TYPE,
        "grant_type": EXCHANGE_GRANT,
        "scope": "credentials",
    }
    return await ask(world, **{**chosen, **form})


async def refresh(world: World, token: str, **form: str) -> dict[str, Any]:
    """As the SDK does with a refresh token."""
    chosen = {"client_id": "c", "refresh_token": token, "grant_type": "refresh_token", "scope": "credentials"}
    return await ask(world, **{**chosen, **form})


async def begin_session(world: World, **fields: Any) -> dict[str, Any]:
    return await exchange(world, (await world.add_token("ada", **fields)).text)


async def test_answer_is_what_the_sdk_stores_when_a_personal_token_is_exchanged(world: World) -> None:
    answer = await begin_session(world)
    assert answer.keys() == {
        "access_token",
        "refresh_token",
        "token_type",
        "expires_in",
        "client_id",
        "issuer",
        "issued_token_type",
    }
    assert (answer["token_type"], answer["expires_in"], answer["client_id"]) == ("Bearer", 8 * 3600, "c")
    assert (answer["issuer"], answer["issued_token_type"]) == (ENDPOINT, ACCESS_TYPE)
    assert (await world.send(answer["access_token"])).name == "ada"


async def test_answer_leaves_out_what_is_not_there_when_little_is_asked_for(world: World) -> None:
    token = await world.add_token("ada")
    form = {"grant_type": EXCHANGE_GRANT, "subject_token": token.text, "subject_token_type": PERSONAL_TYPE}
    answer = await ask(world, **form)
    assert answer.keys() == {"access_token", "token_type", "expires_in", "issuer", "issued_token_type"}
    assert "refresh_token" in await ask(world, **form, scope="openid offline_access")


async def test_session_goes_on_when_it_is_refreshed_again_and_again(world: World) -> None:
    answer = await begin_session(world)
    for _ in range(5):
        world.turn(days=20)
        with pytest.raises(Unauthenticated, match="the token has expired: sign in again"):
            await world.send(answer["access_token"])
        answer = await refresh(world, answer["refresh_token"])
        assert (await world.send(answer["access_token"])).name == "ada"
        assert "issued_token_type" not in answer


async def test_one_of_them_gets_it_when_two_refresh_with_the_same_token(world: World) -> None:
    answer = await begin_session(world)
    answers = await asyncio.gather(*(refresh(world, answer["refresh_token"]) for _ in range(8)), return_exceptions=True)
    good = [one for one in answers if isinstance(one, dict)]
    bad = [one for one in answers if isinstance(one, GrantRefused)]
    assert (len(good), len(bad)) == (1, 7)
    assert {one.error for one in bad} == {"invalid_grant"}
    assert all("already used" in str(one) for one in bad)
    # Two clients had the same token, and one of them may be a thief: the session of the first has ended, too.
    with pytest.raises(GrantRefused, match="its session was ended"):
        await refresh(world, good[0]["refresh_token"])
    reuses = [entry for entry in await world.list_audit() if entry.action == "token.reuse"]
    assert {(entry.actor, entry.result, entry.address) for entry in reuses} == {("ada", "refused", ADDRESS)}


async def test_whole_family_is_revoked_when_a_refresh_token_is_used_twice(world: World) -> None:
    token = (await world.add_token("ada")).text
    stolen, other = await exchange(world, token), await exchange(world, token)
    first = await refresh(world, stolen["refresh_token"])
    exchanged = await ask(
        world, grant_type=EXCHANGE_GRANT, subject_token=first["access_token"], subject_token_type=ACCESS_TYPE
    )
    newest = await refresh(world, first["refresh_token"])
    world.turn(hours=7)
    message = "the refresh token was already used, so its session was ended: sign in again"
    for _ in range(2):
        with pytest.raises(GrantRefused) as caught:
            await refresh(world, stolen["refresh_token"])
        assert (caught.value.error, str(caught.value)) == ("invalid_grant", message)
    for answer in (stolen, first, newest, exchanged):
        with pytest.raises(Unauthenticated, match="used twice, so the session was ended: sign in again"):
            await world.send(answer["access_token"])
    with pytest.raises(GrantRefused):
        await refresh(world, newest["refresh_token"])
    # Other sessions, and the personal token, go on.
    assert (await world.send((await refresh(world, other["refresh_token"]))["access_token"])).name == "ada"
    assert (await world.send(token)).name == "ada"
    reuses = [entry for entry in await world.list_audit() if entry.action == "token.reuse"]
    assert len(reuses) == 3


async def test_family_is_revoked_when_a_token_comes_again_after_many_days(world: World) -> None:
    """The owner of a stolen token may come back from holidays."""
    stolen = await begin_session(world)
    newest = await refresh(world, stolen["refresh_token"])
    world.turn(days=20)
    newest = await refresh(world, newest["refresh_token"])
    with pytest.raises(GrantRefused, match="already used"):
        await refresh(world, stolen["refresh_token"])
    with pytest.raises(Unauthenticated):
        await world.send(newest["access_token"])


async def test_family_is_revoked_when_the_thief_refreshed_very_often(world: World) -> None:
    """Used tokens are not kept, so no number of them pushes out the one that was stolen."""
    stolen = await begin_session(world)
    newest = stolen
    for _ in range(30):
        newest = await refresh(world, newest["refresh_token"])
    async with world.store.begin(is_read_only=True) as unit:
        assert len([one for one in await unit.accounts.list_tokens("ada") if one.kind == "refresh"]) <= 3
    with pytest.raises(GrantRefused, match="already used"):
        await refresh(world, stolen["refresh_token"])
    with pytest.raises(GrantRefused):
        await refresh(world, newest["refresh_token"])
    with pytest.raises(Unauthenticated, match="used twice"):
        await world.send(newest["access_token"])


async def test_anchor_of_a_family_is_no_token_when_its_text_is_sent(world: World) -> None:
    answer = await begin_session(world)
    family = answer["refresh_token"].rpartition(".")[2]
    with pytest.raises(GrantRefused):
        await refresh(world, f"anchor of family {family}")
    with pytest.raises(GrantRefused, match="unknown refresh token"):
        await refresh(world, "ryr_made-up." + "0" * 32)


async def test_access_token_stays_revoked_when_other_sessions_are_refreshed_often(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh_tokens, "MOST_REVOKED", 3)
    token = (await world.add_token("ada")).text
    stolen, other = await exchange(world, token), await exchange(world, token)
    newest = await refresh(world, stolen["refresh_token"])
    with pytest.raises(GrantRefused, match="already used"):
        await refresh(world, stolen["refresh_token"])
    for _ in range(6):
        world.turn(minutes=1)
        other = await refresh(world, other["refresh_token"])
    with pytest.raises(Unauthenticated, match="used twice, so the session was ended: sign in again"):
        await world.send(newest["access_token"])


async def test_access_token_stays_revoked_when_the_password_changes_afterwards(world: World) -> None:
    stolen = await begin_session(world)
    newest = await refresh(world, stolen["refresh_token"])
    with pytest.raises(GrantRefused, match="already used"):
        await refresh(world, stolen["refresh_token"])
    await set_password(world.core, SYSTEM, world.passwords, name="ada", password="brand new words", keeps_tokens=True)
    with pytest.raises(Unauthenticated):
        await world.send(newest["access_token"])


async def test_refresh_token_is_refused_when_it_is_old_or_not_one(world: World) -> None:
    answer = await begin_session(world)
    personal = await world.add_token("ada")
    for text in ("ryr_x", answer["access_token"], personal.text, answer["refresh_token"] + "x"):
        with pytest.raises(GrantRefused, match="unknown refresh token: sign in again") as caught:
            await refresh(world, text)
        assert caught.value.to_dict() == {"error": "invalid_grant", "error_description": str(caught.value)}
    world.turn(days=30)
    with pytest.raises(GrantRefused, match="the refresh token has expired: sign in again"):
        await refresh(world, answer["refresh_token"])
    assert (await world.send(personal.text)).name == "ada"


async def test_session_ends_at_once_when_its_personal_token_is_revoked(world: World) -> None:
    token = await world.add_token("ada")
    answer = await exchange(world, token.text)
    await world.send(answer["access_token"])
    await revoke_personal_token(world.core, ADA, token.token.id)
    with pytest.raises(Unauthenticated, match="revoked"):
        await world.send(answer["access_token"])
    with pytest.raises(GrantRefused, match="unknown refresh token: sign in again"):
        await refresh(world, answer["refresh_token"])


async def test_session_ends_no_later_than_its_personal_token_when_that_is_short(world: World) -> None:
    answer = await begin_session(world, life=timedelta(hours=1))
    assert answer["expires_in"] == 3600
    world.turn(minutes=59)
    answer = await refresh(world, answer["refresh_token"])
    assert answer["expires_in"] == 60
    world.turn(minutes=1)
    with pytest.raises(GrantRefused, match="the refresh token has expired: sign in again"):
        await refresh(world, answer["refresh_token"])


async def test_session_ends_when_the_account_is_disabled_deleted_or_gets_another_password(world: World) -> None:
    first, second = await begin_session(world), await begin_session(world)
    await set_password(world.core, SYSTEM, world.passwords, name="ada", password="brand new words")
    with pytest.raises(GrantRefused):
        await refresh(world, first["refresh_token"])
    third = await begin_session(world)
    await set_disabled(world.core, SYSTEM, "ada", is_disabled=True)
    for answer in (second, third):
        with pytest.raises(GrantRefused):
            await refresh(world, answer["refresh_token"])
    await delete_account(world.core, SYSTEM, "ada")
    world.turn(minutes=1)
    await world.add_account("ada")
    with pytest.raises(GrantRefused):
        await refresh(world, third["refresh_token"])


async def test_session_ends_when_the_password_changes_and_personal_tokens_are_kept(world: World) -> None:
    token = (await world.add_token("ada")).text
    answer = await exchange(world, token)
    await set_password(world.core, SYSTEM, world.passwords, name="ada", password="brand new words", keeps_tokens=True)
    with pytest.raises(GrantRefused, match="unknown refresh token"):
        await refresh(world, answer["refresh_token"])
    assert (await world.send(token)).name == "ada"


async def test_limits_stay_when_a_limited_token_is_exchanged_and_refreshed(world: World) -> None:
    answer = await begin_session(world, scopes=["read"])
    for _ in range(3):
        assert (await world.send(answer["access_token"])).scopes == frozenset({"read"})
        answer = await refresh(world, answer["refresh_token"])
    for scope in ("write", "admin credentials", "read admin"):
        with pytest.raises(GrantRefused, match="limited to read") as caught:
            await refresh(world, answer["refresh_token"], scope=scope)
        assert caught.value.error == "invalid_scope"
    assert await refresh(world, answer["refresh_token"])


async def test_token_is_limited_when_less_is_asked_for(world: World) -> None:
    token = await world.add_token("ada")
    answer = await exchange(world, token.text, scope="read credentials")
    assert (await world.send(answer["access_token"])).scopes == frozenset({"read"})
    answer = await refresh(world, answer["refresh_token"])
    assert (await world.send(answer["access_token"])).scopes == frozenset({"read"})


async def test_access_token_ends_no_later_when_it_is_exchanged(world: World) -> None:
    answer = await begin_session(world)
    world.turn(hours=7)
    form = {"subject_token_type": ACCESS_TYPE, "scope": "credentials offline_access"}
    other = await exchange(world, answer["access_token"], **form)
    assert other["expires_in"] == 3600
    assert "refresh_token" not in other
    assert (await world.send(other["access_token"])).name == "ada"


async def test_exchange_is_refused_when_the_subject_is_something_else(world: World) -> None:
    token = await world.add_token("ada")
    access = (await exchange(world, token.text))["access_token"]
    await world.add_project("p", user="ada")
    async with world.store.begin() as unit:
        await unit.runs.add(make_run("r"), [])
        await unit.commit()
    run = (await world.issuer.issue_run_token(make_run("r"), timedelta(days=1))).text
    assert (await world.send(run)).run_id == "r"
    wrong = [
        (token.text, ACCESS_TYPE),
        (access, PERSONAL_TYPE),
        (run, ACCESS_TYPE),
        (run, PERSONAL_TYPE),
        ("x", ACCESS_TYPE),
        ("a.b.c", ACCESS_TYPE),
        ("ryp_x\r\nX: y", PERSONAL_TYPE),
    ]
    for subject, kind in wrong:
        with pytest.raises(GrantRefused) as caught:
            await exchange(world, subject, subject_token_type=kind)
        assert caught.value.error == "invalid_grant"
        assert subject == "x" or subject not in str(caught.value)


@pytest.mark.parametrize(
    ("form", "error", "words"),
    [
        ({}, "invalid_request", "grant_type is missing"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type", "personal token of an account"),
        ({"grant_type": "password"}, "unsupported_grant_type", "use HTTP Basic"),
        ({"grant_type": "authorization_code"}, "unsupported_grant_type", "offered: refresh_token, urn:"),
        ({"grant_type": "x\r\ny"}, "unsupported_grant_type", "the grant_type `x y` is not offered"),
        ({"grant_type": "refresh_token"}, "invalid_request", "refresh_token is missing"),
        ({"grant_type": EXCHANGE_GRANT}, "invalid_request", "subject_token is missing"),
        ({"grant_type": EXCHANGE_GRANT, "subject_token": "x"}, "invalid_request", "subject_token_type is missing"),
        (
            {"grant_type": EXCHANGE_GRANT, "subject_token": "x", "subject_token_type": "urn:saml"},
            "invalid_request",
            "must be urn:ietf:params:oauth:token-type:pat",
        ),
        (
            {
                "grant_type": EXCHANGE_GRANT,
                "subject_token": "x",
                "subject_token_type": PERSONAL_TYPE,
                "requested_token_type": "urn:ietf:params:oauth:token-type:refresh_token",
            },
            "invalid_request",
            "requested_token_type can only be",
        ),
        ({"grant_type": "refresh_token", "refresh_token": "x" * 10_000}, "invalid_request", "too long"),
        ({"grant_type": "refresh_token", "refresh_token": "x", "client_id": "c" * 300}, "invalid_request", "too long"),
    ],
)
async def test_reason_is_given_when_a_request_is_wrong(
    world: World, form: dict[str, str], error: str, words: str
) -> None:
    with pytest.raises(GrantRefused, match=words) as caught:
        await ask(world, **form)
    assert caught.value.error == error
    assert len(str(caught.value)) < 400


async def test_table_stays_small_when_a_script_signs_in_again_and_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh_tokens, "MOST_SESSIONS", 5)
    token = await world.add_token("ada")
    answers = [await exchange(world, token.text) for _ in range(20)]
    async with world.store.begin(is_read_only=True) as unit:
        held = [one for one in await unit.accounts.list_tokens("ada") if one.kind == "refresh"]
    assert len(held) <= 12  # a token and an anchor for each session
    await refresh(world, answers[-1]["refresh_token"])


async def test_used_and_ended_tokens_go_when_new_ones_are_made(world: World) -> None:
    answer = await begin_session(world)
    for _ in range(10):
        world.turn(days=20)
        answer = await refresh(world, answer["refresh_token"])
    async with world.store.begin(is_read_only=True) as unit:
        held = [one for one in await unit.accounts.list_tokens("ada") if one.kind == "refresh"]
    assert len(held) <= 3


async def test_no_token_is_given_when_the_server_is_open(world: World) -> None:
    token = await world.add_token("ada")
    form = {"grant_type": EXCHANGE_GRANT, "subject_token": token.text, "subject_token_type": PERSONAL_TYPE}
    with pytest.raises(GrantRefused, match="no token is needed"):
        await grant_token(
            world.core,
            world.issuer,
            world.make_authenticator(is_open=True),
            form,
            address=None,
            admit=lambda _who: None,
        )


async def test_grants_are_written_down_without_tokens_when_they_are_given(world: World) -> None:
    token = await world.add_token("ada")
    answer = await exchange(world, token.text)
    again = await refresh(world, answer["refresh_token"])
    grants = [entry for entry in await world.list_audit() if entry.action == "token.grant"]
    assert [(entry.actor, entry.details["personal_token"]) for entry in grants] == [("ada", token.token.id)] * 2
    shown = repr(await world.list_audit())
    for secret in (
        token.text,
        token.token.hash,
        *(one[name] for one in (answer, again) for name in one if "_token" in name),
    ):
        assert secret == ACCESS_TYPE or secret not in shown


async def test_access_token_says_nothing_of_a_session_when_there_is_none(world: World) -> None:
    signed = await world.issuer.issue(Grant(user="ada"))
    assert "sid" not in await world.issuer.verify(signed.text)
