"""`/api/v1/-/{project}/solr/search/item`: search, in the query language of DigitalHub's SDK.

A filter is `field:value`, the value `"text"`, `(a OR b)`, `(a AND b)` or `[start TO end]` with `*` for an open end.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.openapi_models import SearchResponse
from runyard.api.query_parameters import PAGE, SIZE, ParameterValues, QueryParameter, get_parameters, read_text, text
from runyard.api.responses import entity_to_json, page_response
from runyard.api.routing import Routes
from runyard.app.list_query import Span
from runyard.app.model import Entity, Json
from runyard.app.projects import MOST_WORDS, SEARCHED, Search, SortedBy, search_project
from runyard.app.times import read_time
from runyard.domain.access import Permission
from runyard.spec.problem_codes import Code
from runyard.spec.problems import find_nearest
from runyard.spec.readers import Findings, expect_option, expect_text, refuse

routes = Routes("/api/v1/-/{project}/solr/search", tag="search")
SORTS: Mapping[str, SortedBy] = {
    "metadata.updated": "updated",
    "metadata.created": "created",
    "metadata.name": "name",
    "updated": "updated",
    "created": "created",
    "name": "name",
    "kind": "kind",
}
MOST_FILTERS = 50
MOST_VALUES = 50
_SHOWN = ("id", "key", "kind", "name", "project", "metadata")


def _to_item(entity: Entity) -> Json:
    whole = entity_to_json(entity)
    return {"type": entity.type, **{name: whole[name] for name in _SHOWN}, "status": {"state": str(entity.state)}}


def _read_search(request: Request, project: str) -> Search:
    parameters = get_parameters(request)
    sorted_by, direction = parameters[SORT]
    return Search(
        project=project,
        most_bytes=get_context(request).limits.page_bytes,
        words=parameters[Q],
        sorted_by=sorted_by,
        direction=direction,
        page=parameters[PAGE],
        size=parameters[SIZE],
        **parameters[FILTERS],
    )


def _read_sort(values: ParameterValues) -> tuple[SortedBy, Literal["asc", "desc"]]:
    given = values.list(read_text)
    if len(given) > 1:
        values.add(Code.SIZE_ENTRIES, "one column at most")
    name, _, direction = (given[0] if given else "metadata.updated,desc").partition(",")
    if direction.lower() not in ("", "asc", "desc"):
        values.add(Code.VALUE_OPTION, "not a sort direction", value=given[0], allowed="field,asc or field,desc")
    column = values.read_part(lambda field: expect_option(field, what="sort column", options=SORTS), name.strip())
    return SORTS.get(column or "", "updated"), "desc" if direction.lower() == "desc" else "asc"


def _read_filters(values: ParameterValues) -> dict[str, Any]:
    given = values.list(read_text)
    if len(given) > MOST_FILTERS:
        values.add(Code.SIZE_ENTRIES, f"at most {MOST_FILTERS} filters")
    filters: dict[str, Any] = {}
    for filter_ in given[:MOST_FILTERS]:
        name, separator, value = filter_.partition(":")
        name = name.strip()
        if not separator or name not in _READERS:
            message = "unknown filter" if separator else "a filter is `field:value`"
            allowed, nearest = ", ".join(_READERS), find_nearest(name, _READERS)
            values.add(Code.FILTER_UNKNOWN, message, value=filter_, allowed=allowed, suggestion=nearest)
            continue
        target, reader = _READERS[name]
        if target in filters:
            values.add(Code.FILTER_TWICE, f"`{name}` is filtered twice", value=filter_)
            continue
        filters[target] = values.read_part(reader, value.strip())
    return filters


def _read_phrase(given: str) -> str:
    is_quoted = len(given) >= 2 and given[0] == given[-1] == '"'
    return expect_text(given[1:-1] if is_quoted else given, what="a filter's value")


def _read_several(given: str, *, between: str, against: str) -> tuple[str, ...]:
    inner = given[1:-1] if given.startswith("(") and given.endswith(")") else given
    if f" {against} " in inner:
        raise refuse(Code.FILTER_OPERATOR, f"`{against}` is not known here", value=given, allowed=f"(a {between} b)")
    values = tuple(dict.fromkeys(_read_phrase(part.strip()) for part in inner.split(f" {between} ")))
    if len(values) > MOST_VALUES:
        raise refuse(Code.SIZE_ENTRIES, f"has {len(values)} values", allowed=f"at most {MOST_VALUES}")
    return values


def _read_types(given: str) -> tuple[str, ...]:
    findings = Findings()
    for name in (names := _read_several(given, between="OR", against="AND")):
        findings.read(lambda text: expect_option(text, what="type", options=SEARCHED), name)
    findings.finish()
    return names


def _read_labels(given: str) -> tuple[str, ...]:
    return _read_several(given, between="AND", against="OR")


def _read_span(given: str) -> Span | None:
    parts = given[1:-1].split(" TO ") if given.startswith("[") and given.endswith("]") else []
    if len(parts) != 2:
        raise refuse(Code.FILTER_SPAN, "not a time range", value=given, allowed="[start TO end], `*` where it is open")
    start, end = (None if part.strip() == "*" else read_time(part) for part in parts)
    # The SDK always sends `[* TO *]`, which does not filter.
    return None if start is None and end is None else (start, end)


def _read_words(given: str) -> str:
    words = len(read_text(given).split())
    if words > MOST_WORDS:
        raise refuse(Code.SIZE_ENTRIES, f"has {words} words", allowed=f"at most {MOST_WORDS}")
    return given


Reader = Callable[[str], Any]
_READERS: Mapping[str, tuple[str, Reader]] = {
    "type": ("types", _read_types),
    "kind": ("kind", _read_phrase),
    "metadata.name": ("name", _read_phrase),
    "metadata.description": ("description", _read_phrase),
    "metadata.labels": ("labels", _read_labels),
    "metadata.updated": ("updated", _read_span),
    "metadata.created": ("created", _read_span),
}
Q = text("q", f"Words to search for, in any case; at most {MOST_WORDS}.", reader=_read_words)
FILTERS = QueryParameter(
    name="fq",
    description="A filter: `type:(function)`, `metadata.labels:(a AND b)`; may be repeated.",
    schema={"type": "array", "items": {"type": "string"}},
    read=_read_filters,
)
SORT = QueryParameter(
    name="sort",
    description="`field,asc` or `field,desc`.",
    schema={"type": "array", "items": {"type": "string"}},
    read=_read_sort,
)


@routes.get(
    "/item",
    permission=Permission.READ,
    parameters=(Q, FILTERS, PAGE, SIZE, SORT),
    response=SearchResponse,
    name="search_items",
)
async def search(request: Request, project: str) -> Response:
    """Search a project: every version of every entity that matches all filters, last updated first.

    At most 1000 matches are returned, and only the newest 2000 entities are searched by description and labels, each in
    its first 4096 characters. If a limit left something out, the header `X-Search-Bounded` says which. Pages are
    shorter if the matches are large, as those of lists are.
    """
    wanted = _read_search(request, project)
    found = await search_project(get_context(request).core, wanted)
    response = page_response(found.page, number=wanted.page, size=wanted.size, show=_to_item)
    if found.bound is not None:
        response.headers["X-Search-Bounded"] = found.bound
    return response
