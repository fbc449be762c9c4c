"""Audit, metrics, firings and facts about the installation."""

import json
import math
from typing import Any

import pytest

from runyard.app.model import AuditFilter
from runyard.app.ports import Store
from tests.contract.store.builders import after, make_audit, make_entity


async def test_newest_entries_come_first_when_the_audit_is_paged(store: Store) -> None:
    entries = [make_audit(id=str(number), at=after(number), details={"n": number}) for number in range(5)]
    async with store.begin() as work:
        for entry in entries:
            await work.audit.add(entry)
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        first = await work.audit.list_entries(limit=3)
        rest = await work.audit.list_entries(AuditFilter(before=first[-1][0]), limit=3)
        assert [entry for _, entry in [*first, *rest]] == entries[::-1]
        assert [number for number, _ in first] == sorted((number for number, _ in first), reverse=True)
        assert await work.audit.list_entries(AuditFilter(before=rest[-1][0])) == []
        assert len(await work.audit.list_entries(AuditFilter(before=10**30))) == 5
        assert await work.audit.list_sizes(AuditFilter(before=rest[0][0]), limit=2) == [len('{"n":0}')]


async def test_entries_are_those_of_the_time_span_when_one_is_given(store: Store) -> None:
    async with store.begin() as work:
        for number, action in enumerate(("a", "b", "a", "b")):
            await work.audit.add(make_audit(id=str(number), at=after(number), action=action))
        await work.commit()
    async with store.begin(is_read_only=True) as work:

        async def ask(**filters: Any) -> list[str | None]:
            sizes = await work.audit.list_sizes(AuditFilter(**filters))
            entries = await work.audit.list_entries(AuditFilter(**filters))
            assert len(sizes) == len(entries)
            return [entry.id for _, entry in entries]

        assert await ask(since=after(1)) == ["3", "2", "1"]
        assert await ask(until=after(1)) == ["1", "0"]
        assert await ask(since=after(1), until=after(2), action="a") == ["2"]
        assert await ask(since=after(9)) == []


async def test_entries_are_filtered_when_project_or_actor_is_given(store: Store) -> None:
    async with store.begin() as work:
        await work.audit.add(make_audit(id="1"))
        await work.audit.add(make_audit(id="2", actor="bob", result="refused", address="10.0.0.1"))
        await work.audit.add(make_audit(id="3", project="q"))
        await work.audit.add(make_audit(id=None, project=None, type=None, action="key.rotate"))
        await work.commit()

    async def find_ids(**filters: Any) -> list[str | None]:
        async with store.begin(is_read_only=True) as work:
            return [entry.id for _, entry in await work.audit.list_entries(AuditFilter(**filters))]

    assert await find_ids() == [None, "3", "2", "1"]
    assert await find_ids(project="p") == ["2", "1"]
    assert await find_ids(actor="ada") == [None, "3", "1"]
    assert await find_ids(project="p", actor="bob") == ["2"]


async def test_entry_is_not_kept_when_the_work_it_tells_of_is_not(store: Store) -> None:
    async with store.begin() as work:
        await work.entities.add(make_entity("f1"))
        await work.audit.add(make_audit())

    async with store.begin(is_read_only=True) as work:
        assert await work.audit.list_entries() == []
        assert await work.entities.find("function", "f1", project="p") is None


async def test_metric_is_replaced_when_its_name_exists(store: Store) -> None:
    async with store.begin() as work:
        await work.metrics.put("run", "r1", "loss", 0.1, project="p")
        await work.metrics.put("run", "r1", "acc", [0.5], project="p")
        await work.metrics.put("run", "r1", "acc", [0.5, 0.6, 1e300], project="p")
        await work.metrics.put("model", "r1", "loss", 7, project="p")
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        assert await work.metrics.list_values("run", "r1", project="p") == {"acc": [0.5, 0.6, 1e300], "loss": 0.1}
        assert await work.metrics.list_values("run", "r2", project="p") == {}


async def test_series_comes_back_when_it_is_written_in_slices(store: Store) -> None:
    series = [number / 7 for number in range(12_001)]
    async with store.begin() as work:
        await work.metrics.put("run", "r1", "loss", series, project="p")
        await work.metrics.put("run", "r1", "acc", 0.5, project="p")
        await work.metrics.put("run", "r2", "acc", 0.5, project="p")
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        assert (await work.metrics.list_values("run", "r1", project="p"))["loss"] == series
        size = len(json.dumps(series, separators=(",", ":"))) + len("0.5")
        assert await work.metrics.measure("run", "r1", project="p") == (2, size)
        assert await work.metrics.measure("run", "r3", project="p") == (0, 0)


async def test_metric_comes_back_when_it_is_not_a_number_or_endless(store: Store) -> None:
    async with store.begin() as work:
        await work.metrics.put("run", "r1", "loss", [math.nan, math.inf, -math.inf], project="p")
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        loss = (await work.metrics.list_values("run", "r1", project="p"))["loss"]
    assert isinstance(loss, list)
    assert math.isnan(loss[0])
    assert loss[1:] == [math.inf, -math.inf]


async def test_occasion_is_used_once_when_it_is_asked_for_twice(store: Store) -> None:
    async with store.begin() as work:
        assert await work.firings.find_last("t1", project="p") is None
        assert await work.firings.use("t1", "2026-11-15T00:00Z", project="p") is True
        assert await work.firings.use("t1", "2026-11-16T00:00Z", project="p") is True
        assert await work.firings.use("t1", "2026-11-15T00:00Z", project="p") is False
        assert await work.firings.use("t2", "2026-11-15T00:00Z", project="p") is True
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        counts = [await work.firings.count(name, project="p") for name in ("t1", "t2", "t3")]
        assert (counts, await work.firings.count("t1", project="q")) == ([2, 1, 0], 0)
        assert await work.firings.is_used("t1", "2026-11-15T00:00Z", project="p") is True
        assert await work.firings.is_used("t1", "2026-11-15T00:00Z", project="q") is False
        assert await work.firings.is_used("t2", "2026-11-16T00:00Z", project="p") is False
        assert await work.firings.find_last("t1", project="p") == "2026-11-16T00:00Z"
        assert await work.firings.find_last("t2", project="p") == "2026-11-15T00:00Z"


async def test_occasion_can_be_used_when_its_first_user_did_not_commit(store: Store) -> None:
    async with store.begin() as work:
        assert await work.firings.use("t1", "now", project="p") is True
    async with store.begin() as work:
        assert await work.firings.use("t1", "now", project="p") is True


async def test_ids_are_there_when_a_database_is_new(store: Store) -> None:
    async with store.begin() as work:
        installation, epoch = await work.get_meta("installation"), await work.get_meta("epoch")
        assert installation is not None
        assert epoch is not None
        assert len({installation, epoch}) == 2
        assert await work.get_meta("sweeper") is None


@pytest.mark.parametrize("values", [["one"], ["one", "two"], ["", "{}"]])
async def test_fact_is_the_last_one_put_when_it_is_put_again(store: Store, values: list[str]) -> None:
    async with store.begin() as work:
        for value in values:
            await work.put_meta("signing-key", value)
        await work.commit()
    async with store.begin(is_read_only=True) as work:
        assert await work.get_meta("signing-key") == values[-1]
