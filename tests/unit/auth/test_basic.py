"""Signing in by name and password."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from argon2 import extract_parameters

from runyard.app.errors import TooMany, Unauthenticated
from runyard.app.identity.accounts import set_disabled, set_password
from runyard.app.model import Principal
from runyard.auth import Passwords
from runyard.auth import failure_limiter as limits
from tests.unit.auth.world import ADDRESS, PASSWORD, SYSTEM, World, make_basic, open_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        yield opened


async def test_principal_is_the_account_when_the_password_is_right(world: World) -> None:
    await world.add_account("ada", is_admin=True)
    await world.add_account("bob")
    assert await world.sign_in("ada") == Principal(name="ada", is_admin=True, via="password", address=ADDRESS)
    assert await world.sign_in("bob") == Principal(name="bob", via="password", address=ADDRESS)


async def test_words_and_work_are_the_same_when_anything_is_wrong(world: World) -> None:
    await world.add_account("root", is_admin=True)
    await world.add_account("ada")
    await world.add_account("off")
    await world.add_account("keyless", password=None)
    await set_disabled(world.core, SYSTEM, "off", is_disabled=True)
    attempts = [("ada", "wrong"), ("nobody", PASSWORD), ("off", PASSWORD), ("keyless", PASSWORD), ("keyless", "")]
    words = set()
    for name, password in attempts:
        with pytest.raises(Unauthenticated) as caught:
            await world.sign_in(name, password)
        words.add(str(caught.value))
    assert words == {"the name or the password is wrong"}
    # One real hash each, all of the same cost: the time taken tells nobody which accounts exist (timing attack).
    usual = extract_parameters(await world.passwords.hash(PASSWORD))
    assert [extract_parameters(stored) for stored in world.hasher.verified] == [usual] * len(attempts)


async def test_password_is_hashed_once_when_it_is_used_often(world: World) -> None:
    await world.add_account("ada")
    await asyncio.gather(*(world.sign_in("ada") for _ in range(40)))
    await world.sign_in("ada")
    assert len(world.hasher.verified) == 1


async def test_memory_does_not_help_when_the_password_was_changed_or_the_account_disabled(world: World) -> None:
    await world.add_account("root", is_admin=True)
    await world.add_account("ada")
    await world.sign_in("ada")
    await set_password(world.core, SYSTEM, world.passwords, name="ada", password="another good one 1")
    with pytest.raises(Unauthenticated):
        await world.sign_in("ada")
    await world.sign_in("ada", "another good one 1")
    await set_disabled(world.core, SYSTEM, "ada", is_disabled=True)
    with pytest.raises(Unauthenticated):
        await world.sign_in("ada", "another good one 1")


async def test_hashing_stops_when_too_many_passwords_were_wrong(world: World) -> None:
    await world.add_account("ada")
    await world.sign_in("ada", address="192.0.2.99")
    burst = limits.PER_ACCOUNT_AND_ADDRESS.burst
    answers = await asyncio.gather(*(world.sign_in("ada", f"wrong {n}") for n in range(30)), return_exceptions=True)
    assert sum(isinstance(answer, Unauthenticated) for answer in answers) == burst
    assert sum(isinstance(answer, TooMany) for answer in answers) == 30 - burst
    assert len(world.hasher.verified) == burst + 1
    with pytest.raises(TooMany):
        await world.sign_in("ada", "wrong again")
    await world.sign_in("ada", address="192.0.2.99")
    world.turn(minutes=10)
    await world.sign_in("ada")


async def test_right_passwords_never_run_out_when_nobody_remembers_them(world: World) -> None:
    await world.add_account("ada")
    for _ in range(limits.PER_ACCOUNT_AND_ADDRESS.burst + 2):
        # Another process each time, with the same limits.
        await world.make_authenticator().authenticate(make_basic("ada", PASSWORD), address=ADDRESS)
    assert len(world.hasher.verified) == limits.PER_ACCOUNT_AND_ADDRESS.burst + 2


async def test_address_stays_unknown_when_its_password_was_never_checked(world: World) -> None:
    """Otherwise a guesser would escape the account's own limit by coming at a busy time."""
    await world.add_account("ada")
    busy = world.make_authenticator(passwords=Passwords(hasher=world.hasher, most_waiting=0))
    with pytest.raises(TooMany):
        await busy.authenticate(make_basic("ada", "guess"), address=ADDRESS)
    for number in range(limits.PER_ACCOUNT.burst):
        world.limiter.take("ada", address=f"198.51.100.{number}")
    with pytest.raises(TooMany):
        await world.sign_in("ada", "guess")
    assert world.hasher.verified == []


async def test_failures_are_written_down_without_what_was_typed_when_a_password_is_wrong(world: World) -> None:
    await world.add_account("ada")
    for name in ("ada", "typed-my-password-here"):
        with pytest.raises(Unauthenticated):
            await world.sign_in(name, "wrong")
    entries = [entry for entry in await world.list_audit() if entry.action == "account.sign_in"]
    assert [(entry.actor, entry.id, entry.result, entry.address) for entry in entries] == [
        ("ada", "ada", "refused", ADDRESS),
        ("anonymous", None, "refused", ADDRESS),
    ]
    assert "typed" not in repr(entries)
    assert "wrong" not in repr(entries)


async def test_answer_reaches_the_others_when_one_client_goes_away(world: World) -> None:
    await world.add_account("ada")
    first = asyncio.create_task(world.sign_in("ada"))
    second = asyncio.create_task(world.sign_in("ada"))
    await world.hasher.begun.wait()
    first.cancel()
    assert (await second).name == "ada"


async def test_everybody_is_a_local_admin_when_the_server_is_open(world: World) -> None:
    open_door = world.make_authenticator(is_open=True)
    for header in (None, "Bearer nonsense", "Basic ???"):
        who = await open_door.authenticate(header, address="127.0.0.1")
        assert who == Principal(name="anonymous", is_admin=True, via="open", address="127.0.0.1")


@pytest.mark.parametrize("name", ["\ud800", "nul\0", "x" * 5000, "*", "anonymous", "system"])
async def test_nobody_is_known_when_the_name_could_be_no_account(world: World, name: str) -> None:
    await world.add_account("ada")
    given = name.encode("utf-8", "surrogatepass").decode("latin-1")
    with pytest.raises(Unauthenticated):
        await world.sign_in(given)
