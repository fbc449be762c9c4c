"""Where in a file a problem is: line and column of what the user wrote, in whichever of its forms."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runyard.cli.findings import Failed, Finding
from runyard.spec.problems import Path, Problem, Refused
from runyard.spec.readers import to_snake_case
from runyard.spec.yaml.loader import Document

_SPOKEN_PLACE = re.compile(r"line (\d+), (?:column|byte) (\d+): ")
_WRITTEN = {"request": ("requests",), "limit": ("limits",), "size": ("size_limit",)}
"""Words of the effective spec that users write otherwise."""
_NAMES = ("name", "key")


@dataclass(frozen=True, slots=True)
class Source:
    """A document of a file, and where in it paths begin: a run in DigitalHub's form has its fields under `spec`."""

    file: str
    document: Document
    root: Path = ()

    def locate(self, problem: Problem) -> Finding:
        """The finding with its place. What is not in the document is the file's as a whole."""
        spoken = speak_out(problem, self.file)
        if spoken.place is not None or not problem.path:
            return spoken
        written = _find_written(self._get_root(), problem.path)
        place = self.document.find_position((*self.root, *written)) if written else None
        return Finding(problem, self.file, place)

    def refuse(self, refused: Refused) -> Failed:
        """All of a reader's problems with their places, in the order of the file."""
        return Failed(sorted(map(self.locate, refused.problems), key=lambda finding: finding.place or (0, 0)))

    def _get_root(self) -> Any:
        node = self.document.data
        for part in self.root:
            node = node[part]
        return node


def speak_out(problem: Problem, file: str) -> Finding:
    """A problem whose words begin with the file, the line and the column has them as its place instead."""
    message = problem.message.removeprefix(f"{file}: ")
    match = _SPOKEN_PLACE.match(message)
    if match is None:
        return Finding(replace(problem, message=message), file)
    place = int(match[1]), int(match[2])
    return Finding(replace(problem, message=message[match.end() :]), file, place)


def _find_written(node: Any, path: Path) -> Path:
    """The path as the document has it, as far as it goes: other spellings, list entries by name, dotted keys."""
    return _follow(node, path)[0]


def _follow(node: Any, path: Path) -> tuple[Path, int]:
    """The way that gets furthest along a path, and how far that is."""
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
    """Ways to go on from a mapping: the keys, and how many parts of the path each stands for."""
    if not isinstance(node, Mapping):
        return
    first = str(path[0])
    names = {first, *_WRITTEN.get(first, ())}
    yield from (((key,), 1) for key in node if to_snake_case(key) in names or key in names)
    # A policy's `resources.mem: {…}` is `resources: {mem: {…}}`, and its lints name it in one word.
    for count in range(2, len(path) + 1):
        if (joined := ".".join(map(str, path[:count]))) in node:
            yield (joined,), count
    outer, dot, inner = first.partition(".")
    if dot and outer in node:
        yield from (((outer, *steps), 1) for steps, count in _iter_keys(node[outer], (inner,)))
    # A volume says most of what it is one level deeper.
    if first != "spec" and isinstance(node.get("spec"), Mapping):
        yield from ((("spec", *steps), count) for steps, count in _iter_keys(node["spec"], path))
