"""Runs: rows, history, tombstones, and writes that are guarded by revision and lease."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from runyard.app.list_query import (
    LIST_FILTERS,
    LISTED_MESSAGE_CHARACTERS,
    LISTED_RUN_BYTES,
    LISTED_TRANSITIONS,
    FilterKind,
    Query,
)
from runyard.app.model import Run
from runyard.app.ports import Duplicate, Stale, Store
from runyard.domain.lifecycle import State
from runyard.store.largest_documents import SMALL_BYTES
from tests.contract.store.builders import NOON, add_due, after, claim, make_run, make_transition, wait_until_past

LONG = timedelta(minutes=5)


async def add(store: Store, *runs: Run) -> None:
    async with store.begin() as work:
        for run in runs:
            await work.runs.add(run, [])
        await work.commit()


async def add_leasable(store: Store, *runs: Run) -> None:
    async with store.begin() as work:
        for run in runs:
            await add_due(work, run)
        await work.commit()


async def find_ids(store: Store, **filters: Any) -> list[str]:
    async with store.begin(is_read_only=True) as work:
        page = await work.runs.find_page(Query(type="run", **filters))
    return [run.id for run in page.content]


async def test_run_comes_back_as_it_was_when_it_is_found(store: Store) -> None:
    run = make_run(
        "r1",
        effective={"resources": {"cpu": "8"}},
        provenance=({"path": "resources.cpu", "owner": "profile"},),
        warnings=({"code": "value.overridden"},),
        profile_revision=3,
        policy_revision=7,
        workflow="hera://p/w:w1",
        is_local=True,
        desired="stop",
        desired_generation=4,
        observed_generation=2,
        observed_epoch=3,
        observed_version=2**62,
        place="kubernetes/5f1c",
        anchor_uid="uid",
        reason="user.stop",
        message="two lines\nof words",
        last_sequence=7,
        settled_at=after(7),
        is_log_complete=True,
        extensions=({"a": 1},),
        revision=1,
    )
    await add(store, run)

    async with store.begin(is_read_only=True) as work:
        found = await work.runs.find("r1", project="p")
        page = await work.runs.find_page(Query(type="run"))

    assert found == run
    assert isinstance(found, Run)
    assert list(found.request["spec"]) == ["b", "a"]
    assert page.content == (run,)


async def test_newest_observation_is_that_of_the_newest_epoch_when_a_place_has_several(store: Store) -> None:
    here = "kubernetes/5f1c"
    await add(
        store,
        make_run("r1", place=here, observed_epoch=0, observed_version=900),
        make_run("r2", place=here, observed_epoch=1, observed_version=20),
        make_run("r3", place=here, observed_epoch=1, observed_version=10),
        make_run("r4", place="kubernetes/other", observed_epoch=5, observed_version=5),
    )
    async with store.begin(is_read_only=True) as work:
        assert await work.runs.find_newest_observation(here) == (1, 20)
        assert await work.runs.find_newest_observation("kubernetes/nowhere") == (0, 0)


async def test_nothing_is_found_when_the_run_is_of_another_project(store: Store) -> None:
    await add(store, make_run("r1"))

    async with store.begin(is_read_only=True) as work:
        assert await work.runs.find("r1", project="p") is not None
        assert await work.runs.find("r1", project="q") is None
        assert await work.runs.find("r2", project="p") is None


async def test_second_is_refused_and_the_first_stays_when_the_id_is_taken(store: Store) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), [make_transition(1)])
        await work.commit()

    async with store.begin() as work:
        with pytest.raises(Duplicate):
            await work.runs.add(make_run("r1", request_hash="other"), [make_transition(1), make_transition(2)])
        first = await work.runs.find("r1", project="p")
        await work.commit()

    assert first == make_run("r1", last_sequence=1)
    async with store.begin(is_read_only=True) as work:
        assert len(await work.runs.list_transitions("r1")) == 1


async def test_transitions_are_in_order_when_they_are_listed_after_one(store: Store) -> None:
    first = [make_transition(1, state=State.CREATED), make_transition(2, reason="engine.none", message="no engine\0")]
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), first)
        await work.runs.add(make_run("r2"), [make_transition(1)])
        run = make_run("r1", last_sequence=2)
        more = [make_transition(10, at=after(1)), make_transition(9)]
        assert (await work.runs.update(run, run, transitions=more)).last_sequence == 10
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        every = await work.runs.list_transitions("r1")
        assert every == [
            first[0],
            replace(first[1], message="no engine\ufffd"),
            make_transition(9),
            make_transition(10, at=after(1)),
        ]
        assert every[0].state is State.CREATED
        assert [step.sequence for step in await work.runs.list_transitions("r1", after=2)] == [9, 10]
        assert [step.sequence for step in await work.runs.list_transitions("r1", limit=2)] == [1, 2]
        assert await work.runs.list_transitions("r1", after=10) == []
        assert await work.runs.list_transitions("r1", after=10**30) == []
        assert await work.runs.list_transitions("r3") == []


async def test_run_and_transitions_are_kept_together_when_it_is_replaced(store: Store) -> None:
    run = make_run("r1")
    await add(store, run)

    async with store.begin() as work:
        changed = replace(run, state="RUNNING", status={"k8s": {}}, message="m", anchor_uid="u")
        written = await work.runs.update(run, changed, transitions=[make_transition(1)])
        await work.commit()

    assert written == replace(changed, revision=2, last_sequence=1)
    async with store.begin(is_read_only=True) as work:
        assert await work.runs.find("r1", project="p") == written


async def test_neither_run_nor_transition_is_written_when_the_revision_is_stale(store: Store) -> None:
    run = make_run("r1")
    await add(store, run)

    async with store.begin() as work:
        for revision in (0, 2, 10**30):
            other = replace(run, revision=revision)
            with pytest.raises(Stale):
                await work.runs.update(other, replace(other, state="ERROR"), transitions=[make_transition(1)])
        gone = make_run("r2")
        with pytest.raises(Stale):
            await work.runs.update(gone, gone, transitions=[make_transition(1)])
        with pytest.raises(ValueError, match="project of run r1 never changes"):
            await work.runs.update(run, replace(run, project="q"))
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        assert await work.runs.find("r1", project="p") == run
        assert await work.runs.list_transitions("r1") == []


async def test_tombstone_stays_when_a_run_is_deleted(store: Store) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1", metadata={"labels": ["x"]}), [make_transition(1)])
        await work.metrics.put("run", "r1", "loss", 1.0, project="p")
        assert await work.runs.has_tombstone("r1", project="p") is False
        await work.runs.delete(["r1"])
        await work.runs.delete(["never"])
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        assert await work.runs.find("r1", project="p") is None
        assert await work.runs.has_tombstone("r1", project="p") is True
        assert await work.runs.has_tombstone("never", project="p") is False
        assert await work.runs.list_transitions("r1") == []
        assert await work.metrics.list_values("run", "r1", project="p") == {}


async def test_run_lives_when_it_is_added_again_after_its_end(store: Store) -> None:
    for _ in range(2):
        async with store.begin() as work:
            await work.runs.add(make_run("r1"), [make_transition(1)])
            assert await work.runs.has_tombstone("r1", project="p") is False
            await work.runs.delete(["r1"])
            assert await work.runs.has_tombstone("r1", project="p") is True
            await work.commit()


LISTED = [
    make_run("r1", created_at=after(1)),
    make_run("r2", created_at=after(2), state="RUNNING", function="python://p/f:f2", task="python+serve://p/t2"),
    make_run("r3", created_at=after(3), function="python://p/ff:f1", user="bob", name="Nightly"),
    make_run(
        "r4", created_at=after(4), project="q", function=None, workflow="hera://q/w:W1", task=None, kind="hera+run"
    ),
    make_run("r5", created_at=after(5), state="ERROR", metadata={"labels": ["l"]}, kind="python+run"),
]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["r5", "r4", "r3", "r2", "r1"]),
        ({"project": "p"}, ["r5", "r3", "r2", "r1"]),
        ({"visible_projects": frozenset({"q"})}, ["r4"]),
        ({"state": "RUNNING"}, ["r2"]),
        ({"project": "p", "state": "READY"}, ["r3", "r1"]),
        ({"function": "python://p/f:f1"}, ["r5", "r1"]),
        ({"function": "python://p/f"}, ["r5", "r2", "r1"]),
        ({"function": "python://p/"}, []),
        ({"workflow": "hera://q/w"}, ["r4"]),
        ({"workflow": "hera://q/w:W1"}, ["r4"]),
        ({"task": "python+job://p/t1"}, ["r5", "r3", "r1"]),
        ({"action": "serve"}, ["r2"]),
        ({"action": "job", "user": "bob"}, ["r3"]),
        ({"kind": "python+run"}, ["r5"]),
        ({"q": "nIGHT"}, ["r3"]),
        ({"q": "/FF:"}, ["r3"]),
        ({"q": "hera://q"}, ["r4"]),
        ({"q": "R2"}, ["r2"]),
        ({"labels": ("l",)}, ["r5"]),
        ({"created": (after(2), after(3))}, ["r3", "r2"]),
        ({"sort": (("state", "asc"), ("created", "asc"))}, ["r5", "r1", "r3", "r4", "r2"]),
        ({"sort": (("created", "asc"),), "size": 2, "page": 1}, ["r3", "r4"]),
    ],
)
async def test_list_holds_what_matches_when_it_is_filtered(
    store: Store, filters: dict[str, Any], expected: list[str]
) -> None:
    await add(store, *LISTED)
    assert await find_ids(store, **filters) == expected


UNMATCHED: dict[FilterKind, Any] = {FilterKind.LABELS: ("no such",), FilterKind.SPAN: (after(1000), None)}


@pytest.mark.parametrize("size", [0, 25])
async def test_list_and_total_are_empty_when_any_filter_matches_nothing(store: Store, size: int) -> None:
    await add(store, *LISTED)
    async with store.begin(is_read_only=True) as work:
        for name, kind in LIST_FILTERS.items():
            wanted: Any = UNMATCHED.get(kind, "no such")
            page = await work.runs.find_page(Query(type="run", size=size, **{name: wanted}))
            assert (name, page.content, page.total) == (name, (), 0)


async def test_total_is_right_when_runs_come_and_go(store: Store) -> None:
    async def find_totals() -> list[int]:
        async with store.begin(is_read_only=True) as work:
            seen = [{"visible_projects": frozenset(names)} for names in (("p", "q", "z"), ("q", "z"))]
            queries: list[dict[str, Any]] = [{}, {"project": "p"}, {"project": "q"}, *seen]
            return [(await work.runs.find_page(Query(type="run", size=0, **query))).total for query in queries]

    await add(store, *LISTED)
    assert await find_totals() == [5, 4, 1, 5, 1]
    async with store.begin() as work:
        with pytest.raises(Duplicate):
            await work.runs.add(LISTED[0], [])
        await work.runs.delete(["r1"])
        await work.runs.delete(["r1"])
        await work.runs.delete(["r4"])
        await work.commit()
    assert await find_totals() == [3, 3, 0, 3, 0]
    async with store.begin() as work:
        await work.runs.add(make_run("undone"), [])
        await work.runs.delete(["r2"])
    assert await find_totals() == [3, 3, 0, 3, 0]
    async with store.begin() as work:
        await work.runs.delete(["r2", "r3", "r5"])
        await work.entities.delete_project("p")
        await work.runs.add(make_run("new"), [])
        await work.commit()
    assert await find_totals() == [1, 1, 0, 1, 0]


async def test_list_follows_when_a_run_is_replaced(store: Store) -> None:
    await add(store, *LISTED)
    async with store.begin() as work:
        await work.runs.update(LISTED[0], replace(LISTED[0], state="ERROR", metadata={"labels": ["l"]}))
        await work.commit()

    assert await find_ids(store, state="ERROR") == ["r5", "r1"]
    assert await find_ids(store, labels=("l",)) == ["r5", "r1"]


async def test_stale_lease_writes_nothing_when_another_unit_of_work_has_taken_over(store: Store) -> None:
    await add_leasable(store, make_run("r1"))
    async with store.begin() as work:
        [(run, first)] = await claim(work, owner="a", limit=1, lease_for=timedelta(milliseconds=50))
        await work.commit()
    await wait_until_past(store, first.until)
    async with store.begin() as work:
        [(_, second)] = await claim(work, owner="b", limit=1)
        await work.commit()

    async with store.begin() as work:
        with pytest.raises(Stale):
            await work.runs.update(run, replace(run, state="ERROR"), transitions=[make_transition(1)], lease=first)
        with pytest.raises(Stale):
            await work.runs.update(run, run, lease=first)
        await work.runs.release(first, due_in=None)
        await work.commit()

    async with store.begin() as work:
        assert await work.runs.find("r1", project="p") == run
        assert await work.runs.list_transitions("r1") == []
        written = await work.runs.update(run, replace(run, state="RUNNING"), lease=second)
        await work.commit()
    assert written.revision == 2


async def test_lease_writes_nothing_when_it_has_ended_though_nobody_took_over(store: Store) -> None:
    await add_leasable(store, make_run("r1"))
    async with store.begin() as work:
        [(run, lease)] = await claim(work, owner="a", limit=1, lease_for=timedelta(milliseconds=50))
        await work.commit()
    await wait_until_past(store, lease.until)

    async with store.begin() as work:
        with pytest.raises(Stale):
            await work.runs.update(run, replace(run, state="ERROR"), lease=lease)
        with pytest.raises(Stale):
            await work.runs.update(run, run, lease=lease)
        await work.runs.release(lease, due_in=None)
        assert await work.runs.find("r1", project="p") == run


async def test_lease_writes_nothing_when_it_is_of_another_run_or_was_given_back(store: Store) -> None:
    await add_leasable(store, make_run("r1"), make_run("r2"))
    async with store.begin() as work:
        claimed = await claim(work, owner="a", limit=2)
        (one, lease_of_one), (two, lease_of_two) = claimed
        with pytest.raises(Stale):
            await work.runs.update(two, two, lease=lease_of_one)
        await work.runs.release(lease_of_two, due_in=None)
        with pytest.raises(Stale):
            await work.runs.update(two, two, lease=lease_of_two)
        assert (await work.runs.update(one, replace(one, message="m"), lease=lease_of_one)).revision == 2
        await work.commit()


async def test_ids_are_of_one_project_and_task_when_they_are_listed(store: Store) -> None:
    await add(store, make_run("r2", task="python+job://p/t1"), make_run("r1", task="python+job://p/t2"))
    await add(store, make_run("r3", project="other", task="python+job://other/t1"))
    async with store.begin(is_read_only=True) as work:
        assert list(await work.runs.list_ids(project="p")) == ["r1", "r2"]
        assert list(await work.runs.list_ids(project="p", task="python+job://p/t1")) == ["r2"]


async def test_deleting_runs_are_left_out_when_ids_of_others_are_asked_for(store: Store) -> None:
    await add(store, make_run("r1", state="DELETING"), make_run("r2"))
    async with store.begin(is_read_only=True) as work:
        assert list(await work.runs.list_ids(project="p", is_without_deleting=True)) == ["r2"]


async def test_histories_are_whole_when_several_runs_are_asked_for(store: Store) -> None:
    async with store.begin() as work:
        for name in ("r1", "r2", "r3"):
            await work.runs.add(make_run(name), [make_transition(1), make_transition(2, state=State.READY)])
        await work.runs.add(make_run("r4"), [])
        await work.commit()
    async with store.begin(is_read_only=True) as work:
        found = await work.runs.list_histories(["r3", "r1", "r4", "nobody"])
        assert found == {name: list(await work.runs.list_transitions(name)) for name in ("r1", "r3")}
        assert await work.runs.list_histories([]) == {}


async def test_histories_are_bounded_when_lists_show_them(store: Store) -> None:
    many = [make_transition(number, message="é" * 600) for number in range(1, LISTED_TRANSITIONS + 4)]
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), many)
        await work.runs.add(make_run("r2"), [make_transition(1)])
        await work.commit()
    async with store.begin(is_read_only=True) as work:
        found = await work.runs.list_brief_histories(["r2", "r1", "nobody"])
    newest = [replace(step, message="é" * LISTED_MESSAGE_CHARACTERS) for step in many[-LISTED_TRANSITIONS:]]
    assert found == {"r1": newest, "r2": [make_transition(1)]}


async def test_pages_are_shorter_when_lists_show_more_than_documents(store: Store) -> None:
    await add(store, *(make_run(f"r{number}") for number in range(5)))
    async with store.begin(is_read_only=True) as work:
        page = await work.runs.find_page(
            Query(type="run", is_brief=True, most_bytes=3 * (SMALL_BYTES + LISTED_RUN_BYTES))
        )
        whole = await work.runs.find_page(Query(type="run", most_bytes=3 * SMALL_BYTES))
    assert (page.size, whole.size) == (3, 3)


async def test_states_are_counted_when_there_are_several(store: Store) -> None:
    await add(store, make_run("r1"), make_run("r2", state="STOPPED"), make_run("r3", state="STOPPED"))
    async with store.begin(is_read_only=True) as work:
        assert await work.runs.count_states() == {"READY": 1, "STOPPED": 2}


async def test_page_is_without_the_decision_when_it_is_to_be_brief(store: Store) -> None:
    run = make_run("r1", effective={"image": "a"}, provenance=({"path": "image"},))
    await add(store, run)
    async with store.begin(is_read_only=True) as work:
        whole = await work.runs.find_page(Query(type="run"))
        brief = await work.runs.find_page(Query(type="run", is_brief=True))
    assert whole.content == (run,)
    assert brief.content == (replace(run, request={}, effective=None, provenance=()),)


async def test_runs_stay_apart_when_projects_use_the_same_id(store: Store) -> None:
    ours = make_run("r1", uid="u1", metadata={"labels": ["x"]}, last_sequence=1)
    theirs = make_run("r1", uid="u2", project="q", metadata={"labels": ["y"]}, last_sequence=2)
    async with store.begin() as work:
        await work.runs.add(ours, [make_transition(1)])
        await work.runs.add(theirs, [make_transition(1), make_transition(2)])
        await work.metrics.put("run", "r1", "loss", 1.0, project="p")
        await work.metrics.put("run", "r1", "loss", 2.0, project="q")
        with pytest.raises(Duplicate, match="run r1 exists already in project q"):
            await work.runs.add(make_run("r1", uid="u3", project="q"), [])
        await work.commit()

    async with store.begin() as work:
        assert await work.runs.find("r1", project="p") == ours
        assert await work.runs.find("r1", project="q") == theirs
        assert await work.runs.find_by_uid("u2") == theirs
        assert await work.runs.find_by_uid("r1") is None
        assert await work.runs.list_histories(["u1", "u2", "r1"]) == {
            "u1": [make_transition(1)],
            "u2": [make_transition(1), make_transition(2)],
        }
        changed = await work.runs.update(theirs, replace(theirs, state="RUNNING"))
        assert await work.runs.find("r1", project="p") == ours
        assert await work.runs.delete(["u1", "r1"]) == ["u1"]
        assert await work.runs.find("r1", project="q") == changed
        assert await work.metrics.list_values("run", "r1", project="p") == {}
        assert await work.metrics.list_values("run", "r1", project="q") == {"loss": 2.0}
        assert await work.runs.has_tombstone("r1", project="p") is True
        assert await work.runs.has_tombstone("r1", project="q") is False
        page = await work.runs.find_page(Query(type="run", labels=("y",)))
        assert page.content == (changed,)


async def test_earlier_run_is_stale_when_its_id_is_used_again(store: Store) -> None:
    earlier, later = make_run("r1", uid="u1"), make_run("r1", uid="u2")
    await add(store, earlier)
    async with store.begin() as work:
        await work.runs.delete(["u1"])
        await work.runs.add(later, [])
        with pytest.raises(Stale):
            await work.runs.update(earlier, earlier)
        assert await work.runs.find("r1", project="p") == later
        assert await work.runs.has_tombstone("r1", project="p") is False


async def test_pages_are_short_when_a_run_is_large_or_has_grown(store: Store) -> None:
    query = Query(type="run", project="p", size=1000, most_bytes=100_000, is_brief=True)
    run = make_run("r1")
    await add(store, run)
    for status, spec, size in (({"text": "a" * 20_000}, {}, 3), ({}, {"a": "b" * 40_000}, 1)):
        async with store.begin() as work:
            run = await work.runs.update(run, replace(run, status=status, spec=spec))
            await work.commit()
        async with store.begin(is_read_only=True) as work:
            assert (await work.runs.find_page(query)).size == size
    await add(store, make_run("r2", project="other", spec={"a": "b" * 20_000}))
    async with store.begin(is_read_only=True) as work:
        page = await work.runs.find_page(replace(query, project="other"))
    assert (page.size, page.total, [run.id for run in page.content]) == (3, 1, ["r2"])


async def test_summary_of_a_run_has_metadata_only_when_it_is_asked_for(store: Store) -> None:
    await add(store, make_run("r1", metadata={"c": 1}, spec={"a": 1}, status={"b": 1}, warnings=({"code": "c"},)))
    async with store.begin(is_read_only=True) as work:
        (found,) = (await work.runs.find_page(Query(type="run", is_summary=True))).content
        (bare,) = (await work.runs.find_page(Query(type="run", is_without_documents=True))).content
        whole = await work.runs.find("r1", project="p")
    assert bare == replace(found, metadata={})
    assert whole is not None
    summary = replace(whole, spec={}, status={}, extensions=(), warnings=(), request={}, effective=None, provenance=())
    assert found == summary


MOUNTS = {"action": "job", "volumes": [{"name": "data", "claim_name": "vol-1"}]}
KEEPS = {"action": "job", "volumes": [{"name": "out", "lifetime": "keep"}]}


async def test_runs_with_claims_are_listed_when_they_have_not_ended(store: Store) -> None:
    await add(
        store, *(make_run(f"r-{state}", state=state, effective=MOUNTS) for state in ("READY", "STOPPED", "ERROR"))
    )
    await add(store, make_run("keeps", effective=KEEPS), make_run("plain", effective={"action": "job"}))
    await add(store, make_run("none", effective=None), make_run("elsewhere", project="q", effective=MOUNTS))
    async with store.begin(is_read_only=True) as work:
        listed = await work.runs.list_mounting(project="p", limit=10)
        assert [(run.uid, run.id, run.state) for run in listed] == [
            ("keeps", "keeps", "READY"),
            ("r-READY", "r-READY", "READY"),
            ("r-STOPPED", "r-STOPPED", "STOPPED"),
        ]
        assert listed[1].effective == MOUNTS
        [last] = await work.runs.list_mounting(project="p", after="r-READY", limit=10)
        assert last.id == "r-STOPPED"
        assert len(await work.runs.list_mounting(project="p", limit=2)) == 2
        assert not await work.runs.list_mounting(project="p", since=NOON + timedelta(days=1), limit=2)
