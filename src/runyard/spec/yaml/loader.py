"""The product's only YAML loader. Pure: text in, plain values out.

Reads YAML 1.2 with safe scalars (`scalars.py`), bounded against alias expansion (`tree_builder.py`), with readable
errors (`syntax_errors.py`). JSON is read as well.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from yaml.error import MarkedYAMLError
from yaml.events import DocumentEndEvent, DocumentStartEvent

from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, Refused
from runyard.spec.yaml.printer import dump_yaml
from runyard.spec.yaml.scanner import EventReader
from runyard.spec.yaml.syntax_errors import explain_syntax_error
from runyard.spec.yaml.text import check_text, find_json
from runyard.spec.yaml.tree import Node, Place
from runyard.spec.yaml.tree_builder import Stopped, TreeBuilder

__all__ = ["Document", "dump_yaml", "load_document", "load_documents"]

MOST_BYTES = 1024 * 1024
_NO_NAME = "<text>"
_MOST_EMPTY = 1000


@dataclass(frozen=True)
class Document:
    """One document: its plain value, warnings, and the positions of its values."""

    data: Any
    warnings: tuple[Problem, ...] = ()
    _find_root: Callable[[], Node | None] = field(default=lambda: None, repr=False, compare=False)

    def find_position(self, path: Path) -> Place | None:
        """Line and column, from 1, of the value at `path`, or of its nearest existing parent.

        For a scalar its own position; for a list, a mapping or an empty value that of its key.
        """
        node = self._find_root()
        place = node.place if node else None
        for part in path:
            entry = node.find_child(part) if node else None
            if entry is None:
                break
            place, node = entry.get_best_place(), entry.node
        return place

    def find_text(self, path: Path) -> str | None:
        """The source text of a scalar: `1.10` where `data` has the number 1.1. None if there is no scalar."""
        node = self._find_root()
        for part in path:
            entry = node.find_child(part) if node else None
            node = entry.node if entry else None
        return node.text if node else None


def load_document(text: str | bytes, *, source: str = _NO_NAME, most_bytes: int = MOST_BYTES) -> Document:
    """The only document of a text; an empty text or a second document is refused."""
    documents = load_documents(text, source=source, most_bytes=most_bytes)
    if not documents:
        raise Refused([_name_source(Problem(Code.YAML_EMPTY, (), "the text is empty"), source)])
    if len(documents) > 1:
        line, column = documents[1].find_position(()) or (1, 1)
        message = f"line {line}, column {column}: a second document begins here; only one is expected"
        raise Refused([_name_source(Problem(Code.YAML_SEVERAL_DOCUMENTS, (), message), source)])
    return documents[0]


def load_documents(
    text: str | bytes, *, source: str = _NO_NAME, most_documents: int = 100, most_bytes: int = MOST_BYTES
) -> list[Document]:
    """All documents of a text except empty ones; raises `Refused` with every problem."""
    try:
        checked = check_text(text, most_bytes=most_bytes)
        data = find_json(checked)
        if data is not None:
            return [Document(data, (), cache(lambda: _find_tree(checked)))]
        return _read_stream(checked, most_documents=most_documents)
    except Refused as refused:
        raise Refused(_name_source(problem, source) for problem in refused.problems) from None


def _read_stream(text: str, *, most_documents: int) -> list[Document]:
    reader = EventReader(text)
    builder = TreeBuilder()
    problems: list[Problem] = []
    documents: list[Document] = []
    count = 0
    try:
        for event in reader.iter_events():
            if isinstance(event, DocumentStartEvent):
                builder = TreeBuilder()
                count += 1
            elif isinstance(event, DocumentEndEvent):
                problems += builder.problems
                documents += _finish(builder, reader, end=event.start_mark.index if event.start_mark else 0)
                _check_count(len(documents), count - len(documents), most=most_documents)
            else:
                builder.take(event)
    except MarkedYAMLError as error:
        problems += [*builder.problems, explain_syntax_error(error, builder.find_last_key())]
    except Stopped as stopped:
        problems += [*builder.problems, stopped.problem]
    if problems:
        raise Refused(dict.fromkeys(problems))
    return documents


def _finish(builder: TreeBuilder, reader: EventReader, *, end: int) -> list[Document]:
    """The finished document, unless it is empty; the skipped commas before `end` are its warnings."""
    commas = [comma for comma in reader.commas if comma.index < end]
    reader.commas = reader.commas[len(commas) :]
    root = builder.root
    if root is None or builder.problems or root.is_empty():
        return []
    message = "the comma after the quoted value is not YAML; ignored"
    warnings = [
        Problem(Code.YAML_TRAILING_COMMA, (), f"line {comma.line}, column {comma.column}: {message}")
        for comma in commas
    ]
    return [Document(root.to_data(), (*warnings, *builder.warnings), lambda: root)]


def _check_count(full: int, empty: int, *, most: int) -> None:
    if full > most or empty > _MOST_EMPTY:
        message = f"the text has more than {most} documents or more than {_MOST_EMPTY} empty ones"
        raise Stopped(Problem(Code.YAML_TOO_MANY_DOCUMENTS, (), message))


def _find_tree(text: str) -> Node | None:
    """The tree of a JSON text, for positions; None for JSON that YAML cannot read."""
    builder = TreeBuilder()
    try:
        for event in EventReader(text).iter_events():
            builder.take(event)
    except (MarkedYAMLError, Stopped):
        return None
    return builder.root


def _name_source(problem: Problem, source: str) -> Problem:
    return problem if source == _NO_NAME else replace(problem, message=f"{source}: {problem.message}")
