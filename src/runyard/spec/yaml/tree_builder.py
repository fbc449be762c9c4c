"""Builds the tree of a YAML document from parser events, with the position of every value.

The tree is bounded while it grows, against alias expansion («billion laughs»): an alias adds the size of its target
without being expanded, so that a text whose aliases expand to more than `MOST_NODES` values is refused early.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, shorten
from runyard.spec.yaml.scalars import TAG_PREFIX, ScalarError, read_scalar, show_tag
from runyard.spec.yaml.tree import Entry, Node, Place

MOST_DEPTH = 64
MOST_NODES = 100_000
MOST_PROBLEMS = 100
MOST_KEY_CHARACTERS = 1024
"""YAML's own bound for keys without `?`; keys are part of every path below them, and so of messages."""

_MERGE = "<<"
_KEY_IS_COLLECTION = "a key must be text, not a list or a mapping"


@dataclass(slots=True)
class _Open:
    """A collection that is not closed yet."""

    node: Node
    is_block: bool
    key: str | None = None
    key_place: Place = (1, 1)
    is_merge: bool = False
    merges: list[Node] = field(default_factory=list)

    def is_key_next(self) -> bool:
        return self.node.entries is not None and self.key is None


class Stopped(Exception):
    """Reading cannot continue because of `problem`."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.message)


class TreeBuilder:
    """Builds one document. Problems are collected; those after which reading cannot continue raise `Stopped`."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.root: Node | None = None
        self.stack: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._has_aliases = False

    def take(self, event: Event) -> None:
        """Add the next event of the document."""
        if isinstance(event, AliasEvent):
            self._add(self._get_anchored(event), event)
        elif isinstance(event, ScalarEvent):
            node = self._read_scalar(event)
            if event.anchor:
                self._anchors[event.anchor] = node
            self._add(node, event)
        elif isinstance(event, CollectionStartEvent):
            self._open(event)
        elif isinstance(event, CollectionEndEvent):
            self._close(event)

    def find_last_key(self) -> tuple[str, int] | None:
        """The key that was read last in the innermost open mapping, and its line."""
        opened = self.stack[-1] if self.stack else None
        if opened is None or not opened.node.entries:
            return None
        key, entry = next(reversed(opened.node.entries.items()))
        return key, entry.place[0]

    def _open(self, event: CollectionStartEvent) -> None:
        if self.stack and self.stack[-1].is_key_next():
            raise self._stop(Code.YAML_KEY, event, _KEY_IS_COLLECTION)
        expected = "map" if isinstance(event, MappingStartEvent) else "seq"
        if event.tag not in (None, "!", f"{TAG_PREFIX}{expected}"):
            raise self._stop(Code.YAML_TAG, event, f"unknown tag `{show_tag(event.tag or '')}`")
        if len(self.stack) >= MOST_DEPTH:
            raise self._stop(Code.YAML_TOO_DEEP, event, f"nested more than {MOST_DEPTH} levels deep")
        node = Node(get_place(event), **({"entries": {}} if expected == "map" else {"items": []}))
        if event.anchor:
            self._anchors[event.anchor] = node
        self.stack.append(_Open(node, is_block=not event.flow_style))

    def _close(self, event: Event) -> None:
        opened = self.stack.pop()
        node = opened.node
        for source in opened.merges:
            for key, entry in (source.entries or {}).items():
                if node.entries is not None:
                    node.entries.setdefault(key, entry)
        self._add(node, event)

    def _add(self, node: Node, event: Event) -> None:
        """Add a finished value: as the root, an item, a key, or the value of a key."""
        if not self.stack:
            self.root = node
            return
        opened = self.stack[-1]
        if opened.is_key_next():
            self._take_key(opened, node, event)
            return
        container = opened.node
        container.size += node.size
        container.height = max(container.height, node.height + 1)
        self._check_bounds(container, event)
        if container.items is not None:
            container.items.append(node)
        elif container.entries is not None and opened.key is not None:
            self._take_value(opened, node, event)
            opened.key = None

    def _take_key(self, opened: _Open, node: Node, event: Event) -> None:
        if node.text is None:
            raise self._stop(Code.YAML_KEY, event, _KEY_IS_COLLECTION)
        if len(node.text) > MOST_KEY_CHARACTERS:
            message = f"a key of {len(node.text):,} characters is too long; at most {MOST_KEY_CHARACTERS:,} are allowed"
            raise self._stop(Code.YAML_KEY, event, message)
        opened.key = node.text
        opened.key_place = get_place(event)
        opened.is_merge = isinstance(event, ScalarEvent) and event.implicit[0] and event.value == _MERGE
        if not isinstance(node.scalar, str):
            shown = f"`{node.text}` is not text" if node.text else "this key is empty"
            suggestion = f'"{node.text}"' if node.text else None
            self._note(Code.YAML_KEY, event, f"a key must be text: {shown}; quote it", suggestion=suggestion)
            return
        opened.key = node.scalar
        first = (opened.node.entries or {}).get(opened.key)
        if first or (opened.is_merge and opened.merges):
            self._note_duplicate(opened, first, event)

    def _take_value(self, opened: _Open, node: Node, event: Event) -> None:
        if opened.is_merge:
            sources = node.items if node.items is not None else [node]
            if any(source.entries is None for source in sources):
                raise self._stop(Code.YAML_MERGE, event, "`<<` needs an alias of a mapping, or a list of such aliases")
            opened.merges += sources
            return
        if isinstance(event, ScalarEvent) and event.style is None and event.value.endswith(",") and opened.is_block:
            message = f"the value of `{shorten(opened.key or '')}` ends with a comma, which is part of the value"
            self.warnings.append(self._make(Code.YAML_COMMA_IN_VALUE, event, message))
        if opened.node.entries is not None and opened.key is not None:
            opened.node.entries.setdefault(opened.key, Entry(opened.key_place, node))

    def _get_anchored(self, event: AliasEvent) -> Node:
        self._has_aliases = True
        node = self._anchors.get(event.anchor or "")
        if node is None:
            name = shorten(event.anchor)
            raise self._stop(
                Code.YAML_ALIAS_UNKNOWN, event, f"unknown alias `*{name}`: there is no `&{name}` before it"
            )
        if any(opened.node is node for opened in self.stack):
            raise self._stop(Code.YAML_ALIAS_RECURSION, event, f"the alias `*{shorten(event.anchor)}` contains itself")
        return node

    def _check_bounds(self, container: Node, event: Event) -> None:
        if len(self.stack) - 1 + container.height > MOST_DEPTH:
            raise self._stop(Code.YAML_TOO_DEEP, event, f"nested more than {MOST_DEPTH} levels deep")
        if sum(opened.node.size for opened in self.stack) > MOST_NODES:
            code = Code.YAML_ALIAS_BOMB if self._has_aliases else Code.YAML_TOO_MANY_VALUES
            what = "the aliases expand to" if self._has_aliases else "the text has"
            raise self._stop(code, event, f"{what} more than {MOST_NODES:,} values")

    def _read_scalar(self, event: ScalarEvent) -> Node:
        try:
            value = read_scalar(event.value, tag=event.tag, is_plain=event.implicit[0])
        except ScalarError as error:
            self._note(error.code, event, str(error))
            value = ""
        return Node(get_place(event), scalar=value, text=value if isinstance(value, str) else event.value)

    def _note_duplicate(self, opened: _Open, first: Entry | None, event: Event) -> None:
        where = f"; the first is in line {first.place[0]}" if first else ""
        message = f"duplicate key `{shorten(opened.key or '')}`{where}"
        empty = [
            key
            for key, entry in (opened.node.entries or {}).items()
            if first and entry.node.is_empty() and entry.place[0] < first.place[0]
        ]
        if empty and opened.is_block:
            message += f"; if the lines under `{shorten(empty[-1])}` lost their indentation, indent them by two spaces"
        self._note(Code.YAML_DUPLICATE_KEY, event, message)

    def _note(self, code: Code, event: Event, message: str, *, suggestion: str | None = None) -> None:
        problem = self._make(code, event, message, suggestion=suggestion)
        self.problems.append(problem)
        if len(self.problems) >= MOST_PROBLEMS:
            raise Stopped(problem)

    def _stop(self, code: Code, event: Event, message: str) -> Stopped:
        return Stopped(self._make(code, event, message))

    def _make(self, code: Code, event: Event, message: str, *, suggestion: str | None = None) -> Problem:
        line, column = get_place(event)
        return Problem(code, self._path(), f"line {line}, column {column}: {message}", suggestion=suggestion)

    def _path(self) -> Path:
        return tuple(self._iter_path())

    def _iter_path(self) -> Iterator[str | int]:
        for opened in self.stack:
            if opened.node.items is not None:
                yield len(opened.node.items)
            elif opened.key is not None:
                yield opened.key


def get_place(event: Event | NodeEvent) -> Place:
    """The position at which an event begins."""
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)
