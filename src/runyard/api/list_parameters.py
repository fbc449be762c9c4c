"""Query parameters of lists: page, sort order and filters. Each filter of `app.ports.Query` has one."""

from collections.abc import Mapping
from typing import Any, Literal

from starlette.requests import Request

from runyard.api.context import get_context
from runyard.api.query_parameters import (
    NAME,
    PAGE,
    SIZE,
    USER,
    ParameterValues,
    QueryParameter,
    get_parameters,
    option,
    read_name,
    read_text,
    text,
)
from runyard.app.entities import STATES
from runyard.app.list_query import LIST_FILTERS, SORT_FIELDS, Query, Span
from runyard.app.times import read_time
from runyard.spec.problem_codes import Code
from runyard.spec.readers import expect_option, refuse

SortOrder = tuple[tuple[str, Literal["asc", "desc"]], ...]
MOST_SORTS = 8
MOST_LABELS = 32


def read_query(request: Request, type_name: str, *, default_sort: str = "created") -> Query:
    """The query that the parameters of a list describe."""
    parameters = get_parameters(request)
    filters: Mapping[str, Any] = {name: parameters[parameter] for name, parameter in FILTERS.items()}
    return Query(
        type=type_name,
        project=request.path_params.get("project"),
        versions="all" if parameters[VERSIONS] == "all" else "latest",
        sort=parameters[SORT] or ((default_sort, "asc" if default_sort == "name" else "desc"),),
        page=parameters[PAGE],
        size=parameters[SIZE],
        most_bytes=get_context(request).limits.page_bytes,
        **filters,
    )


def _read_kind(given: str) -> str:
    """A kind, or a reference that begins with one."""
    if " " in given.partition("://")[0]:
        message = "a kind has no spaces; write `+` as `%2B` in a URL"
        raise refuse(Code.VALUE_SPACE, message, value=given, suggestion=given.replace(" ", "%2B"))
    return given


def _read_names(given: str) -> list[str]:
    """Names with commas between them."""
    return [read_name(name) for name in read_text(given).split(",") if name]


def _read_labels(values: ParameterValues) -> tuple[str, ...]:
    labels = [label for names in values.list(_read_names) for label in names]
    if len(labels) > MOST_LABELS:
        values.add(Code.SIZE_ENTRIES, f"at most {MOST_LABELS} labels")
    return tuple(dict.fromkeys(labels))


def _read_sort(values: ParameterValues) -> SortOrder:
    sorts: list[tuple[str, Literal["asc", "desc"]]] = []
    given = values.list(read_text)
    if len(given) > MOST_SORTS:
        values.add(Code.SIZE_ENTRIES, f"at most {MOST_SORTS} columns")
    for column in given[:MOST_SORTS]:
        name, _, direction = column.partition(",")
        values.read_part(lambda field: expect_option(field, what="sort column", options=SORT_FIELDS), name.strip())
        if direction.strip().lower() not in ("", "asc", "desc"):
            values.add(Code.VALUE_OPTION, "not a sort direction", value=column, allowed="field,asc or field,desc")
        sorts.append((name.strip(), "desc" if direction.strip().lower() == "desc" else "asc"))
    return tuple(sorts)


def _read_span(values: ParameterValues) -> Span | None:
    given = values.find(read_text)
    if given is None:
        return None
    start, _, end = given.partition(",")
    since, until = (values.read_part(read_time, part) if part else None for part in (start, end))
    return (since, until)


def _declare_span(name: str) -> QueryParameter[Span | None]:
    words = "`start` or `start,end`: times in ISO 8601 with an offset."
    return QueryParameter(name=name, description=words, schema={"type": "string"}, read=_read_span)


SORT = QueryParameter(
    name="sort",
    description="`field,asc` or `field,desc`; may be repeated.",
    schema={"type": "array", "items": {"type": "string"}},
    read=_read_sort,
)
VERSIONS = option(
    "versions",
    "`latest`: the newest version of each name; `all`: every version.",
    options=("latest", "all"),
    default="latest",
)
_REFERENCE = "`kind://project/name:id`; without `:id`, every version."
_DECLARED: Mapping[str, QueryParameter[Any]] = {
    one.name: one
    for one in (
        text("q", "Text contained in id or name, in any case; for runs also in function or workflow."),
        NAME,
        text("kind", "Exact kind.", reader=lambda given: _read_kind(read_name(given))),
        USER,
        option("state", "Exact state.", options=sorted(STATES)),
        text("function", _REFERENCE),
        text("workflow", _REFERENCE),
        text("task", "Exact task, `kind+action://project/id`.", reader=lambda given: _read_kind(read_text(given))),
        text("action", "Action of the task: job, serve …", reader=read_name),
        QueryParameter(
            name="labels",
            description="Labels that must all be present, separated by commas or repeated.",
            schema={"type": "string"},
            read=_read_labels,
        ),
        _declare_span("created"),
        _declare_span("updated"),
    )
}
FILTERS = {name: _DECLARED[name] for name in LIST_FILTERS}
"""The parameter of each filter; a filter of `Query` without one fails here, at import."""
LIST: tuple[QueryParameter[Any], ...] = (PAGE, SIZE, SORT, VERSIONS, *FILTERS.values())
"""What every list takes."""
