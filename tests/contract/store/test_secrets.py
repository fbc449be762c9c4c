"""Sealed values by version."""

from dataclasses import replace
from typing import Any

import pytest

from runyard.app.model import SealedValue
from runyard.app.ports import Stale, Store


def make_value(**fields: Any) -> SealedValue:
    chosen = {
        "project": "p",
        "name": "key",
        "version": 1,
        "key_id": "k1",
        "wrapped_key": b"\0wrapped",
        "ciphertext": bytes(range(256)),
    }
    return SealedValue(**{**chosen, **fields})


async def put(store: Store, *values: SealedValue) -> None:
    async with store.begin() as work:
        for value in values:
            await work.secrets.put(value)
        await work.commit()


async def test_newest_version_is_found_when_there_are_several(store: Store) -> None:
    newest = make_value(version=11, ciphertext=b"new")
    await put(store, make_value(), make_value(version=2), newest)

    async with store.begin(is_read_only=True) as work:
        assert await work.secrets.find("p", "key") == newest
        assert await work.secrets.find("q", "key") is None
        assert await work.secrets.find("p", "kez") is None


async def test_value_is_refused_when_a_newer_or_the_same_version_is_there(store: Store) -> None:
    await put(store, make_value(version=2))

    async with store.begin() as work:
        for version in (1, 2):
            with pytest.raises(Stale):
                await work.secrets.put(make_value(version=version, ciphertext=b"other"))
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        assert await work.secrets.find("p", "key") == make_value(version=2)


async def test_every_version_goes_when_a_secret_is_deleted(store: Store) -> None:
    await put(store, make_value(), make_value(version=2), make_value(name="other"))

    async with store.begin() as work:
        await work.secrets.delete("p", "key")
        assert await work.secrets.find("p", "key") is None
        await work.secrets.put(make_value())
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        assert await work.secrets.find("p", "other") is not None


async def test_rotation_ends_when_every_value_was_sealed_anew(store: Store) -> None:
    await put(store, *(make_value(name=f"s{number}") for number in range(5)), make_value(version=2, key_id="k0"))

    rewrapped = 0
    while True:
        async with store.begin() as work:
            values = await work.secrets.list_sealed_by("k1", limit=2)
            assert len(values) <= 2
            for value in values:
                await work.secrets.rewrap(replace(value, key_id="k2", wrapped_key=b"new"))
                rewrapped += 1
            await work.commit()
        if not values:
            break

    assert rewrapped == 5
    async with store.begin(is_read_only=True) as work:
        assert await work.secrets.find("p", "s0") == make_value(name="s0", key_id="k2", wrapped_key=b"new")
        assert [value.version for value in await work.secrets.list_sealed_by("k0", limit=9)] == [2]


async def test_nothing_is_sealed_anew_when_that_version_is_gone(store: Store) -> None:
    async with store.begin() as work:
        with pytest.raises(Stale):
            await work.secrets.rewrap(make_value())
