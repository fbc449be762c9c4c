"""What the contract suite cannot see: crashes between two steps, places that vanish, engines that share a place."""

import asyncio
import errno
import os
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from runyard.app.engine import EngineRefusal, EngineUnavailable, Observation
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.local import local_engine, run_starts, run_watch
from runyard.engines.local.local_engine import LocalEngine
from runyard.engines.local.local_settings import LocalSettings
from runyard.procs import iter_orphans, plan, start
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.resources import Sides
from tests.contract.engine.lab import (
    FixedAccess,
    assign,
    assign_again,
    assign_service,
    begin,
    begin_and_see,
    eventually,
    join,
    make_anchor,
    read_log,
    recording,
    see,
)
from tests.contract.engine.local_lab import LocalLab, iter_supervisors, open_local_lab
from tests.contract.engine.scripts import leave, say


@pytest.fixture
async def lab() -> AsyncIterator[LocalLab]:
    async with open_local_lab() as opened:
        yield opened


def take_everything() -> dict[str, object]:
    cores = Quantity.from_int(len(os.sched_getaffinity(0)))
    return {"resources": {"cpu": Sides(requests=cores, limits=cores)}}


async def test_run_is_held_and_can_be_released_again_when_the_server_dies_before_the_start(
    lab: LocalLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_args: object, **_options: object) -> int:
        raise OSError("no more processes")

    run = assign(lab, say("done"))
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    with monkeypatch.context() as patched:
        patched.setattr(run_starts, "start", die)
        with pytest.raises(EngineUnavailable, match="no more processes"):
            await lab.engine.release(run, anchor.uid)
    assert (await lab.engine.observe(anchor)).seen is Seen.HELD
    assert (await lab.engine.snapshot()).pods == ()
    await lab.engine.release(run, anchor.uid)
    await see(lab, anchor, Seen.SUCCEEDED)
    (source,) = await lab.engine.list_log_sources(anchor)
    assert join(await read_log(lab, source)) == b"done\n"


async def test_run_is_refused_with_the_reason_when_its_plan_is_too_large(
    lab: LocalLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "LARGEST_PLAN_BYTES", 100)
    run = assign(lab)
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    with pytest.raises(EngineRefusal, match="bytes; at most 100") as refusal:
        await lab.engine.release(run, anchor.uid)
    assert refusal.value.code == Reason.START_FAILED
    assert (await lab.engine.snapshot()).pods == ()


