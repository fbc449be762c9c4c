"""Search all versions of all entities and runs of a project, with bounded work.

The store filters by type, name, kind, labels and time; the first `MOST_FOUND` matches are served, and each type is read
only as far as the page needs. Descriptions are not indexed: only the `MOST_SCANNED` newest entities are scanned for
them. Words are also looked up in all ids and names. `Found.bound` says what was left out.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from runyard.app.core import Core
from runyard.app.entities import TYPES, require_project
from runyard.app.list_query import Page, Query, Span
from runyard.app.model import Entity
from runyard.app.ports import UnitOfWork

SEARCHED = (*TYPES, "run")
SEARCHED_BY_DEFAULT = (*(name for name, entity_type in TYPES.items() if entity_type.is_in_sdks), "run")
"""The types that a search without a type finds: DigitalHub's SDKs fail on results of other types."""
MOST_FOUND = 1000
MOST_SCANNED = 2000
MOST_READ = 500
"""Entities of one type that are read at once."""
SortedBy = Literal["updated", "created", "name", "kind"]
_ATTRIBUTES = {"updated": "updated_at", "created": "created_at", "name": "name", "kind": "kind"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search. A filter that is None or empty is not applied."""

    project: str
    types: tuple[str, ...] = SEARCHED_BY_DEFAULT
    words: str | None = None
    """All of them occur in id, name, description or labels, ignoring case."""
    name: str | None = None
    kind: str | None = None
    description: str | None = None
    """Contained in the description, ignoring case."""
    labels: tuple[str, ...] = ()
    updated: Span | None = None
    created: Span | None = None
    sorted_by: SortedBy = "updated"
    direction: Literal["asc", "desc"] = "desc"
    page: int = 0
    size: int = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One page, the number of matches, and `bound`, which says what was searched if that was not everything."""

    page: Page
    bound: str | None = None


async def search_project(core: Core, search: Search) -> Found:
    """One page of matches. Raises `Missing` for the project."""
    async with core.store.begin(is_read_only=True) as unit:
        await require_project(unit, search.project)
        if search.words is None and search.description is None:
            return await _list(unit, search)
        return await _scan(unit, search)


async def _list(unit: UnitOfWork, search: Search) -> Found:
    """Search by filters that the store has."""
    merged = _Merged(unit, search)
    first = search.page * search.size
    end = min(first + search.size, MOST_FOUND)
    content: list[Entity] = []
    position = 0
    async for entity in merged.iterate(most=end):
        if position >= first:
            content.append(entity)
        position += 1
    bound = f"the first {MOST_FOUND} of {merged.total} matches are served" if merged.total > MOST_FOUND else None
    return Found(page=Page(tuple(content), min(merged.total, MOST_FOUND)), bound=bound)


async def _scan(unit: UnitOfWork, search: Search) -> Found:
    """Search by scanning entities, and by names in the store."""
    fits = _make_test(search)
    found: dict[tuple[str, str], Entity] = {}
    if search.words is not None:
        async for entity in _Merged(unit, search, q=search.words).iterate(most=MOST_FOUND):
            if fits(entity):
                found[entity.type, entity.id] = entity
    # By creation, which is indexed; matches are sorted afterwards.
    scanned = _Merged(unit, replace(search, sorted_by="created", direction="desc"))
    async for entity in scanned.iterate(most=MOST_SCANNED):
        if fits(entity):
            found[entity.type, entity.id] = entity
    ordered = sorted(found.values(), key=_make_key(search), reverse=search.direction == "desc")[:MOST_FOUND]
    first = search.page * search.size
    content = tuple(ordered[first : first + search.size])
    words = f"descriptions of {MOST_SCANNED} of {scanned.total} entities were searched"
    return Found(page=Page(content, len(ordered)), bound=words if scanned.total > MOST_SCANNED else None)


class _Merged:
    """Merges the entities of several types in one order. `total` is known after iterating."""

    def __init__(self, unit: UnitOfWork, search: Search, *, q: str | None = None) -> None:
        self._unit = unit
        self._key = _make_key(search)
        self._is_descending = search.direction == "desc"
        self._queries = [_make_query(search, type_name, q=q) for type_name in search.types]
        self.total = 0

    async def iterate(self, *, most: int) -> AsyncIterator[Entity]:
        """The entities in order, at most `most`."""
        # Every query sorts again, so ask as few as possible.
        size = max(1, min(most, MOST_READ))
        streams = [_Chunks(self._unit, replace(query, size=size)) for query in self._queries]
        for stream in streams:
            await stream.fill()
        self.total = sum(stream.total for stream in streams)
        choose: Callable[..., _Chunks] = max if self._is_descending else min
        for _ in range(most):
            waiting = [stream for stream in streams if stream.entities]
            if not waiting:
                return
            chosen = choose(waiting, key=lambda stream: self._key(stream.entities[0]))
            yield chosen.entities.pop(0)
            await chosen.fill()


class _Chunks:
    """The entities of one type, read in chunks as needed."""

    def __init__(self, unit: UnitOfWork, query: Query) -> None:
        self._find_page = unit.runs.find_page if query.type == "run" else unit.entities.find_page
        self._query = query
        self._is_at_end = False
        self.entities: list[Entity] = []
        self.total = 0

    async def fill(self) -> None:
        """Read the next chunk if none is left."""
        if self.entities or self._is_at_end:
            return
        page = await self._find_page(self._query)
        self.entities, self.total = list(page.content), page.total
        self._is_at_end = len(page.content) < self._query.size
        self._query = replace(self._query, page=self._query.page + 1)


def _make_query(search: Search, type_name: str, *, q: str | None) -> Query:
    return Query(
        type=type_name,
        project=search.project,
        q=q,
        name=search.name,
        kind=search.kind,
        labels=search.labels,
        updated=search.updated,
        created=search.created,
        versions="all",
        sort=((search.sorted_by, search.direction),),
        is_summary=True,
    )


def _make_key(search: Search) -> Callable[[Entity], tuple[Any, str]]:
    attribute = _ATTRIBUTES[search.sorted_by]

    def key(entity: Entity) -> tuple[datetime | str, str]:
        return getattr(entity, attribute), entity.id

    return key


def _make_test(search: Search) -> Callable[[Entity], bool]:
    words = [] if search.words is None else search.words.casefold().split()
    wanted = (search.description or "").casefold()

    def fits(entity: Entity) -> bool:
        description = str(entity.metadata.get("description", "")).casefold()
        labels = entity.metadata.get("labels", [])
        text = "\n".join([entity.id, entity.name, *map(str, labels)]).casefold()
        return wanted in description and all(word in text or word in description for word in words)

    return fits
