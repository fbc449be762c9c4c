"""Places of runs, and what is known of runs by their uids."""

from datetime import timedelta

from sqlalchemy import insert

from runyard.app.ports import PlaceUse
from runyard.store import SqlStore, tables
from tests.contract.store.builders import NOON, make_run


async def test_places_are_counted_when_runs_and_live_servers_have_them(store: SqlStore) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("a", place="here/1", state="RUNNING"), [])
        await work.runs.add(make_run("b", place="here/1", state="ERROR", settled_at=NOON), [])
        await work.runs.add(make_run("c", place="there/2"), [])
        await work.runs.add(make_run("d"), [])
        now = await work.read_clock()
        for owner, place, until in (
            ("x", "here/1", now + timedelta(minutes=1)),
            ("y", "here/1", now + timedelta(minutes=1)),
            ("z", "there/2", now - timedelta(minutes=1)),
            ("w", "empty/3", now + timedelta(minutes=1)),
            ("v", None, now + timedelta(minutes=1)),
        ):
            await work.session.write(insert(tables.replicas).values(owner=owner, place=place, until=until))
        assert await work.runs.list_places() == [
            PlaceUse(place="empty/3", runs=0, unsettled=0, replicas=1),
            PlaceUse(place="here/1", runs=2, unsettled=1, replicas=2),
            PlaceUse(place="there/2", runs=1, unsettled=1, replicas=0),
        ]
        first = await work.runs.list_placed("here/1", limit=1)
        assert (first, await work.runs.list_placed("here/1", after=first[-1], limit=9)) == (["a"], ["b"])


async def test_runs_and_tombstones_are_told_apart_when_uids_are_looked_up(store: SqlStore) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("alive", state="RUNNING", anchor_uid="u"), [])
        await work.runs.add(make_run("dead"), [])
        await work.runs.delete(["dead"])
        uids = ["alive", "dead", "unknown"]
        (found,) = await work.runs.list_without_documents(uids)
        assert (found.id, found.state, found.anchor_uid, found.spec, found.request) == ("alive", "RUNNING", "u", {}, {})
        assert await work.runs.list_buried(uids) == ["dead"]
        assert (await work.runs.list_without_documents([]), await work.runs.list_buried([])) == ([], [])
