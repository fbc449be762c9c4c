"""Lists of entities: what is selected, in which order, and a page of the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, Literal, get_origin, get_type_hints

from runyard.app.model import Entity

Span = tuple[datetime | None, datetime | None]
LISTED_TRANSITIONS = 10
"""Transitions of a run in a list, the newest."""
LISTED_MESSAGE_CHARACTERS = 512
"""Of the message of a transition in a list."""
LISTED_RUN_BYTES = 12 << 10
"""What a list shows of a run besides its documents, at most: its message, and the transitions above."""


class FilterKind(Enum):
    """How a list filter is compared. The store has one condition per kind."""

    EXACT = "exact"
    NAME = "name"
    """Exact; for projects, contained in the name."""
    SEARCH = "search"
    """Contained in id or name, ignoring case; for runs also in function or workflow."""
    REFERENCE = "reference"
    """A reference with `:id` is exact; without, every version of the function or workflow."""
    LABELS = "labels"
    """All of these are in `metadata.labels`."""
    SPAN = "span"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A list of entities of one type. A filter that has its default, None or no labels, does not filter.

    A field annotated with a `FilterKind` is a list filter. This is the only place that declares it: the conditions and
    the totals of the store, and the query parameters of the API, are made from `LIST_FILTERS`.
    """

    type: str
    project: str | None = None
    visible_projects: frozenset[str] | None = None
    """For lists of projects: the visible ones; None: all."""
    visible_to: str | None = None
    """For lists of projects: also those that this user created."""
    q: Annotated[str | None, FilterKind.SEARCH] = None
    name: Annotated[str | None, FilterKind.NAME] = None
    kind: Annotated[str | None, FilterKind.EXACT] = None
    user: Annotated[str | None, FilterKind.EXACT] = None
    state: Annotated[str | None, FilterKind.EXACT] = None
    function: Annotated[str | None, FilterKind.REFERENCE] = None
    workflow: Annotated[str | None, FilterKind.REFERENCE] = None
    task: Annotated[str | None, FilterKind.EXACT] = None
    action: Annotated[str | None, FilterKind.EXACT] = None
    labels: Annotated[tuple[str, ...], FilterKind.LABELS] = ()
    created: Annotated[Span | None, FilterKind.SPAN] = None
    updated: Annotated[Span | None, FilterKind.SPAN] = None
    versions: Literal["latest", "all"] = "latest"
    """For versioned types: the newest of each name, or all."""
    sort: tuple[tuple[str, Literal["asc", "desc"]], ...] = ()
    """By fields of `SORT_FIELDS`. Default: created desc; ties by id."""
    page: int = 0
    size: int = 25
    is_brief: bool = False
    """For runs: leave request, effective spec and provenance empty; they are large and lists do not show them."""
    is_summary: bool = False
    """Leave also spec, status and extensions empty: metadata is bounded, they are not."""
    is_without_documents: bool = False
    """Leave also metadata empty."""
    is_unparsed: bool = False
    """The content of the page is `UnparsedEntities`."""
    most_bytes: int | None = None
    """A page has fewer entities than `size` if the largest of the list would not fit; `Page.size` says how many."""

    def find_filters(self) -> Sequence[tuple[str, FilterKind]]:
        """The filters that are set."""
        return [(name, kind) for name, kind in LIST_FILTERS.items() if getattr(self, name) not in (None, ())]


LIST_FILTERS: Mapping[str, FilterKind] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Query, include_extras=True).items()
    if get_origin(hint) is Annotated
}
"""Every filter of a list, by the name of its field in `Query`."""
SORT_FIELDS = ("created", "updated", "name", "kind", "project", "state", "id", "user")


@dataclass(frozen=True, slots=True)
class Page:
    """One page, and the number of matches in all."""

    content: Sequence[Entity]
    total: int
    size: int = 0
    """Entities per page of this list: that of the query, or less because of `Query.most_bytes`."""
