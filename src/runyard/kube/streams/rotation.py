"""What rotation does to a log that is being followed. Pure.

A kubelet rotates the log of a running container when it is larger than `containerLogMaxSize` (10 MiB by default), at
most every `containerLogMonitorInterval` (at least 3 s, 10 s by default). It renames the file, and the runtime opens a
new one. The API tells neither setting. Seen on 1.36 with containerd 1.6:

- A follow that is at the end of the old file goes on with the new one. If the container has ended by then, the answer
  ends there instead, as if the log were complete. So the end is confirmed, and what the new file holds is read then.
- A follow that is behind by two rotations goes on with the newest file, in silence: what was between is skipped.
- Then it gives the newest file once more for each other rotation that it has missed. So a follow that has skipped a
  file is begun anew.
- A file is also skipped if a rotation came before the follow had read for the first time all that there was: a kubelet
  looks for new files only from then on.
- containerd cuts the line that it is writing in two: the first part ends the old file, without a newline.

A file covers at least the time between two rotations. So lines that are closer have no whole file between them. Lines
that are further apart are of one file, with nothing between them, if the newest file began before both were written.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from runyard.kube.streams.errors import LogGap
from runyard.kube.streams.loglines import LogBlock, LogLine

SHORTEST_ROTATION_NS = 3_000_000_000
SMALLEST_ROTATED_BYTES = 4096
"""No log is rotated that is smaller. A kubelet can be told otherwise, but such files would hold a few lines only."""
CLOCK_SKEW_NS = 2_000_000_000
"""How far the clocks of this machine and the node may differ."""


def has_no_file_between(gap: LogGap) -> bool:
    """Whether the end of one file and the beginning of another are too close for a file between them."""
    if gap.since_ns is None or gap.until_ns is None:
        return False
    return gap.until_ns - gap.since_ns < SHORTEST_ROTATION_NS


class Pause(NamedTuple):
    """Two neighbouring lines of an answer, so far apart that a file may have been skipped between them."""

    since_ns: int
    until_ns: int


class SkipDetector:
    """Finds where the follow of a running container may have skipped a file.

    A pause between two lines is suspicious if the first of them was read late, or if it is the first pause of a follow
    that is up to date. Then the caller looks where the newest file begins, which explains all pauses up to now that are
    within that file.
    """

    def __init__(self, *, is_resumed: bool, is_new: bool = True) -> None:
        """`is_resumed`: the answer does not begin with the first line of a file.

        `is_new`: its first pause is suspicious. Not if it was asked for because of a rotation: the next is far away.
        """
        self._read_bytes = SMALLEST_ROTATED_BYTES if is_resumed else 0
        self._last_ns: int | None = None
        self._is_late = False
        self._is_new = is_new
        self._newest_file: Pause | None = None

    def find_pauses(self, block: LogBlock, *, now_ns: int) -> list[Pause]:
        """The suspicious pauses before and in a block. `now_ns` is the time by our clock."""
        last_ns, was_late = self._last_ns, self._is_late
        self._last_ns, self._is_late = block.written_ns, now_ns - block.written_ns > SHORTEST_ROTATION_NS
        self._read_bytes += len(block.raw) or len(block.content)
        if last_ns is None:
            last_ns, was_late = block.split()[0].written_ns, True
        if block.written_ns - last_ns < SHORTEST_ROTATION_NS:
            return []
        pauses = _list_pauses(block, last_ns)
        if pauses and pauses[0].since_ns == last_ns and not was_late:
            if not self._is_new:
                del pauses[0]
            self._is_new = False
        is_large = self._read_bytes >= SMALLEST_ROTATED_BYTES
        return [pause for pause in pauses if is_large and not self._is_explained(pause)]

    def explain(self, pauses: Iterable[Pause], *, begins_ns: int | None, now_ns: int) -> list[Pause]:
        """The pauses in which lines may be missing, after a look at the newest file: where it began, if that is known.

        `now_ns` is the time before the look.
        """
        if begins_ns is not None:
            until_ns = max(now_ns - CLOCK_SKEW_NS, self._last_ns or 0)
            self._newest_file = Pause(begins_ns, until_ns)
        return [pause for pause in pauses if not self._is_explained(pause)]

    def _is_explained(self, pause: Pause) -> bool:
        file = self._newest_file
        return file is not None and file.since_ns <= pause.since_ns and pause.until_ns <= file.until_ns


def split_block(block: LogBlock, pauses: Sequence[Pause], *, is_read_again: bool) -> Iterator[LogBlock]:
    """The block, cut before each line that may follow a gap.

    `is_read_again`: the log is asked for anew behind what this gives. Then it ends where the file seems to begin again.
    Two outputs that are stamped in disorder look the same, so nothing is left out that would not come again.
    """
    if not pauses:
        yield block
        return
    left, part, skipped_since_ns = list(pauses), list[LogLine](), None
    for line in block.split():
        if left and line.written_ns == left[0].until_ns:
            if part:
                yield LogBlock.join(part, skipped_since_ns=skipped_since_ns)
            part, skipped_since_ns = [], left.pop(0).since_ns
        elif is_read_again and not left and line.written_ns <= pauses[-1].until_ns < part[-1].written_ns:
            break  # the file begins again
        part.append(line)
    yield LogBlock.join(part, skipped_since_ns=skipped_since_ns)


def _list_pauses(block: LogBlock, last_ns: int) -> list[Pause]:
    pauses = []
    for line in block.split():
        if line.written_ns - last_ns >= SHORTEST_ROTATION_NS:
            pauses.append(Pause(last_ns, line.written_ns))
        last_ns = line.written_ns
    return pauses
