"""Compares what a container printed with what is stored: lines missing, doubled or out of order that no gap names."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from tests.chaos.evidence import StoredGap
from tests.chaos.kept_logs import PrintedLine

SKEW_SECONDS = 5.0
"""How far outside the span of a gap a line that it names may have been written. Kubernetes rounds the times of
containers down to seconds, and a container runtime on a busy machine writes a line down after the program has ended."""


def compare_log(
    printed: Sequence[PrintedLine], pieces: Sequence[str | StoredGap], *, removed_at: float | None = None
) -> Iterator[str]:
    """What is wrong. Lines of a program are all different, so each stored line has one place.

    A missing line is named by a gap in its place, if it was written within the span of the gap. What was written after
    the span of the last gap is named too, if the pod was being removed by its end (`removed_at`): its container may
    live on while its node does not answer, and nobody can read it anymore.
    """
    places = {line.text: place for place, line in enumerate(printed)}
    expected, gaps = 0, list[StoredGap]()
    for piece in pieces:
        if isinstance(piece, StoredGap):
            gaps.append(piece)
            continue
        place = places.get(piece)
        if place is None:
            yield f"stored line was never printed: {piece[:120]!r}"
            return
        if place < expected:
            yield f"line {place + 1} is stored twice or out of order: {piece[:120]!r}"
            return
        if (line := find_unnamed(printed[expected:place], gaps)) is not None:
            missing = f"lines {expected + 1} to {place} are missing before {piece[:120]!r}"
            yield f"{missing}, and no gap {_say_what_names(line, gaps)}"
            return
        expected, gaps = place + 1, []
    if (line := find_unnamed(printed[expected:], gaps, removed_at=removed_at)) is not None:
        missing = f"lines {expected + 1} to {len(printed)} are missing at the end"
        yield f"{missing}, and no gap {_say_what_names(line, gaps)}"


def find_unnamed(
    missing: Sequence[PrintedLine], gaps: Sequence[StoredGap], *, removed_at: float | None = None
) -> PrintedLine | None:
    """The first of the missing lines that none of the gaps names; None if there is none."""
    return next((line for line in missing if not any(_is_named(line, gap, removed_at) for gap in gaps)), None)


def _is_named(line: PrintedLine, gap: StoredGap, removed_at: float | None) -> bool:
    if line.at is None:
        return True
    latest = gap.until + SKEW_SECONDS
    is_removed = removed_at is not None and removed_at <= latest
    return gap.since - SKEW_SECONDS <= line.at and (line.at <= latest or is_removed)


def _say_what_names(line: PrintedLine, gaps: Sequence[StoredGap]) -> str:
    if not gaps or line.at is None:
        return "says so"
    spans = "; ".join(f"{_format(gap.since)} to {_format(gap.until)} {gap.cause[:60]}" for gap in gaps)
    return f"spans {_format(line.at)}, when {line.text[:120]!r} was written: {spans}"


def _format(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
