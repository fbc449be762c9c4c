"""Replicas: who lives, by heartbeats on the database's clock."""

from datetime import timedelta

from runyard.app.ports import Store
from tests.contract.store.builders import wait_until_past

LONG = timedelta(minutes=5)


async def test_live_owners_of_the_place_are_sorted_when_one_beats(store: Store) -> None:
    async with store.begin() as work:
        assert await work.replicas.beat("b", "here/1", LONG) == ["b"]
        assert await work.replicas.beat("a", "here/1", LONG) == ["a", "b"]
        assert await work.replicas.beat("c", "there/2", LONG) == ["c"]
        assert await work.replicas.beat("d", None, LONG) == ["d"]
        assert await work.replicas.beat("e", None, LONG) == ["d", "e"]
        await work.commit()
    async with store.begin() as work:
        assert await work.replicas.beat("b", "here/1", LONG) == ["a", "b"]
        assert await work.replicas.beat("b", "there/2", LONG) == ["b", "c"]
        assert await work.replicas.beat("a", "here/1", LONG) == ["a"]


async def test_owner_is_forgotten_when_it_leaves(store: Store) -> None:
    async with store.begin() as work:
        for owner in ("a", "b"):
            await work.replicas.beat(owner, "here/1", LONG)
        await work.replicas.leave("a")
        await work.replicas.leave("a")
        assert await work.replicas.beat("b", "here/1", LONG) == ["b"]


async def test_others_are_forgotten_when_the_owner_buries_them(store: Store) -> None:
    async with store.begin() as work:
        for owner, place in (("a", "here/1"), ("b", "here/1"), ("c", "there/2")):
            await work.replicas.beat(owner, place, LONG)
        await work.replicas.bury_others("a")
        assert await work.replicas.beat("a", "here/1", LONG) == ["a"]
        assert await work.replicas.beat("d", "there/2", LONG) == ["d"]


async def test_owner_is_gone_when_its_heart_stops(store: Store) -> None:
    short = timedelta(milliseconds=50)
    async with store.begin() as work:
        await work.replicas.beat("dead", "here/1", short)
        await work.replicas.beat("alive", "here/1", LONG)
        now = await work.read_clock()
        await work.commit()
    await wait_until_past(store, now + short)
    async with store.begin() as work:
        assert await work.replicas.beat("alive", "here/1", LONG) == ["alive"]
        assert await work.replicas.beat("other", "there/2", LONG) == ["other"]
        assert await work.replicas.beat("dead", "here/1", LONG) == ["alive", "dead"]
