"""Ends of containers: what is stored stays, through restarts of the server and resumes of a service."""

from typing import Any

import pytest

from runyard.app.engine import LONGEST_NAME_BYTES, LONGEST_REASON_BYTES, MOST_ENDS, ContainerEnd, Observation
from runyard.app.loops.run_updates import record_observation
from runyard.app.loops.stored_ends import merge_stored_ends
from runyard.app.model import Run
from runyard.app.runs.resume import resume_run
from runyard.app.runs.run_deletion import delete_run
from runyard.app.runs.stop import stop_run
from runyard.domain.outcomes import Seen
from tests.unit.app.run_world import ADA, SERVICE, START, World, make_run

FIRST = ContainerEnd(pod="a", container="main", exit_code=137, is_out_of_memory=True, peak_bytes=900)
SECOND = ContainerEnd(pod="b", container="main", exit_code=1)


def make_ends(*numbers: int) -> tuple[ContainerEnd, ...]:
    return tuple(ContainerEnd(pod="p", container="main", instance=number, exit_code=1) for number in numbers)


def list_instances(stored: list[dict[str, Any]]) -> list[int]:
    return [end["instance"] for end in stored]


def observe(run: Run, *ends: ContainerEnd, seen: Seen = Seen.RUNNING, version: int = 1) -> dict[str, Any] | None:
    """What an observation of a running run writes."""
    observation = Observation(run_uid=run.uid, uid="u", seen=seen, version=version, generation=1, ends=ends)
    change = record_observation(observation, now=START)(run)
    return None if change is None else dict(change.values)


def make_running(*ends: ContainerEnd) -> Run:
    status = {"ends": merge_stored_ends([], ends)}
    return make_run("r1", state="RUNNING", anchor_uid="u", status=status, observed_version=1, observed_generation=1)


def test_ends_stay_when_a_new_process_has_seen_only_the_newest() -> None:
    values = observe(make_running(FIRST), SECOND, version=2)
    assert values is not None
    assert [(end["pod"], end["exit_code"], end.get("peak_bytes")) for end in values["status"]["ends"]] == [
        ("a", 137, 900),
        ("b", 1, None),
    ]


@pytest.mark.parametrize("seen", [Seen.RUNNING, Seen.PENDING])
@pytest.mark.parametrize("ends", [(), (FIRST,), (SECOND,), (SECOND, FIRST)])
def test_nothing_is_written_when_all_ends_are_stored(seen: Seen, ends: tuple[ContainerEnd, ...]) -> None:
    assert observe(make_running(FIRST, SECOND), *ends, seen=seen, version=9) is None


def test_what_is_known_of_an_end_stays_when_it_is_seen_with_less() -> None:
    known = ContainerEnd(
        pod="a", container="main", exit_code=137, signal=9, is_out_of_memory=True, peak_bytes=900, reason="x"
    )
    less = ContainerEnd(pod="a", container="main", peak_bytes=700)
    assert merge_stored_ends(merge_stored_ends([], [known]), [less]) == merge_stored_ends([], [known])
    assert merge_stored_ends(merge_stored_ends([], [less]), [known]) == merge_stored_ends([], [known])


def test_newest_ends_are_kept_when_there_are_too_many() -> None:
    stored = merge_stored_ends([], make_ends(*range(MOST_ENDS)))
    merged = merge_stored_ends(stored, make_ends(MOST_ENDS, MOST_ENDS + 1))
    assert list_instances(merged) == list(range(2, MOST_ENDS + 2))


def test_nothing_changes_when_an_observation_is_merged_again() -> None:
    """Those that are listed are never the ones that go, or they would come and go with every report."""
    stored = merge_stored_ends([], make_ends(*range(MOST_ENDS)))
    seen = make_ends(0, 1, *range(60, 90))
    once = merge_stored_ends(stored, seen)
    assert (len(once), once[-1]["instance"]) == (MOST_ENDS, 89)
    assert merge_stored_ends(once, seen) == once


def test_texts_are_cut_when_a_cluster_sends_long_ones() -> None:
    (end,) = merge_stored_ends([], [ContainerEnd(pod="p" * 9999, container="c" * 9999, reason="r" * 9999)])
    assert [len(end[key]) for key in ("pod", "container", "reason")] == [
        LONGEST_NAME_BYTES,
        LONGEST_NAME_BYTES,
        LONGEST_REASON_BYTES,
    ]


async def stop_and_forget(world: World) -> None:
    """Stop the run; then the engine knows nothing of its ends anymore, as in a new process."""
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    for thing in world.engine.things.values():
        thing.ends.clear()


async def test_ends_of_earlier_pods_stay_when_a_service_is_resumed(world: World) -> None:
    await world.submit(effective=SERVICE, kind="container+serve:run")
    await world.settle()
    await stop_and_forget(world)
    await resume_run(world.core, ADA, "p", "r1")
    await world.settle()
    running = await world.get()
    assert (running.state, list_instances(running.status["ends"])) == ("RUNNING", [0])
    await stop_and_forget(world)
    assert list_instances((await world.get()).status["ends"]) == [0, 1]


async def test_ends_are_not_those_of_the_earlier_run_when_an_id_is_used_again(world: World) -> None:
    await world.submit(uid="one", effective=SERVICE, kind="container+serve:run")
    await world.settle()
    await stop_and_forget(world)
    await delete_run(world.core, ADA, "p", "r1")
    await world.settle()
    await world.submit(uid="another", effective=SERVICE, kind="container+serve:run")
    await world.settle()
    running = await world.get()
    assert (running.uid, running.state, "ends" in running.status) == ("another", "RUNNING", False)
