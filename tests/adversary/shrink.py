"""Shrinks a failing case: removes parts while it still fails in the same way."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

from runyard.spec.problems import Refused
from tests.adversary.cases import Case, World
from tests.adversary.trial import make_stage, play

Path = tuple[Any, ...]


def shrink(case: Case, world: World, *, most_rounds: int = 12) -> tuple[Case, World]:
    """The smallest case and world found that fail with the same kind of complaint."""
    kinds = find_kinds(case, world)

    def still_fails(document: dict[str, Any]) -> bool:
        try:
            return bool(kinds & find_kinds(*_build(document)))
        except (Refused, KeyError, TypeError, ValueError, AttributeError):
            return False

    document = {"case": asdict(case), "world": asdict(world)}
    for _ in range(most_rounds):
        smaller = _shrink_once(document, still_fails)
        if smaller == document:
            break
        document = smaller
    return _build(document)


def find_kinds(case: Case, world: World) -> set[str]:
    """The kinds of its complaints: the words before the colon, and for a crash the exception as well."""
    complaints = play(case, make_stage(world)).complaints
    return {":".join(complaint.split(":")[: 2 if complaint.startswith("crash") else 1]) for complaint in complaints}


def _build(document: dict[str, Any]) -> tuple[Case, World]:
    return replace(Case(), **document["case"]), replace(World(), **document["world"])


def _shrink_once(document: dict[str, Any], still_fails: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    for path in sorted(_iter_paths(document), key=len):
        smaller = _without(document, path)
        if smaller is not None and still_fails(smaller):
            document = smaller
    return document


def _iter_paths(document: Any, *prefix: Any) -> Iterator[Path]:
    entries: list[tuple[Any, Any]] = []
    if isinstance(document, dict):
        entries = list(document.items())
    elif isinstance(document, list):
        # From the end, so that the places of those before stay.
        entries = list(enumerate(document))[::-1]
    for key, value in entries:
        if len(prefix) > 0:
            yield (*prefix, key)
        yield from _iter_paths(value, *prefix, key)


def _without(document: Any, path: Path) -> Any:
    """The document without the value at a path; None where there is none."""
    key, *rest = path
    if isinstance(document, dict):
        if key not in document:
            return None
        if not rest:
            return {name: value for name, value in document.items() if name != key}
        inner = _without(document[key], tuple(rest))
        return None if inner is None else {**document, key: inner}
    if not isinstance(document, list) or not isinstance(key, int) or key >= len(document):
        return None
    if not rest:
        return [*document[:key], *document[key + 1 :]]
    inner = _without(document[key], tuple(rest))
    return None if inner is None else [*document[:key], inner, *document[key + 1 :]]
