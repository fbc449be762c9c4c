"""What changed since a time, in pages by keyset, without documents."""

from runyard.app.ports import Store
from runyard.domain.lifecycle import State
from tests.contract.store.builders import after, make_entity, make_run, make_transition


async def test_changed_entities_come_in_order_of_update_when_they_are_paged(store: Store) -> None:
    async with store.begin() as work:
        for number, seconds in enumerate([5, 1, 3, 3, 3]):
            await work.entities.add(make_entity(f"f{number}", name=f"f{number}", updated_at=after(seconds)))
        await work.entities.add(make_entity("t1", type="artifact", updated_at=after(3)))
        await work.entities.add(make_entity("q1", project="q", updated_at=after(3)))
        await work.commit()

    found: list[str] = []
    async with store.begin(is_read_only=True) as work:
        last = None
        while page := await work.entities.list_changed("function", project="p", since=after(2), after=last, limit=2):
            found += [entity.id for entity in page]
            last = (page[-1].updated_at, page[-1].id)
            assert all(entity.metadata == {"description": "d"} for entity in page)
            assert all(entity.spec == {} and entity.status == {} for entity in page)
    assert found == ["f2", "f3", "f4", "f0"]


async def test_changed_runs_come_with_the_states_that_they_entered_since_when_they_are_paged(store: Store) -> None:
    steps = [
        make_transition(1, state=State.CREATED, at=after(1)),
        make_transition(2, state=State.READY, at=after(2)),
        make_transition(3, state=State.RUNNING, at=after(3)),
    ]
    async with store.begin() as work:
        await work.runs.add(make_run("r1", updated_at=after(3)), steps)
        await work.runs.add(make_run("r2", updated_at=after(4)), steps[:1])
        await work.runs.add(make_run("r0", updated_at=after(1)), steps[:1])
        await work.runs.add(make_run("q1", project="q", updated_at=after(3)), steps)
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        [first] = await work.runs.list_changed(project="p", since=after(2), limit=1)
        place = (first.updated_at, first.id)
        [second] = await work.runs.list_changed(project="p", since=after(2), after=place, limit=5)
        entered = await work.runs.list_histories([first.uid, second.uid], since=after(2))
    assert (first.id, [(step.state, step.sequence) for step in entered[first.uid]]) == (
        "r1",
        [(State.READY, 2), (State.RUNNING, 3)],
    )
    assert (second.id, second.uid in entered) == ("r2", False)
    assert all(run.spec == {} and run.status == {} and run.request == {} for run in (first, second))


async def test_brief_entities_of_all_projects_come_in_order_when_they_are_paged(store: Store) -> None:
    async with store.begin() as work:
        for project, entity_id in (("q", "a"), ("p", "c"), ("p", "b"), ("q", "b")):
            await work.entities.add(make_entity(entity_id, type="trigger", name=entity_id, project=project))
        await work.entities.add(make_entity("f1"))
        await work.commit()

    async with store.begin(is_read_only=True) as work:
        first = await work.entities.list_brief("trigger", limit=2)
        rest = await work.entities.list_brief("trigger", after=("b", "p"), limit=2)
    assert [(one.id, one.project) for one in first] == [("a", "q"), ("b", "p")]
    assert [(one.id, one.project) for one in rest] == [("b", "q"), ("c", "p")]
    assert all(one.spec == {} and one.metadata == {} for one in first)
