"""PyYAML's scanner and parser, extended for pasted text: stray tabs, and commas after quoted values.

The overridden methods are not a public API: `pyproject.toml` pins PyYAML's minor version, and a test names them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from yaml.events import Event
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

LINE_ENDS = "\0\r\n\x85\u2028\u2029"


@dataclass(frozen=True, slots=True)
class Comma:
    """The position of a skipped comma."""

    index: int
    line: int
    column: int


class EventReader(Reader, Scanner, Parser):
    """The events of a text, in order. `commas` grows as the text is read."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        self.commas: list[Comma] = []
        self._quoted_end = -1

    def iter_events(self) -> Iterator[Event]:
        """Every event; raises `yaml.MarkedYAMLError` where the text is not YAML."""
        while self.check_event():
            yield self.get_event()  # type: ignore[no-untyped-call]

    def fetch_flow_scalar(self, style: str) -> None:
        """Remember where a quoted scalar ended, for the comma that may follow it."""
        super().fetch_flow_scalar(style)
        self._quoted_end = self.index

    def fetch_flow_entry(self) -> None:
        """Skip a comma after a quoted value at the end of a line, where YAML has no meaning for it."""
        if self.flow_level or not self._is_after_quoted() or not self._is_last_of_line():
            super().fetch_flow_entry()
            return
        self.commas.append(Comma(self.index, self.line + 1, self.column + 1))
        self.forward()

    def scan_to_next_token(self) -> None:
        """Like PyYAML's method, but tabs are white space wherever they are not indentation."""
        while True:
            self._skip_blanks()
            if self.peek() == "#":
                while self.peek() not in LINE_ENDS:
                    self.forward()
            if not self.scan_line_break():  # type: ignore[no-untyped-call]
                return
            if not self.flow_level:
                self.allow_simple_key = True

    def _skip_blanks(self) -> None:
        """Skip white space up to a tab that is indentation: PyYAML finds no token there and reports its position."""
        length = self._count_blanks()
        blanks = self.prefix(length)
        if "\t" in blanks and self._is_indentation() and self.peek(length) not in f"{LINE_ENDS}#":
            length = blanks.index("\t")
        self.forward(length)

    def _is_indentation(self) -> bool:
        return not self.flow_level and not self.buffer[self.index - self.column : self.index].strip(" \t")

    def _is_after_quoted(self) -> bool:
        return 0 <= self._quoted_end <= self.index and not self.buffer[self._quoted_end : self.index].strip(" \t")

    def _is_last_of_line(self) -> bool:
        length = self._count_blanks(1)
        after = self.peek(1 + length)
        return after in LINE_ENDS or (after == "#" and length > 0)

    def _count_blanks(self, offset: int = 0) -> int:
        length = 0
        while self.peek(offset + length) in " \t":
            length += 1
        return length
