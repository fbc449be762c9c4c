"""Files of frames: what is whole, what is not, and when it is on the disk."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.logs.frames import iter_frames, make_frame, read_frame, write_frames

FRAMES = [
    make_frame(b"content %d" % number, offset=10 * number, length=10, first_at=1, last_at=2) for number in range(3)
]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    """The descriptor of an empty file."""
    descriptor = os.open(tmp_path / "frames", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


def test_frames_come_back_when_they_were_written(file: int) -> None:
    write_frames(file, b"".join(FRAMES), position=0)
    frames = list(iter_frames(file))
    assert [(frame.offset, read_frame(file, frame)) for frame in frames] == [
        (0, b"content 0"),
        (10, b"content 1"),
        (20, b"content 2"),
    ]
    assert [frame.offset for frame in iter_frames(file, start=frames[1].start)] == [10, 20]


@pytest.mark.parametrize("byte", range(4, 48))
def test_reading_ends_before_a_head_when_any_of_its_figures_was_changed(file: int, byte: int) -> None:
    """A wrong offset would put bytes in the wrong place of a log, and a wrong length skip what follows."""
    changed = bytearray(FRAMES[1])
    changed[byte] ^= 1
    write_frames(file, FRAMES[0] + bytes(changed) + FRAMES[2], position=0)
    offsets = [frame.offset for frame in iter_frames(file)]
    # Bytes 40 to 43 are the checksum of the content, which whoever reads that compares.
    assert offsets == ([0, 10, 20] if 40 <= byte < 44 else [0])


def test_only_whole_frames_are_read_when_the_file_was_cut_at_any_byte(file: int) -> None:
    write_frames(file, b"".join(FRAMES), position=0)
    size, length = os.fstat(file).st_size, len(FRAMES[0])
    for cut in range(size, -1, -1):
        os.ftruncate(file, cut)
        assert [frame.offset for frame in iter_frames(file)] == [10 * number for number in range(cut // length)]


def test_frames_are_on_the_disk_when_they_count_as_written(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    write_frames(file, FRAMES[0], position=0)
    write_frames(file, FRAMES[1] + FRAMES[2], position=len(FRAMES[0]))
    assert synced == [len(FRAMES[0]), len(b"".join(FRAMES))]


def test_nothing_of_them_is_left_when_they_cannot_be_written(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    write_frames(file, FRAMES[0], position=0)

    def fail(_descriptor: int) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        write_frames(file, FRAMES[1], position=len(FRAMES[0]))
    assert os.fstat(file).st_size == len(FRAMES[0])
