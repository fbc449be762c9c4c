"""Output of containers: every byte once and in order, or a gap that says why not."""

from runyard.app.engine import EngineUnavailable, LogChunk, LogGap
from runyard.domain.outcomes import Seen
from tests.contract.engine.lab import (
    Lab,
    assign,
    assign_service,
    begin_and_see,
    eventually,
    join,
    make_anchor,
    needs,
    read_log,
    recording,
    see,
)
from tests.contract.engine.scripts import WAIT_FOREVER, leave, say, wait_for, write_numbers, write_octal

NUMBERS = b"".join(b"%d\n" % number for number in range(1, 30_001))


async def test_there_are_no_sources_when_nothing_has_run(lab: Lab) -> None:
    run = assign(lab)
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    assert await lab.engine.list_log_sources(anchor) == []


async def test_log_is_whole_when_the_run_has_ended(lab: Lab) -> None:
    run = assign(lab, say("first"), write_octal("351"), say("last"))
    anchor = await begin_and_see(lab, run, Seen.SUCCEEDED)
    (source,) = await lab.engine.list_log_sources(anchor)
    assert source.run_uid == run.run_uid
    items = await read_log(lab, source)
    assert join(items) == b"first\n\xe9last\n"
    assert all(isinstance(item, LogChunk) and item.at.tzinfo is not None for item in items)


async def test_log_is_followed_to_its_end_when_the_run_is_at_work(lab: Lab) -> None:
    run = assign(lab, say("first"), wait_for("more"), say("second"), wait_for("end"), write_octal("041"))
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    (source,) = await eventually(lab, lambda: lab.engine.list_log_sources(anchor), lambda found: len(found) == 1)
    async with recording(lab.engine.follow_log(source)) as log:
        await eventually(lab, log.read_content, lambda content: content == b"first\n")
        await lab.pass_time()
        assert not await log.has_ended()
        await lab.send(run, "more")
        await eventually(lab, log.read_content, lambda content: content == b"first\nsecond\n")
        assert not await log.has_ended()
        await lab.send(run, "end")
        await eventually(lab, log.has_ended, lambda ended: ended)
        assert log.error is None
        assert await log.read_content() == b"first\nsecond\n!"


def check_same(content: bytes, expected: bytes) -> None:
    """As `assert content == expected`, without a diff: pytest takes minutes for one of large texts."""
    is_same = content == expected
    assert is_same, f"{len(content)} bytes instead of {len(expected)}, or others"


async def test_nothing_is_missing_or_doubled_when_reading_resumes_after_any_chunk(lab: Lab) -> None:
    run = assign(lab, write_numbers(30_000), say("end"), wait_for("leave"))
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    (source,) = await eventually(lab, lambda: lab.engine.list_log_sources(anchor), lambda found: len(found) == 1)
    # containerd 1.6 loses what a program has written just before it ends, if the machine is busy.
    async with recording(lab.engine.follow_log(source)) as log:
        await eventually(lab, log.read_content, lambda content: content.endswith(b"end\n"))
    await lab.send(run, "leave")
    await see(lab, anchor, Seen.SUCCEEDED)
    items = await read_log(lab, source)
    check_same(join(items), NUMBERS + b"end\n")
    for index in {0, len(items) // 2, len(items) - 1}:
        rest = await read_log(lab, source, after=items[index].position)
        check_same(join(items[: index + 1]) + join(rest), NUMBERS + b"end\n")
    other = await lab.reopen()
    async with recording(other.follow_log(source, after=items[0].position)) as log:
        await eventually(lab, log.has_ended, lambda ended: ended)
    check_same(join(items[:1]) + await log.read_content(), NUMBERS + b"end\n")


async def test_restarted_container_is_another_source_when_it_writes_again(lab: Lab) -> None:
    run = assign_service(lab, say("begins"), wait_for("again"), leave(1))
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    (first,) = await eventually(lab, lambda: lab.engine.list_log_sources(anchor), lambda found: len(found) == 1)
    async with recording(lab.engine.follow_log(first)) as log:
        await eventually(lab, log.read_content, lambda content: content == b"begins\n")
        await lab.send(run, "again")
        await eventually(lab, log.has_ended, lambda ended: ended)
        assert log.error is None
        assert await log.read_content() == b"begins\n"
    sources = await eventually(lab, lambda: lab.engine.list_log_sources(anchor), lambda found: len(found) == 2)
    assert sources[0] == first
    assert sources[1] != first
    async with recording(lab.engine.follow_log(sources[1])) as log:
        await eventually(lab, log.read_content, lambda content: content == b"begins\n")


async def test_sources_are_of_their_run_when_two_runs_have_the_same_id(lab: Lab) -> None:
    first, second = assign(lab, say("one")), assign(lab, say("two"), project=lab.other_project)
    anchors = [await begin_and_see(lab, run, Seen.SUCCEEDED) for run in (first, second)]
    logs = []
    for anchor in anchors:
        (source,) = await lab.engine.list_log_sources(anchor)
        assert source.run_uid == anchor.run_uid
        logs.append(join(await read_log(lab, source)))
    assert logs == [b"one\n", b"two\n"]


@needs("rotation")
async def test_gap_says_why_when_output_was_rotated_away(lab: Lab) -> None:
    run = assign(lab, say("lost"), wait_for("more"), say("kept"))
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    (source,) = await eventually(lab, lambda: lab.engine.list_log_sources(anchor), lambda found: len(found) == 1)
    await lab.pass_time()
    await lab.rotate_log(run)
    await lab.send(run, "more")
    await see(lab, anchor, Seen.SUCCEEDED)
    # A log that is read as it is written looks like one that begins there; this one is read long after.
    await lab.pass_time()
    await lab.pass_time()
    items = await read_log(lab, source)
    gaps = [item for item in items if isinstance(item, LogGap)]
    assert isinstance(items[0], LogGap)
    assert len(gaps) == 1
    assert gaps[0].cause
    assert gaps[0].since <= gaps[0].until
    assert join(items) == b"kept\n"
    resumed = await read_log(lab, source, after=gaps[0].position)
    assert join(resumed) == b"kept\n"
    assert not any(isinstance(item, LogGap) for item in resumed)


async def test_gap_says_why_when_the_container_is_gone(lab: Lab) -> None:
    run = assign(lab, say("lost"), WAIT_FOREVER)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    (source,) = await eventually(lab, lambda: lab.engine.list_log_sources(anchor), lambda found: len(found) == 1)
    await lab.pass_time()
    await lab.lose(run)
    await eventually(lab, lambda: lab.engine.observe(anchor), lambda seen: seen.seen is Seen.ABSENT)
    items = await read_log(lab, source)
    gaps = [item for item in items if isinstance(item, LogGap)]
    assert gaps or join(items) == b"lost\n"
    assert all(gap.cause for gap in gaps)


@needs("cut")
async def test_rest_is_read_later_when_the_place_could_not_be_reached(lab: Lab) -> None:
    run = assign(lab, say("before"), wait_for("more"), say("after"))
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    (source,) = await eventually(lab, lambda: lab.engine.list_log_sources(anchor), lambda found: len(found) == 1)
    async with recording(lab.engine.follow_log(source)) as log:
        await eventually(lab, log.read_content, lambda content: content == b"before\n")
        await lab.cut()
        await eventually(lab, log.has_ended, lambda ended: ended)
    assert isinstance(log.error, EngineUnavailable)
    await lab.mend()
    await lab.send(run, "more")
    rest = await read_log(lab, source, after=log.items[-1].position)
    assert await log.read_content() + join(rest) == b"before\nafter\n"
