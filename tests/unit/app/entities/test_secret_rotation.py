"""Rotation of the vault's keys, also when it is broken off, and when something cannot be opened."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.app.entities import secret_rotation
from runyard.app.entities.secret_rotation import rewrap_values, rotate_keys
from runyard.app.errors import Forbidden
from runyard.app.identity.sign_in import Grant
from runyard.app.model import Principal, SealedValue
from runyard.app.ports import UnitOfWork
from runyard.vault import FileVault, TextVault, UnknownKey
from runyard.vault.keyring import Keyring, make_key
from tests.unit.auth.world import SYSTEM, World, open_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        yield opened


async def put_secret_values(world: World, count: int) -> None:
    async with world.store.begin() as unit:
        for number in range(count):
            await unit.secrets.put(world.vault.seal("p", f"s{number:04}", 1, f"value {number}"))
        await unit.commit()


async def read_values(world: World, count: int, vault: FileVault | TextVault) -> list[str]:
    async with world.store.begin(is_read_only=True) as unit:
        found = [await unit.secrets.find("p", f"s{number:04}") for number in range(count)]
    return [vault.open(value) for value in found if value is not None]


def keep_newest_key(path: Path) -> TextVault:
    return TextVault(path.read_text().splitlines()[-1])


async def test_new_key_alone_opens_everything_when_keys_were_rotated(world: World, tmp_path: Path) -> None:
    token = await world.issuer.issue(Grant(user="ada"))
    await put_secret_values(world, 250)
    old = world.vault.current_key_id
    done = await rotate_keys(world.core, SYSTEM, world.vault)
    assert done.key_id == world.vault.current_key_id != old
    assert (done.rewrapped, done.failed) == (251, ())
    alone = keep_newest_key(tmp_path / "keys")
    assert await read_values(world, 250, alone) == [f"value {number}" for number in range(250)]
    other = World(world.store, alone)  # type: ignore[arg-type]
    assert (await other.issuer.verify(token.text))["sub"] == "ada"


async def test_old_key_alone_opens_nothing_when_keys_were_rotated(world: World, tmp_path: Path) -> None:
    old = TextVault((tmp_path / "keys").read_text().splitlines()[-1])
    await put_secret_values(world, 1)
    await rotate_keys(world.core, SYSTEM, world.vault)
    with pytest.raises(UnknownKey):
        await read_values(world, 1, old)


async def test_rotation_is_finished_when_it_was_broken_off(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_rotation, "BATCH", 10)
    await put_secret_values(world, 35)
    rewrap, calls = world.vault.rewrap, 0

    def fail_later(value: SealedValue) -> SealedValue:
        nonlocal calls
        calls += 1
        if calls > 25:
            raise KeyboardInterrupt
        return rewrap(value)

    monkeypatch.setattr(world.vault, "rewrap", fail_later)
    with pytest.raises(KeyboardInterrupt):
        await rotate_keys(world.core, SYSTEM, world.vault)
    monkeypatch.setattr(world.vault, "rewrap", rewrap)
    assert await read_values(world, 35, FileVault(tmp_path / "keys")) == [f"value {number}" for number in range(35)]
    done = await rewrap_values(world.core, SYSTEM, FileVault(tmp_path / "keys"))
    assert done.rewrapped == 15
    assert len(await read_values(world, 35, keep_newest_key(tmp_path / "keys"))) == 35
    assert (await rewrap_values(world.core, SYSTEM, world.vault)).rewrapped == 0


async def test_values_of_every_older_key_are_wrapped_when_there_are_several(world: World, tmp_path: Path) -> None:
    await put_secret_values(world, 3)
    world.vault.make_key()
    async with world.store.begin() as unit:
        await unit.secrets.put(world.vault.seal("p", "s0003", 1, "value 3"))
        await unit.commit()
    done = await rotate_keys(world.core, SYSTEM, world.vault)
    assert done.rewrapped == 4
    assert len(await read_values(world, 4, keep_newest_key(tmp_path / "keys"))) == 4


async def test_others_are_wrapped_when_some_were_tampered_with(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_rotation, "BATCH", 2)
    await put_secret_values(world, 12)
    async with world.store.begin() as unit:
        for number in range(5):
            await tamper(unit, f"s{number:04}")
        await unit.commit()
    done = await rotate_keys(world.core, SYSTEM, world.vault)
    assert done.rewrapped == 7
    assert done.failed == tuple(("p", f"s{number:04}", 1) for number in range(5))
    assert "partly" in {entry.result for entry in await world.list_audit()}


async def tamper(unit: UnitOfWork, name: str) -> None:
    value = await unit.secrets.find("p", name)
    assert value is not None
    await unit.secrets.rewrap(replace(value, wrapped_key=value.wrapped_key[:-1] + b"\0\0"))


async def test_rotation_is_written_down_without_keys_when_it_is_done(world: World, tmp_path: Path) -> None:
    await put_secret_values(world, 2)
    old = world.vault.current_key_id
    await rotate_keys(world.core, SYSTEM, world.vault)
    begun, wrapped = await world.list_audit()
    assert (begun.action, begun.details) == ("keys.rotate", {"old": old})
    assert (wrapped.action, wrapped.id) == ("keys.rewrap", old)
    assert wrapped.details == {"key": world.vault.current_key_id, "count": 2, "failed": []}
    shown = repr([begun, wrapped, world.vault])
    assert all(line not in shown for line in (tmp_path / "keys").read_text().splitlines() if not line.startswith("#"))
    assert "value" not in shown.replace("rewrap_values", "")


@pytest.mark.parametrize(
    "who",
    [
        Principal(name="ada"),
        Principal(name="root", is_admin=True, scopes=frozenset({"write"})),
        Principal(name="root", is_admin=True, run_id="r", project="p"),
    ],
)
async def test_keys_stay_when_somebody_else_would_rotate_them(world: World, who: Principal) -> None:
    before = world.vault.current_key_id
    with pytest.raises(Forbidden):
        await rotate_keys(world.core, who, world.vault)
    with pytest.raises(Forbidden):
        await rewrap_values(world.core, who, world.vault)
    assert world.vault.current_key_id == before


async def test_values_are_wrapped_when_keys_come_from_the_environment(world: World) -> None:
    old, new = (Keyring([make_key()]).to_text() for _ in range(2))
    async with world.store.begin() as unit:
        await unit.secrets.put(TextVault(old).seal("p", "s0000", 1, "value 0"))
        await unit.commit()
    done = await rewrap_values(world.core, SYSTEM, TextVault(old + new))
    assert done.rewrapped == 1
    assert await read_values(world, 1, TextVault(new)) == ["value 0"]
