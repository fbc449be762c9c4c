"""Pieces and extents of a stream: which bytes and times they stand for."""

import pytest

from runyard.logs.pieces import Extent, Piece, drop_overlaps, make_extent


def extent(offset: int, length: int, *, place: str) -> Extent:
    return Extent(offset=offset, length=length, first_at=1, last_at=2, place=place)


def test_latest_time_is_kept_when_the_clock_went_back_within_an_extent() -> None:
    pieces = [
        Piece(offset=4, at=10, content=b"ab"),
        Piece(offset=6, at=30, content=b"c"),
        Piece(offset=7, at=20, content=b"d"),
    ]
    made = make_extent(pieces)
    assert (made.offset, made.length, made.first_at, made.last_at) == (4, 4, 10, 30)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([(0, 10, "chunk"), (0, 4, "tail"), (4, 6, "tail")], [(0, 10, "chunk")]),
        ([(0, 10, "chunk"), (6, 8, "tail")], [(0, 10, "chunk"), (10, 4, "tail")]),
        ([(4, 4, "b"), (0, 4, "a")], [(0, 4, "a"), (4, 4, "b")]),
        ([(0, 4, "tail"), (0, 10, "chunk")], [(0, 10, "chunk")]),
    ],
)
def test_every_byte_is_kept_once_when_extents_overlap(
    given: list[tuple[int, int, str]], kept: list[tuple[int, int, str]]
) -> None:
    extents = drop_overlaps([extent(offset, length, place=place) for offset, length, place in given])
    assert [(one.offset, one.length, one.place) for one in extents] == kept
