"""Query strings: every parameter is known, bounded and read strictly; nothing is ignored in silence."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from starlette.requests import Request

from runyard.api.context import get_web
from runyard.app.entities import STATES, expect_name
from runyard.app.ports import Query, Span
from runyard.app.times import read_time
from runyard.spec.problem_codes import Code
from runyard.spec.problems import find_nearest, list_words
from runyard.spec.readers import Findings, expect_integer, expect_option, expect_text, refuse

LIST = (
    *("page", "size", "sort", "q", "name", "kind", "user", "state", "created", "updated", "labels", "versions"),
    *("function", "workflow", "task", "action"),
)
SORTED_BY = ("created", "updated", "name", "kind", "project", "state", "id", "user")
MOST_SORTS = 8
MOST_LABELS = 32
MOST_TEXT = 1024
_NAMES = frozenset({"name", "kind", "user", "role", "labels", "action"})
"""What is compared with columns that hold names."""
_EXACT = ("q", "name", "kind", "user", "state", "function", "workflow", "task", "action")


class Parameters:
    """The query of a request. `finish` raises everything that is wrong with it."""

    def __init__(self, request: Request, known: Iterable[str]) -> None:
        self._values = request.query_params
        self.findings = Findings()
        names = list(known)
        for name in dict.fromkeys(self._values.keys()):
            if name not in names:
                self.findings.add(
                    Code.PARAMETER_UNKNOWN,
                    ("query", name),
                    "no such parameter here",
                    allowed=list_words(names, most=30) if names else "no parameters",
                    suggestion=find_nearest(name, names),
                )

    def find(self, name: str) -> str | None:
        """Its text; None if it is not there or empty."""
        given = self._find_one(name)
        reader = _read_name if name in _NAMES else _read_text
        return None if not given else self.findings.read(reader, given, "query", name)

    def list(self, name: str) -> list[str]:
        """All of its texts, however often it is repeated."""
        given = [text for text in self._values.getlist(name) if text]
        reader = _read_names if name in _NAMES else _read_text
        read = [self.findings.read(reader, text, "query", name) for text in given]
        return [text for text in read if text is not None]

    def flag(self, name: str) -> bool:
        """`true` or `false`; false if it is not there."""
        given = self._find_one(name)
        options = {"true": True, "false": False, "True": True, "False": False, "1": True, "0": False}
        if given is None or given in options:
            return options.get(given or "", False)
        self.findings.add(Code.VALUE_OPTION, ("query", name), "is not known", value=given, allowed="true, false")
        return False

    def integer(self, name: str, *, default: int, at_least: int, at_most: int) -> int:
        """A whole number within bounds."""
        given = self._find_one(name)
        if given is None:
            return default
        read = self.findings.read(
            lambda text: expect_integer(text, what=name, at_least=at_least, at_most=at_most), given, "query", name
        )
        return default if read is None else read

    def time(self, name: str) -> datetime | None:
        """A time in ISO 8601 with its offset."""
        given = self.find(name)
        return None if given is None else self.findings.read(read_time, given, "query", name)

    def finish(self) -> None:
        """Raise `Refused` if anything was found."""
        self.findings.finish()

    def _find_one(self, name: str) -> str | None:
        """What is said of it once; two that differ are refused, since one of them would not be used."""
        given = dict.fromkeys(self._values.getlist(name))
        if len(given) > 1:
            shown = list_words(given, most=5)
            self.findings.add(Code.PARAMETER_TWICE, ("query", name), "is said twice", value=shown, allowed="one value")
        return next(iter(given), None)


def read_strict(request: Request) -> bool:
    """Whether doubts are refusals, where that is all that is asked; raises `Refused`."""
    parameters = Parameters(request, ("strict",))
    is_strict = parameters.flag("strict")
    parameters.finish()
    return is_strict


def read_query(request: Request, type_name: str, *, default_sort: str = "created") -> Query:
    """The page that a list asks for; raises `Refused`."""
    parameters = Parameters(request, LIST)
    number, size = read_page(parameters, request)
    filters: Mapping[str, Any] = {name: parameters.find(name) for name in _EXACT}
    versions = parameters.find("versions")
    for name, given, options in (("versions", versions, ("latest", "all")), ("state", filters["state"], STATES)):
        if given is not None:
            _check_option(parameters, name, given, options=sorted(options))
    for name in ("kind", "task"):
        given = filters[name]
        if given is not None and " " in given.partition("://")[0]:
            message = "no kind has a space: in an address `+` stands for one, and `%2B` for `+`"
            meant = given.replace(" ", "%2B")
            parameters.findings.add(Code.VALUE_SPACE, ("query", name), message, value=given, suggestion=meant)
    labels = [label for text in parameters.list("labels") for label in text.split(",") if label]
    if len(labels) > MOST_LABELS:
        parameters.findings.add(Code.SIZE_ENTRIES, ("query", "labels"), f"at most {MOST_LABELS} labels")
    query = Query(
        type=type_name,
        project=request.path_params.get("project"),
        labels=tuple(dict.fromkeys(labels)),
        created=_read_span(parameters, "created"),
        updated=_read_span(parameters, "updated"),
        versions="all" if versions == "all" else "latest",
        sort=_read_sort(parameters) or ((default_sort, "asc" if default_sort == "name" else "desc"),),
        page=number,
        size=size,
        **filters,
    )
    parameters.finish()
    return query


def read_page(parameters: Parameters, request: Request) -> tuple[int, int]:
    """The number and the size of the page that is asked for."""
    most = get_web(request).limits.list_size
    number = parameters.integer("page", default=0, at_least=0, at_most=2**31)
    return number, parameters.integer("size", default=25, at_least=1, at_most=most)


def read_expected_revision(request: Request) -> int | None:
    """The revision of `If-Match`; `*` and nothing are any."""
    given = request.headers.get("if-match")
    if given is None or given.strip() == "*":
        return None
    text = given.strip().removeprefix("W/").strip('"')
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise refuse(Code.HEADER_IF_MATCH, "not an ETag of ours", path=("header", "If-Match"), value=given[:80])
    return int(text)


def refuse_expected_revision(request: Request) -> None:
    """Raise `Refused` for `If-Match` where nothing has a revision: it would be taken for a check that nobody makes."""
    if request.headers.get("if-match") is not None:
        message = "metrics have no revision: leave the header out"
        raise refuse(Code.HEADER_IF_MATCH, message, path=("header", "If-Match"))


def _check_option(parameters: Parameters, name: str, given: str, *, options: Iterable[str]) -> None:
    parameters.findings.read(lambda text: expect_option(text, what=name, options=options), given, "query", name)


def _read_text(given: str) -> str:
    return expect_text(given, what="the text", most=MOST_TEXT)


def _read_name(given: str) -> str:
    return expect_name(given, what="the text", most=MOST_TEXT)


def _read_names(given: str) -> str:
    """Several of them, with commas between."""
    for name in filter(None, _read_text(given).split(",")):
        _read_name(name)
    return given


def _read_sort(parameters: Parameters) -> tuple[tuple[str, Literal["asc", "desc"]], ...]:
    sorts: list[tuple[str, Literal["asc", "desc"]]] = []
    given = parameters.list("sort")
    if len(given) > MOST_SORTS:
        parameters.findings.add(Code.SIZE_ENTRIES, ("query", "sort"), f"at most {MOST_SORTS} columns")
    for text in given[:MOST_SORTS]:
        name, _, direction = text.partition(",")
        parameters.findings.read(
            lambda field: expect_option(field, what="a sort", options=SORTED_BY), name.strip(), "query", "sort"
        )
        if direction.strip().lower() not in ("", "asc", "desc"):
            allowed = "field,asc or field,desc"
            parameters.findings.add(Code.VALUE_OPTION, ("query", "sort"), "no direction", value=text, allowed=allowed)
        sorts.append((name.strip(), "desc" if direction.strip().lower() == "desc" else "asc"))
    return tuple(sorts)


def _read_span(parameters: Parameters, name: str) -> Span | None:
    text = parameters.find(name)
    if text is None:
        return None
    start, _, end = text.partition(",")
    read = [parameters.findings.read(read_time, part, "query", name) if part else None for part in (start, end)]
    return (read[0], read[1])