async def test_reason_is_told_when_the_disk_is_full(lab: LocalLab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = assign(lab)
    monkeypatch.setattr(local_engine, "create_run_folder", fail)
    with pytest.raises(EngineUnavailable, match="No space left on device"):
        await lab.engine.ensure_anchor(run)


async def test_nothing_is_absent_when_the_place_itself_is_gone(lab: LocalLab) -> None:
    run = assign(lab)
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    moved = lab.place.with_name("moved")
    lab.place.rename(moved)
    try:
        with pytest.raises(EngineUnavailable):
            await lab.engine.observe(anchor)
        with pytest.raises(EngineUnavailable):
            await lab.engine.find_anchor(run)
        with pytest.raises(EngineUnavailable):
            await lab.engine.list_anchors()
    finally:
        moved.rename(lab.place)
    assert await lab.engine.find_anchor(run) == anchor.uid


async def test_nothing_is_absent_when_another_place_has_its_folder(lab: LocalLab) -> None:
    run = assign(lab)
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    (lab.place / "place.json").write_text('{"uid": "another"}')
    assert (await lab.engine.observe(anchor)).seen is Seen.HELD
    with pytest.raises(EngineUnavailable):
        await lab.engine.observe(make_anchor(assign(lab), "unknown"))


async def test_service_starts_again_when_it_is_released_while_it_stops(lab: LocalLab) -> None:
    run = assign_service(lab, say("begins"), "trap '' TERM", "sleep 1000")
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await lab.engine.release(assign_again(run, generation=3), anchor.uid)
    seen = await lab.engine.observe(anchor)
    assert (seen.seen, seen.generation) == (Seen.PENDING, 3)
    assert seen.message == "waits until it has stopped"
    await eventually(lab, lambda: lab.engine.list_log_sources(anchor), lambda sources: len(sources) == 2)
    await see(lab, anchor, Seen.RUNNING)


async def test_run_that_waits_starts_when_the_one_before_it_has_ended(lab: LocalLab) -> None:
    first, second = assign(lab, spec=take_everything()), assign(lab, leave(0), run_id="r2", spec=take_everything())
    before = await begin_and_see(lab, first, Seen.RUNNING)
    after = await begin(lab, second)
    waiting = await see(lab, after, Seen.PENDING)
    assert waiting.reason == Reason.RESOURCES_WAITING
    assert await lab.engine.list_log_sources(after) == []
    other = await lab.reopen()
    assert (await other.observe(after)).seen is Seen.HELD
    await lab.engine.stop(assign_again(first, generation=2), before.uid)
    await see(lab, after, Seen.SUCCEEDED)
    await eventually(lab, lab.engine.snapshot, lambda taken: taken.pods == ())


class BrokenAccess(FixedAccess):
    """The store of secrets fails, once it is asked again."""

    asked = 0

    async def read_secrets(self) -> dict[str, str]:
        type(self).asked += 1
        if type(self).asked > 1:
            raise RuntimeError("the store stumbled")
        return {}


async def test_others_start_when_a_run_that_waited_cannot_be_started(lab: LocalLab) -> None:
    first = assign(lab, spec=take_everything())
    before = await begin_and_see(lab, first, Seen.RUNNING)
    broken = assign(lab, run_id="r2", spec=take_everything(), access=BrokenAccess())
    whole = assign(lab, leave(0), run_id="r3", spec=take_everything())
    held, after = await begin(lab, broken), await begin(lab, whole)
    await lab.engine.stop(assign_again(first, generation=2), before.uid)
    await see(lab, after, Seen.SUCCEEDED)
    assert (await lab.engine.observe(held)).seen is Seen.HELD


async def test_run_is_tried_later_when_too_many_wait(lab: LocalLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_starts, "MOST_WAITING", 1)
    await begin_and_see(lab, assign(lab, spec=take_everything()), Seen.RUNNING)
    await begin(lab, assign(lab, run_id="r2", spec=take_everything()))
    late = assign(lab, run_id="r3", spec=take_everything())
    uid = await lab.engine.ensure_anchor(late)
    with pytest.raises(EngineUnavailable) as failure:
        await lab.engine.release(late, uid)
    assert failure.value.code == Reason.RESOURCES_WAITING
    assert (await lab.engine.observe(make_anchor(late, uid))).seen is Seen.HELD


async def test_each_try_ends_for_itself_when_a_job_is_retried(lab: LocalLab) -> None:
    anchor = await begin(lab, assign(lab, leave(4), spec={"backoff_limit": 1}))
    seen = await see(lab, anchor, Seen.FAILED, Seen.SUCCEEDED)
    assert [(end.instance, end.exit_code) for end in seen.ends] == [(0, 4), (1, 4)]
    assert len(await lab.engine.list_log_sources(anchor)) == 2


async def test_run_that_waits_never_starts_when_it_is_stopped_or_removed(lab: LocalLab) -> None:
    first = assign(lab, spec=take_everything())
    before = await begin_and_see(lab, first, Seen.RUNNING)
    runs = [assign(lab, run_id=name, spec=take_everything()) for name in ("r2", "r3")]
    stopped, removed = [await begin(lab, run) for run in runs]
    await lab.engine.stop(assign_again(runs[0], generation=2), stopped.uid)
    await lab.engine.remove(removed)
    await see(lab, removed, Seen.ABSENT)
    await lab.engine.stop(assign_again(first, generation=2), before.uid)
    await see(lab, before, Seen.STOPPED)
    await lab.pass_time()
    assert (await lab.engine.observe(stopped)).seen is Seen.STOPPED
    assert await lab.engine.list_log_sources(stopped) == []


async def test_other_runs_start_when_the_first_that_has_room_again_cannot(
    lab: LocalLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = assign(lab, spec=take_everything())
    before = await begin_and_see(lab, first, Seen.RUNNING)
    half = Quantity.parse("100m")
    spec = {"resources": {"cpu": Sides(requests=half, limits=half)}}
    waiting = [await begin(lab, assign(lab, leave(0), run_id=name, spec=spec)) for name in ("r2", "r3")]
    for anchor in waiting:
        await see(lab, anchor, Seen.PENDING)
    failed: list[Path] = []

    def fail_once(folder: Path, *args: Any, **options: Any) -> int:
        if not failed:
            failed.append(folder)
            raise ValueError("whatever it is")
        return start(folder, *args, **options)

    monkeypatch.setattr(run_starts, "start", fail_once)
    await lab.engine.stop(assign_again(first, generation=2), before.uid)
    await see(lab, waiting[1], Seen.SUCCEEDED)
    assert (await lab.engine.observe(waiting[0])).seen is Seen.HELD
    await eventually(lab, lab.engine.snapshot, lambda snapshot: snapshot.pods == ())


async def test_engine_still_hears_of_runs_when_somebody_sends_the_folder_of_all_of_them(lab: LocalLab) -> None:
    (address,) = (lab.place / "listeners").iterdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for content in (os.fsencode(lab.place / "runs"), b"", b"\0", b"/" * 5000, b"\xff"):
            sender.sendto(content, str(address))
    run = assign(lab, leave(0))
    async with recording(lab.engine.changes()) as told:
        await begin(lab, run)
        await eventually(lab, lambda: _return(told.items), has_succeeded)


def has_succeeded(batches: Sequence[Sequence[Observation]]) -> bool:
    return any(one.seen is Seen.SUCCEEDED for batch in batches for one in batch)


async def test_runs_start_when_the_files_of_others_take_long_to_delete(
    lab: LocalLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(run_watch, "remove_tree", lambda *_args, **_options: is_over.wait(300))
    try:
        async with asyncio.timeout(150):
            for number in range(run_watch.THREADS + 1):
                anchor = await begin_and_see(lab, run := assign(lab, leave(0), run_id=f"r{number}"), Seen.SUCCEEDED)
                assert await lab.engine.settle(run, anchor.uid)
                await lab.engine.remove(anchor)
                await see(lab, anchor, Seen.ABSENT)
            await begin_and_see(lab, assign(lab, leave(0), run_id="last"), Seen.SUCCEEDED)
    finally:
        is_over.set()


async def test_leftovers_of_a_crash_go_when_nobody_has_touched_them_for_long(lab: LocalLab) -> None:
    folders = [lab.place / "runs", lab.place / "projects", lab.place / "projects" / lab.project / "volumes"]
    left = [
        folder / f"{name}{age}" for folder in folders for name in (".new-", ".removed-") for age in ("old", "young")
    ]
    for path in left:
        (path / "a").mkdir(parents=True)
        if path.name.endswith("old"):
            os.utime(path, (0, 0))
    await lab.reopen()
    await eventually(lab, lambda: _return([path for path in left if path.exists()]), lambda rest: len(rest) == 6)
    assert all(path.exists() == path.name.endswith("young") for path in left)


async def _return(value: Any) -> Any:
    return value


async def test_supervisor_is_ended_when_its_folder_was_deleted_while_no_engine_was_open(lab: LocalLab) -> None:
    run = assign(lab)
    await begin_and_see(lab, run, Seen.RUNNING)
    await lab.engine.close()
    await lab.lose(run)
    assert len(list(iter_orphans(lab.place / "runs"))) == 1
    await lab.reopen()

    async def list_supervisors() -> list[int]:
        return list(iter_supervisors(lab.place))

    await eventually(lab, list_supervisors, lambda pids: pids == [])


async def test_changes_of_runs_are_told_when_the_place_is_named_by_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    engine = await LocalEngine.open(LocalSettings(folder=Path("data/local"), endpoint="http://localhost:8080"))
    lab = LocalLab(tmp_path, engine)
    lab.place = tmp_path / "data" / "local"
    (tmp_path / "words").mkdir(mode=0o777)
    try:
        await engine.ensure_project(lab.project, AdminRules())
        async with recording(engine.changes()) as changes:
            run = assign(lab, leave(3))
            await begin(lab, run)
            await eventually(lab, lambda: changes.list_seen(run), lambda seen: Seen.FAILED in seen)
    finally:
        await lab.close()


async def test_only_names_of_runs_are_looked_at_when_leftovers_are_in_the_place(lab: LocalLab) -> None:
    old = lab.place / "runs" / ".removed-1"
    (old / "deep").mkdir(parents=True)
    os.utime(old, (0, 0))
    young = lab.place / "runs" / ".new-1"
    young.mkdir()
    other = await lab.reopen()
    assert (await other.list_anchors()).observations == []

    async def list_names() -> list[str]:
        return sorted(path.name for path in (lab.place / "runs").iterdir())

    assert await eventually(lab, list_names, lambda names: names == [".new-1"]) == [".new-1"]
    await asyncio.to_thread(shutil.rmtree, young)
