"""Search all versions of all entities and runs of a project, with bounded work.

The store filters by type, name, kind, labels and time; the first `MOST_FOUND` matches are served. Descriptions are not
indexed: only the `MOST_SCANNED` newest entities are scanned for them, each up to `MOST_SEARCHED_CHARACTERS`. Words are
also looked up in all ids and names. `Found.bound` says what was left out.

Matches are kept as keys. Metadata is read in small parts while it is searched, and then only that of the page.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from runyard.app.core import Core
from runyard.app.document_thread import compute_on_thread
from runyard.app.entities import TYPES, require_project
from runyard.app.list_query import Page, Query, Span
from runyard.app.model import Entity
from runyard.app.ports import EntityKey, UnitOfWork
from runyard.app.unparsed_entities import Unparsed, UnparsedEntities

SEARCHED = (*TYPES, "run")
SEARCHED_BY_DEFAULT = (*(name for name, entity_type in TYPES.items() if entity_type.is_in_sdks), "run")
"""The types that a search without a type finds: DigitalHub's SDKs fail on results of other types."""
MOST_FOUND = 1000
MOST_SCANNED = 2000
MOST_READ = 100
"""Keys of one type, or entities, that are read at once."""
MOST_READ_BYTES = 1 << 18
"""Metadata that is read at once to be searched; more only if a single entity has it."""
ITEM_BYTES = 1 << 12
"""What a page counts for a match, unless its metadata is larger."""
MOST_WORDS = 16
"""Words of a search; the API refuses more."""
MOST_SEARCHED_CHARACTERS = 4096
"""Of a description, and of the labels of an entity together, in which words are searched."""
TESTED_AT_ONCE = 20
"""Entities that are searched for words before other work gets a turn."""
SortedBy = Literal["updated", "created", "name", "kind"]
_ATTRIBUTES = {"updated": "updated_at", "created": "created_at", "name": "name", "kind": "kind"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search. A filter that is None or empty is not applied."""

    project: str
    most_bytes: int
    """A page has fewer matches than `size` if the largest would not fit; `Page.size` says how many."""
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
        find = _list if search.words is None and search.description is None else _scan
        keys, bound = await find(unit, search)
        return Found(page=await _read_page(unit, search, keys), bound=bound)


async def _list(unit: UnitOfWork, search: Search) -> tuple[Sequence[EntityKey], str | None]:
    """Search by filters that the store has."""
    merged = _Merged(unit, search)
    keys = [key async for key in merged.iterate(most=MOST_FOUND)]
    return keys, f"the first {MOST_FOUND} of {merged.total} matches are served" if merged.total > MOST_FOUND else None


async def _scan(unit: UnitOfWork, search: Search) -> tuple[Sequence[EntityKey], str | None]:
    """Search by scanning entities, and by names in the store."""
    test = _Test(unit, search)
    named: _Merged | None = None
    if search.words is not None:
        named = _Merged(unit, search, q=search.words)
        await test.take(named.iterate(most=MOST_FOUND))
    # By creation, which is indexed; matches are sorted afterwards.
    scanned = _Merged(unit, replace(search, sorted_by="created", direction="desc"))
    await test.take(scanned.iterate(most=MOST_SCANNED))
    ordered = sorted(test.found.values(), key=_make_key(search), reverse=search.direction == "desc")[:MOST_FOUND]
    bounds = []
    if len(test.found) > MOST_FOUND:
        bounds.append(f"the first {MOST_FOUND} of {len(test.found)} matches are served")
    if named is not None and named.total > MOST_FOUND:
        bounds.append(f"{MOST_FOUND} of {named.total} entities with the words in their id or name were searched")
    if scanned.total > MOST_SCANNED:
        bounds.append(f"descriptions of {MOST_SCANNED} of {scanned.total} entities were searched")
    cut = sorted(test.cut)
    bounds += [f"the first {MOST_SEARCHED_CHARACTERS} characters of longer {what} were searched" for what in cut]
    return ordered, "; ".join(bounds) or None


async def _read_page(unit: UnitOfWork, search: Search, keys: Sequence[EntityKey]) -> Page:
    """The page with its metadata. All pages of a search have the same size, so that a client misses nothing."""
    largest = max((key.metadata_bytes for key in keys), default=0)
    size = max(1, min(search.size, search.most_bytes // max(largest, ITEM_BYTES)))
    shown = keys[search.page * size : (search.page + 1) * size]
    return Page(UnparsedEntities(await _read(unit, search.project, shown)), len(keys), size)


async def _read(unit: UnitOfWork, project: str, keys: Sequence[EntityKey]) -> list[Unparsed]:
    """The entities with their metadata, not parsed, in the order of the keys."""
    ids: dict[str, list[str]] = {}
    for key in keys:
        ids.setdefault(key.type, []).append(key.id)
    found: dict[tuple[str, str], Unparsed] = {}
    for type_name, named in ids.items():
        if type_name == "run":
            entities: Sequence[Unparsed] = await unit.runs.list_summaries(named, project=project)
        else:
            entities = await unit.entities.list_summaries(type_name, named, project=project)
        found.update(((type_name, entity.id), entity) for entity in entities)
    return [found[key.type, key.id] for key in keys if (key.type, key.id) in found]


class _Test:
    """Finds the entities with all words of a search. `found` has their keys by type and id."""

    def __init__(self, unit: UnitOfWork, search: Search) -> None:
        self._unit = unit
        self._project = search.project
        self._words = [] if search.words is None else search.words.casefold().split()
        self._description = (search.description or "").casefold()
        self.found: dict[tuple[str, str], EntityKey] = {}
        self.cut: set[str] = set()
        """What was too long to be searched completely: descriptions, labels."""

    async def take(self, keys: AsyncIterator[EntityKey]) -> None:
        """Test them all, some at a time. Those that were found before are not read again."""
        chunk: list[EntityKey] = []
        size = 0
        async for key in keys:
            if (key.type, key.id) in self.found:
                continue
            if chunk and (len(chunk) == MOST_READ or size + key.metadata_bytes > MOST_READ_BYTES):
                await self._read_and_test(chunk)
                chunk, size = [], 0
            chunk.append(key)
            size += key.metadata_bytes
        await self._read_and_test(chunk)

    async def _read_and_test(self, keys: Sequence[EntityKey]) -> None:
        entities = await _read(self._unit, self._project, keys)
        fitting: set[tuple[str, str]] = set()
        for start in range(0, len(entities), TESTED_AT_ONCE):
            fitting |= await self._test(entities[start : start + TESTED_AT_ONCE])
        self.found.update(((key.type, key.id), key) for key in keys if (key.type, key.id) in fitting)

    async def _test(self, chunk: Sequence[Unparsed]) -> set[tuple[str, str]]:
        def test() -> set[tuple[str, str]]:
            parsed = (one.parse() for one in chunk)
            return {(entity.type, entity.id) for entity in parsed if self._fits(entity)}

        return await compute_on_thread(test)

    def _fits(self, entity: Entity) -> bool:
        whole = str(entity.metadata.get("description", ""))
        labels = "\n".join(map(str, entity.metadata.get("labels", [])))
        if len(whole) > MOST_SEARCHED_CHARACTERS:
            self.cut.add("descriptions")
        if self._words and len(labels) > MOST_SEARCHED_CHARACTERS:
            self.cut.add("labels")
        description = whole[:MOST_SEARCHED_CHARACTERS].casefold()
        text = f"{entity.id}\n{entity.name}\n{labels[:MOST_SEARCHED_CHARACTERS]}".casefold()
        return self._description in description and all(word in text or word in description for word in self._words)


class _Merged:
    """Merges the keys of several types in one order. `total` is known after iterating."""

    def __init__(self, unit: UnitOfWork, search: Search, *, q: str | None = None) -> None:
        self._unit = unit
        self._key = _make_key(search)
        self._is_descending = search.direction == "desc"
        self._queries = [_make_query(search, type_name, q=q) for type_name in search.types]
        self.total = 0

    async def iterate(self, *, most: int) -> AsyncIterator[EntityKey]:
        """The keys in order, at most `most`."""
        # Every query sorts again, so ask as few as possible.
        size = max(1, min(most, MOST_READ))
        streams = [_Chunks(self._unit, replace(query, size=size)) for query in self._queries]
        for stream in streams:
            await stream.fill()
        self.total = sum(stream.total for stream in streams)
        choose: Callable[..., _Chunks] = max if self._is_descending else min
        for _ in range(most):
            waiting = [stream for stream in streams if stream.keys]
            if not waiting:
                return
            chosen = choose(waiting, key=lambda stream: self._key(stream.keys[0]))
            yield chosen.keys.pop(0)
            await chosen.fill()


class _Chunks:
    """The keys of one type, read in chunks as needed."""

    def __init__(self, unit: UnitOfWork, query: Query) -> None:
        self._find_keys = unit.runs.find_keys if query.type == "run" else unit.entities.find_keys
        self._query = query
        self._is_at_end = False
        self.keys: list[EntityKey] = []
        self.total = 0

    async def fill(self) -> None:
        """Read the next chunk if none is left."""
        if self.keys or self._is_at_end:
            return
        page = await self._find_keys(self._query)
        self.keys, self.total = list(page.content), page.total
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
    )


def _make_key(search: Search) -> Callable[[EntityKey], tuple[Any, str]]:
    attribute = _ATTRIBUTES[search.sorted_by]

    def key(match: EntityKey) -> tuple[datetime | str, str]:
        return getattr(match, attribute), match.id

    return key
