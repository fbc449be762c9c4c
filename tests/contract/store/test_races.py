"""Many at once: exactly one wins where one may, and nobody is lost."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from runyard.app.list_query import Query
from runyard.app.model import SealedValue, Token
from runyard.app.ports import Duplicate, Stale, Store, UnitOfWork
from tests.contract.store.builders import NOON, add_due, after, claim, make_entity, make_run, make_task, make_transition
from tests.contract.store.test_secrets import make_value

LONG = timedelta(minutes=5)


async def race(stores: Sequence[Store], number: int, act: Callable[[UnitOfWork, int], Awaitable[Any]]) -> list[Any]:
    """What each of that many units of work got, or the refusal it met."""

    async def compete(index: int) -> Any:
        async with stores[index % len(stores)].begin() as work:
            try:
                got = await act(work, index)
            except (Duplicate, Stale) as refusal:
                return refusal
            await work.commit()
            return got

    return await asyncio.gather(*(compete(index) for index in range(number)))


def count_winners(results: list[Any], refusal: type[Exception]) -> int:
    assert all(result is None or isinstance(result, refusal) for result in results)
    return sum(result is None for result in results)


async def test_one_is_added_when_two_hundred_submit_the_same_id(store: Store, replicas: list[Store]) -> None:
    async def submit(work: UnitOfWork, index: int) -> None:
        await work.runs.add(make_run("r1", request_hash=str(index)), [make_transition(1), make_transition(2)])

    results = await race(replicas, 200, submit)

    assert count_winners(results, Duplicate) == 1
    async with store.begin(is_read_only=True) as work:
        run = await work.runs.find("r1", project="p")
        assert run is not None
        assert results[int(run.request_hash)] is None
        assert len(await work.runs.list_transitions("r1")) == 2


async def test_one_is_added_when_many_make_the_same_task(replicas: list[Store]) -> None:
    results = await race(replicas, 50, lambda work, index: work.entities.add(make_task(f"t{index}")))
    assert count_winners(results, Duplicate) == 1


async def test_one_version_is_the_latest_when_many_are_added_and_deleted_at_once(
    store: Store, replicas: list[Store]
) -> None:
    await race(replicas, 40, lambda work, n: work.entities.add(make_entity(f"f{n:02}", created_at=after(n % 7))))

    async def add_or_delete(work: UnitOfWork, index: int) -> None:
        if index % 2:
            await work.entities.delete("function", f"f{index:02}", project="p")
        else:
            await work.entities.add(make_entity(f"g{index:02}", created_at=after(index % 9)))

    await race(replicas, 40, add_or_delete)

    async with store.begin(is_read_only=True) as work:
        latest = await work.entities.find_page(Query(type="function", project="p"))
        every = await work.entities.find_page(Query(type="function", project="p", versions="all", size=100))
        newest = await work.entities.find_latest("function", project="p", name="f")
    assert every.total == 40
    assert latest.content == (newest,)
    assert newest == every.content[0]


async def test_no_version_is_hidden_when_its_name_is_deleted_meanwhile(store: Store, replicas: list[Store]) -> None:
    for attempt in range(10):
        async with store.begin() as work:
            await work.entities.add(make_entity(f"new-{attempt}", created_at=after(10)))
            await work.commit()

        async def add_or_delete(work: UnitOfWork, index: int, attempt: int = attempt) -> None:
            if index:
                known = await work.entities.find_page(Query(type="function", project="p", versions="all"))
                for entity in known.content:
                    await work.entities.delete("function", entity.id, project="p")
            else:
                await work.entities.add(make_entity(f"old-{attempt}", created_at=after(5)))

        await race(replicas, 2, add_or_delete)

        async with store.begin(is_read_only=True) as work:
            latest = await work.entities.find_page(Query(type="function", project="p"))
            every = await work.entities.find_page(Query(type="function", project="p", versions="all"))
        assert latest.content == every.content[:1]


async def test_no_run_is_claimed_twice_when_twenty_claim_at_once(store: Store, replicas: list[Store]) -> None:
    names = [f"r{number:03}" for number in range(300)]
    async with store.begin() as work:
        for name in names:
            await add_due(work, make_run(name))
        await work.commit()

    claimed: list[str] = []

    async def claim_until_nothing_is_left(one: Store) -> None:
        while True:
            async with one.begin() as work:
                got = await claim(work, owner="x", limit=7)
                await asyncio.sleep(0.001)
                await work.commit()
            if not got:
                return
            claimed.extend(run.id for run, _ in got)

    await asyncio.gather(*(claim_until_nothing_is_left(replicas[n % len(replicas)]) for n in range(20)))

    doubles = {name: times for name, times in Counter(claimed).items() if times > 1}
    assert doubles == {}
    # On PostgreSQL a claimer may find the rest locked by others and go; what those leave is claimed by the next.
    await claim_until_nothing_is_left(replicas[0])
    assert sorted(claimed) == names


async def test_one_writes_when_many_hold_the_same_revision(store: Store, replicas: list[Store]) -> None:
    run = make_run("r1")
    async with store.begin() as work:
        await work.runs.add(run, [])
        await work.commit()

    async def write(work: UnitOfWork, index: int) -> None:
        await work.runs.update(run, run, transitions=[make_transition(index + 1)])

    assert count_winners(await race(replicas, 50, write), Stale) == 1
    async with store.begin(is_read_only=True) as work:
        assert len(await work.runs.list_transitions("r1")) == 1


async def test_no_write_is_lost_when_many_count_the_revision_up(store: Store, replicas: list[Store]) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), [])
        await work.commit()

    async def write(work: UnitOfWork, index: int) -> None:
        run = await work.runs.find("r1", project="p")
        assert run is not None
        await work.runs.update(run, run, transitions=[make_transition(run.last_sequence + 1, message=str(index))])

    missing = 50
    while missing:
        missing -= count_winners(await race(replicas, missing, write), Stale)
    async with store.begin(is_read_only=True) as work:
        run = await work.runs.find("r1", project="p")
        assert run is not None
        assert run.revision == 51
        assert len(await work.runs.list_transitions("r1")) == 50


async def test_total_is_right_when_runs_come_and_go_at_once(store: Store, replicas: list[Store]) -> None:
    await race(replicas, 40, lambda work, n: work.runs.add(make_run(f"r{n}", project=f"p{n % 3}"), []))
    await race(replicas, 40, lambda work, n: work.runs.delete([f"r{n // 2}"]))

    async with store.begin(is_read_only=True) as work:
        for name in ("p0", "p1", "p2"):
            counted = await work.runs.find_page(Query(type="run", project=name, size=0))
            listed = await work.runs.find_page(Query(type="run", project=name, size=100))
            assert counted.total == listed.total == len(listed.content)
        assert (await work.runs.find_page(Query(type="run", size=0))).total == 20


async def test_one_gets_the_refresh_token_when_many_use_it(store: Store, replicas: list[Store]) -> None:
    async with store.begin() as work:
        await work.accounts.put_token(Token(id="t", user="ada", kind="refresh", hash="h", created_at=NOON))
        await work.commit()

    results = await race(replicas, 50, lambda work, _: work.accounts.use_refresh_token("h"))

    assert sum(result is not None for result in results) == 1


async def test_one_fires_when_many_see_the_same_occasion(replicas: list[Store]) -> None:
    results = await race(replicas, 50, lambda work, _: work.firings.use("t1", "2026-11-15T00:00Z", project="p"))
    assert Counter(results) == {True: 1, False: 49}


async def test_revisions_have_no_gap_when_many_write_the_same_profile(replicas: list[Store]) -> None:
    results = await race(replicas, 30, lambda work, n: work.revisions.put("profile", "gpu", {"n": n}, user="ada"))
    assert sorted(result.revision for result in results) == list(range(1, 31))


async def test_one_version_is_stored_when_many_seal_the_same_one(replicas: list[Store]) -> None:
    def seal(index: int) -> SealedValue:
        return make_value(ciphertext=str(index).encode())

    results = await race(replicas, 30, lambda work, index: work.secrets.put(seal(index)))
    assert count_winners(results, Stale) == 1


async def test_everyone_is_served_when_many_read_while_others_write(store: Store) -> None:
    async def read(index: int) -> int:
        async with store.begin(is_read_only=True) as work:
            return (await work.runs.find_page(Query(type="run", project="p"))).total

    async def write(index: int) -> None:
        async with store.begin() as work:
            await work.runs.add(make_run(f"r{index}"), [make_transition(1)])
            await work.commit()

    totals = await asyncio.gather(*(act(n) for n in range(60) for act in (read, write)))

    assert len(totals) == 120
    assert await read(0) == 60
