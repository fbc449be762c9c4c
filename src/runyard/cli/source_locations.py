"""Finds line and column of a problem in a file, in any of the forms that users may write."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runyard.cli.findings import Failed, Finding
from runyard.spec.problems import Path, Problem, Refused
from runyard.spec.readers import to_snake_case
from runyard.spec.yaml.loader import Document

_PLACE_PREFIX = re.compile(r"line (\d+), (?:column|byte) (\d+): ")
_WRITTEN = {"requests": ("request",), "limits": ("limit",), "size": ("size_limit",)}
"""Field names of the effective spec that users may write differently."""
_NAMES = ("name", "key")


@dataclass(frozen=True, slots=True)
class Source:
    """A document of a file, and the root of its paths: a run in DigitalHub's form has its fields under `spec`."""

    file: str
    document: Document
    root: Path = ()

    def locate(self, problem: Problem) -> Finding:
        """Return the finding with its line and column, or with the file only if the path is not in the document."""
        spoken = extract_place(problem, self.file)
        if spoken.place is not None or not problem.path:
            return spoken
        written = _find_written(self.get_root(), problem.path)
        place = self.document.find_position((*self.root, *written)) if written else None
        return Finding(problem, self.file, place)

    def refuse(self, refused: Refused) -> Failed:
        """Convert a reader's problems to findings, in the order of the file."""
        return Failed(sorted(map(self.locate, refused.problems), key=lambda finding: finding.place or (0, 0)))

    def get_root(self) -> Any:
        """The value whose fields are the run's, as it is written."""
        node = self.document.data
        for part in self.root:
            node = node[part]
        return node


def extract_place(problem: Problem, file: str) -> Finding:
    """Move file, line and column from the start of the message to the finding."""
    message = problem.message.removeprefix(f"{file}: ")
    match = _PLACE_PREFIX.match(message)
    if match is None:
        return Finding(replace(problem, message=message), file)
    place = int(match[1]), int(match[2])
    return Finding(replace(problem, message=message[match.end() :]), file, place)


def _find_written(node: Any, path: Path) -> Path:
    """Return the path as written in the document, as far as it exists: other spellings, names of items, dotted keys."""
    return _follow(node, path)[0]


def _follow(node: Any, path: Path) -> tuple[Path, int]:
    """Return the longest match of a path, and its length."""
    best: tuple[Path, int] = ((), 0)
    if not path:
        return best
    for steps, count in _iter_items(node, path[0]) if isinstance(node, list) else _iter_keys(node, path):
        deeper = node
        for step in steps:
            deeper = deeper[step]
        rest, reached = _follow(deeper, path[count:])
        if count + reached > best[1]:
            best = (*steps, *rest), count + reached
    return best


def _iter_items(items: list[Any], wanted: str | int) -> Iterator[tuple[Path, int]]:
    for index, item in enumerate(items):
        names = [item.get(name) for name in _NAMES] if isinstance(item, Mapping) else [item]
        if index == wanted if isinstance(wanted, int) else wanted in names:
            yield (index,), 1
            return


def _iter_keys(node: Any, path: Path) -> Iterator[tuple[Path, int]]:
    """Yield keys of a mapping that match the start of a path, and how many parts of the path each covers."""
    if not isinstance(node, Mapping):
        return
    first = str(path[0])
    names = {first, *_WRITTEN.get(first, ())}
    yield from (((key,), 1) for key in node if to_snake_case(key) in names or key in names)
    # A policy may write `resources.mem: {…}` for `resources: {mem: {…}}`; its lints use the dotted form.
    for count in range(2, len(path) + 1):
        if (joined := ".".join(map(str, path[:count]))) in node:
            yield (joined,), count
    outer, dot, inner = first.partition(".")
    if dot and outer in node:
        yield from (((outer, *steps), 1) for steps, count in _iter_keys(node[outer], (inner,)))
    # Most fields of a volume are one level deeper, under `spec`.
    if first != "spec" and isinstance(node.get("spec"), Mapping):
        yield from ((("spec", *steps), count) for steps, count in _iter_keys(node["spec"], path))
