"""Where an answer goes on behind what was read before. Pure."""

from runyard.kube.streams.loglines import LogBlock, LogPosition

DISORDER_SECONDS = 1
"""Two outputs of one program may be stamped in an order other than the log's, by scheduling: by far less than this."""
_DISORDER_NS = DISORDER_SECONDS * 1_000_000_000


class Resumption:
    """Finds the line of a position in one answer, and skips up to it.

    A position without lines (`count` 0) that has a moment is that of a rotated log: it begins with the line of that
    moment, and if it does not, more was rotated away.
    """

    def __init__(self, position: LogPosition) -> None:
        self._position = position
        self._to_skip = position.count
        self._begins_ns = 0 if position.count else position.written_ns
        self.is_lost = False
        """Whether the line is known to be missing."""
        self.first_ns: int | None = None
        """The moment of the answer's first line."""

    @property
    def is_found(self) -> bool:
        """Whether the answer goes on behind the position."""
        return not self._to_skip and not self._begins_ns and not self.is_lost

    def skip_read(self, block: LogBlock) -> LogBlock | None:
        """The part of a block that was not read yet; None if there is none, or if the line is missing."""
        if self.is_found:
            return block
        lines = block.split()
        if self.first_ns is None:
            self.first_ns = lines[0].written_ns
        if self._begins_ns:
            self.is_lost = self.first_ns != self._begins_ns
            self._begins_ns = 0
            return None if self.is_lost else block
        for index, line in enumerate(lines):
            if line.written_ns == self._position.written_ns:
                self._to_skip -= 1
                if not self._to_skip:
                    rest = lines[index + 1 :]
                    return LogBlock.join(rest, is_cut=block.is_cut) if rest else None
            elif line.written_ns > self._position.written_ns + _DISORDER_NS:
                self.is_lost = True
                return None
        return None
