"""Where a follow may have skipped a rotated file."""

import pytest

from runyard.kube.streams.loglines import LineParser, LogBlock, LogLine
from runyard.kube.streams.rotation import SMALLEST_ROTATED_BYTES, Pause, SkipDetector, split_block

SECOND = 1_000_000_000


def make_block(*seconds: float) -> LogBlock:
    return LogBlock.join([LogLine(int(moment * SECOND), f"{moment}".encode()) for moment in seconds])


LARGE = LogBlock.join([LogLine(0, b"x" * SMALLEST_ROTATED_BYTES)])
LIVE = 0.1
"""How late a line is read by a follow that is up to date."""


def find_pauses(detector: SkipDetector, *blocks: LogBlock, late: float) -> list[tuple[float, float]]:
    """Where files may have been skipped, in seconds; each block is read that long after its last line was written."""
    found = [
        pause for block in blocks for pause in detector.find_pauses(block, now_ns=block.written_ns + int(late * SECOND))
    ]
    return [(since_ns / SECOND, until_ns / SECOND) for since_ns, until_ns in found]


@pytest.mark.parametrize(
    ("first", "late", "later", "found"),
    [
        (LARGE, 4.0, (1.0, 5.0), [(1.0, 5.0)]),
        (LARGE, 4.0, (5.0, 5.1), [(0.0, 5.0)]),
        (LARGE, 4.0, (5.0, 9.0), [(0.0, 5.0), (5.0, 9.0)]),
        (LARGE, 4.0, (1.0, 3.5), []),
        (make_block(0), 4.0, (1.0, 5.0), []),
    ],
)
def test_pauses_are_suspicious_when_lines_were_read_late_and_are_as_far_apart_as_rotations(
    first: LogBlock, late: float, later: tuple[float, ...], found: list[tuple[float, float]]
) -> None:
    assert find_pauses(SkipDetector(is_resumed=False), first, make_block(*later), late=late) == found


def test_only_the_first_pause_is_suspicious_when_the_follow_is_up_to_date() -> None:
    """The node may have missed a rotation while it read for the first time all that there was; later it does not."""
    blocks = [make_block(at) for at in (5, 10, 15)]
    assert find_pauses(SkipDetector(is_resumed=False), LARGE, *blocks, late=LIVE) == [(0, 5)]
    assert find_pauses(SkipDetector(is_resumed=False, is_new=False), LARGE, *blocks, late=LIVE) == []


def test_small_log_may_have_been_rotated_when_reading_was_resumed_in_the_middle_of_a_file() -> None:
    assert find_pauses(SkipDetector(is_resumed=True), make_block(0), make_block(5), late=LIVE) == [(0, 5)]
    assert find_pauses(SkipDetector(is_resumed=False), make_block(0), make_block(5), late=LIVE) == []


def test_nothing_is_missing_when_the_newest_file_began_before_the_pause() -> None:
    detector = SkipDetector(is_resumed=True)
    pauses = detector.find_pauses(make_block(1, 5, 9), now_ns=60 * SECOND)
    assert pauses == [Pause(1 * SECOND, 5 * SECOND), Pause(5 * SECOND, 9 * SECOND)]
    assert detector.explain(pauses, begins_ns=1 * SECOND, now_ns=60 * SECOND) == []
    # The file covers all that was written before the look, which saves the next one; not what was written later.
    assert detector.find_pauses(make_block(20, 40), now_ns=60 * SECOND) == []
    assert detector.find_pauses(make_block(59.0), now_ns=70 * SECOND) == [Pause(40 * SECOND, 59 * SECOND)]


@pytest.mark.parametrize(("begins_at", "missing"), [(4.0, [(1, 5)]), (5.0, [(1, 5)]), (9.0, [(1, 5), (5, 9)])])
def test_lines_may_be_missing_when_the_newest_file_began_after_the_pause(
    begins_at: float, missing: list[tuple[int, int]]
) -> None:
    detector = SkipDetector(is_resumed=True)
    pauses = detector.find_pauses(make_block(1, 5, 9), now_ns=60 * SECOND)
    left = detector.explain(pauses, begins_ns=int(begins_at * SECOND), now_ns=60 * SECOND)
    assert left == [Pause(since * SECOND, until * SECOND) for since, until in missing]


def test_lines_may_be_missing_when_the_newest_file_could_not_be_read() -> None:
    detector = SkipDetector(is_resumed=True)
    pauses = detector.find_pauses(make_block(1, 5), now_ns=60 * SECOND)
    assert detector.explain(pauses, begins_ns=None, now_ns=60 * SECOND) == pauses


def test_block_is_cut_before_each_line_that_may_follow_a_gap() -> None:
    block = make_block(5, 5, 6, 9, 13)
    pauses = [Pause(1, 5 * SECOND), Pause(9 * SECOND, 13 * SECOND)]
    parts = list(split_block(block, pauses, is_read_again=True))
    assert [part.skipped_since_ns for part in parts] == [1, 9 * SECOND]
    assert b"".join(part.content for part in parts) == block.content
    assert list(split_block(block, [], is_read_again=False)) == [block]


def test_lines_are_left_out_when_the_node_gives_the_newest_file_again() -> None:
    block, pauses = make_block(1, 5, 5, 6, 7, 5, 5, 6, 7, 8), [Pause(1 * SECOND, 5 * SECOND)]
    parts = list(split_block(block, pauses, is_read_again=True))
    assert b"".join(part.content for part in parts) == make_block(1, 5, 5, 6, 7).content


def test_no_line_is_left_out_when_the_log_is_not_read_again() -> None:
    block = make_block(1, 5, 5.2, 4.9, 6)
    parts = list(split_block(block, [Pause(1 * SECOND, 5 * SECOND)], is_read_again=False))
    assert [part.skipped_since_ns for part in parts] == [None, 1 * SECOND]
    assert b"".join(part.content for part in parts) == block.content


def test_blocks_are_the_lines_when_they_are_parsed_at_once_or_one_by_one() -> None:
    raw = b"".join(b"2026-11-15T11:02:39.%09dZ line %d\n" % (number // 3, number) for number in range(50))
    block = LineParser(is_since=False).feed_block(raw)
    lines = LineParser(is_since=False).feed(raw)
    assert block is not None
    assert list(block.split()) == lines
    joined = LogBlock.join(lines)
    assert (block.content, block.written_ns, block.count, block.is_one_moment) == (
        joined.content,
        joined.written_ns,
        joined.count,
        joined.is_one_moment,
    )
