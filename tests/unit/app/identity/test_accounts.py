"""Accounts: made by admins, of whom one is always left."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runyard.app.errors import Duplicate, Forbidden, Missing, NotPossible, Unauthenticated
from runyard.app.identity import accounts
from runyard.app.identity.accounts import (
    create_account,
    delete_account,
    list_accounts,
    set_admin,
    set_disabled,
    set_password,
)
from runyard.app.model import Principal
from runyard.spec.problems import Refused
from tests.unit.auth.world import PASSWORD, World, open_world

ROOT = Principal(name="root", is_admin=True, via="password", address="192.0.2.1")
ADA = Principal(name="ada", via="password")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        yield opened


async def test_hash_is_shown_to_nobody_when_accounts_are_made_and_listed(world: World) -> None:
    created = await world.add_account("ada")
    listed = await list_accounts(world.core, ROOT)
    assert [account.name for account in listed] == ["ada"]
    assert created.password_hash is None
    assert listed[0].password_hash is None


async def test_account_is_refused_when_its_name_is_taken(world: World) -> None:
    await world.add_account("ada")
    with pytest.raises(Duplicate, match="Duplicated entity account:ada"):
        await world.add_account("ada", password="something else entirely")
    await world.sign_in("ada")


@pytest.mark.parametrize(
    ("name", "code", "suggestion"),
    [
        ("Ada", "name.invalid", "ada"),
        ("", "name.invalid", None),
        ("*", "name.invalid", None),
        ("a b", "name.invalid", None),
        ("ada\n", "name.invalid", None),
        ("аda", "name.invalid", None),
        ("-ada", "name.invalid", None),
        ("x" * 128, "name.invalid", None),
        ("run:1", "name.invalid", None),
        ("anonymous", "name.reserved", None),
        ("system", "name.reserved", None),
        ("files", "name.reserved", None),
        ("nobody", "name.reserved", None),
        ("runyard", "name.reserved", None),
    ],
)
async def test_name_is_refused_when_it_could_be_mistaken(
    world: World, name: str, code: str, suggestion: str | None
) -> None:
    with pytest.raises(Refused) as caught:
        await world.add_account(name)
    (problem,) = caught.value.problems
    assert (problem.code, problem.suggestion) == (code, suggestion)


@pytest.mark.parametrize("name", ["a", "ada.lovelace@example.org", "0x", "a+b_c-d", "x" * 127])
async def test_name_is_taken_when_it_is_plain(world: World, name: str) -> None:
    await world.add_account(name)
    assert (await world.sign_in(name)).name == name


@pytest.mark.parametrize("password", ["", "short", "elevenchars", "x" * 1025, "aaaaaaaaaaaaaaaa"])
async def test_password_is_refused_without_being_shown_when_it_is_weak(world: World, password: str) -> None:
    await world.add_account("ada")
    for attempt in (
        world.add_account("bob", password=password),
        set_password(world.core, ROOT, world.passwords, name="ada", password=password),
    ):
        with pytest.raises(Refused) as caught:
            await attempt
        (problem,) = caught.value.problems
        assert problem.path == ("password",)
        assert problem.value is None
        assert not password or password not in str(caught.value)


async def test_every_problem_is_named_when_name_and_password_are_wrong(world: World) -> None:
    with pytest.raises(Refused) as caught:
        await world.add_account("A B", password="short")
    assert [problem.where for problem in caught.value.problems] == ["name", "password"]


@pytest.mark.parametrize("password", ["twelve chars", "пароль из слов", "🙂🙃😀😃🙂🙃😀😃🙂🙃😀😃", "y" + "xz1" * 341])
async def test_password_is_taken_when_it_is_long_enough_in_any_script(world: World, password: str) -> None:
    await world.add_account("ada", password=password)
    assert (await world.sign_in("ada", password)).name == "ada"


async def test_last_admin_stays_when_somebody_would_remove_them(world: World) -> None:
    await world.add_account("root", is_admin=True)
    await world.add_account("old", is_admin=True)
    await world.add_account("ada")
    await set_disabled(world.core, ROOT, "old", is_disabled=True)
    for attempt in (
        delete_account(world.core, ROOT, "root"),
        set_disabled(world.core, ROOT, "root", is_disabled=True),
        set_admin(world.core, ROOT, "root", is_admin=False),
    ):
        with pytest.raises(NotPossible, match="root is the last admin") as caught:
            await attempt
        assert caught.value.code == "account.last_admin"
    await delete_account(world.core, ROOT, "old")
    await set_admin(world.core, ROOT, "ada", is_admin=True)
    await delete_account(world.core, ROOT, "root")


async def test_one_admin_is_left_when_two_remove_each_other(world: World) -> None:
    await world.add_account("root", is_admin=True)
    await world.add_account("eve", is_admin=True)
    answers = await asyncio.gather(
        set_admin(world.core, ROOT, "eve", is_admin=False),
        set_disabled(world.core, Principal(name="eve", is_admin=True), "root", is_disabled=True),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, NotPossible) for answer in answers) == 1


async def test_others_are_forbidden_when_they_are_no_admins(world: World) -> None:
    await world.add_account("root", is_admin=True)
    await world.add_account("ada")
    limited = Principal(name="root", is_admin=True, scopes=frozenset({"write"}), via="token")
    run = Principal(name="root", is_admin=True, run_id="r", project="p", via="run")
    for who in (ADA, limited, run):
        for attempt in (
            create_account(world.core, who, world.passwords, name="eve", password=PASSWORD, is_admin=True),
            list_accounts(world.core, who),
            set_admin(world.core, who, "ada", is_admin=True),
            set_disabled(world.core, who, "root", is_disabled=True),
            delete_account(world.core, who, "root"),
            set_password(world.core, who, world.passwords, name="eve", password=PASSWORD),
        ):
            with pytest.raises(Forbidden):
                await attempt


async def test_own_password_is_set_when_signed_in_by_password_alone(world: World) -> None:
    await world.add_account("ada")
    await set_password(world.core, ADA, world.passwords, name="ada", password="brand new words")
    await world.sign_in("ada", "brand new words")
    for via in ("token", "jwt"):
        who = Principal(name="ada", via=via)
        with pytest.raises(Forbidden, match="sign in with the current password instead of a token"):
            await set_password(world.core, who, world.passwords, name="ada", password=PASSWORD)


async def test_account_stays_when_it_owns_projects(world: World) -> None:
    await world.add_account("root", is_admin=True)
    await world.add_account("ada")
    for number in range(7):
        await world.add_project(f"p{number}", user="ada")
    with pytest.raises(NotPossible, match=r"ada owns 7 project\(s\) \(.*…\): delete those first, or disable"):
        await delete_account(world.core, ROOT, "ada")
    assert await find_account_names(world) == ["ada", "root"]


async def find_account_names(world: World) -> list[str]:
    return [account.name for account in await list_accounts(world.core, ROOT)]


async def test_missing_is_told_when_there_is_no_such_account(world: World) -> None:
    for attempt in (
        delete_account(world.core, ROOT, "ada"),
        set_disabled(world.core, ROOT, "ada", is_disabled=True),
        set_admin(world.core, ROOT, "ada", is_admin=True),
        set_password(world.core, ROOT, world.passwords, name="ada", password=PASSWORD),
    ):
        with pytest.raises(Missing):
            await attempt


async def test_every_change_is_written_down_without_passwords_when_it_is_made(world: World) -> None:
    await world.add_account("root", is_admin=True)
    await create_account(world.core, ROOT, world.passwords, name="ada", password=PASSWORD)
    await set_password(world.core, ROOT, world.passwords, name="ada", password="brand new words")
    await set_disabled(world.core, ROOT, "ada", is_disabled=True)
    await set_disabled(world.core, ROOT, "ada", is_disabled=False)
    await set_admin(world.core, ROOT, "ada", is_admin=True)
    await delete_account(world.core, ROOT, "ada")
    entries = await world.list_audit()
    assert [(entry.actor, entry.action, entry.id) for entry in entries] == [
        ("system", "account.create", "root"),
        ("root", "account.create", "ada"),
        ("root", "account.set_password", "ada"),
        ("root", "account.disable", "ada"),
        ("root", "account.enable", "ada"),
        ("root", "account.set_admin", "ada"),
        ("root", "account.delete", "ada"),
    ]
    assert {(entry.type, entry.result) for entry in entries} == {("account", "done")}
    assert entries[1].address == ROOT.address
    assert all(word not in repr(entries) for word in (PASSWORD, "brand new", "argon2"))


async def test_nothing_is_kept_when_the_audit_entry_cannot_be_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add_account("root", is_admin=True)

    async def fail(*_arguments: Any, **_named: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(accounts, "note_act", fail)
    with pytest.raises(OSError, match="disk full"):
        await world.add_account("ada")
    assert await find_account_names(world) == ["root"]


async def test_every_token_ends_when_an_admin_sets_the_password(world: World) -> None:
    await world.add_account("ada")
    await world.add_account("bob")
    stolen, other = await world.add_token("ada"), await world.add_token("bob")
    await set_password(world.core, ROOT, world.passwords, name="ada", password="brand new words")
    with pytest.raises(Unauthenticated):
        await world.send(stolen.text)
    assert (await world.send(other.text)).name == "bob"


async def test_personal_tokens_stay_when_they_are_to_be_kept(world: World) -> None:
    await world.add_account("ada")
    token = await world.add_token("ada")
    await set_password(world.core, ROOT, world.passwords, name="ada", password="brand new words", keeps_tokens=True)
    assert (await world.send(token.text)).name == "ada"
