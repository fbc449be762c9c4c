"""Query parameters. A route declares those it takes; that declaration is what is read and what OpenAPI shows.

Every parameter is known, bounded and read strictly: nothing in a query string is ignored in silence.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from starlette.datastructures import QueryParams
from starlette.requests import HTTPConnection

from runyard.api.context import Limits
from runyard.app.entities import expect_name
from runyard.app.times import read_time
from runyard.spec.problem_codes import Code
from runyard.spec.problems import find_nearest, list_words
from runyard.spec.readers import Findings, expect_integer, expect_option, expect_text

MOST_TEXT = 1024
MOST_UNKNOWN = 100
"""Unknown parameters of one request that are reported; a query string has room for thousands."""
T = TypeVar("T")
_FLAGS = {"true": True, "false": False, "True": True, "False": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterValues:
    """The values of one parameter in one request, and where its problems are collected."""

    name: str
    texts: Sequence[str]
    findings: Findings
    limits: Limits

    def find(self, reader: Callable[[str], T]) -> T | None:
        """The value; None if it is absent, empty or refused."""
        given = self.find_text()
        return self.read_part(reader, given) if given else None

    def list(self, reader: Callable[[str], T]) -> list[T]:
        """The values of a parameter that may be repeated, without empty and refused ones."""
        read = [self.read_part(reader, given) for given in self.texts if given]
        return [value for value in read if value is not None]

    def find_text(self) -> str | None:
        """The text as it was sent; two that differ are a problem, since one of them would be ignored."""
        distinct = dict.fromkeys(self.texts)
        if len(distinct) > 1:
            self.add(
                Code.PARAMETER_TWICE,
                "is given twice, with different values",
                value=list_words(distinct, most=5),
                allowed="one value",
            )
        return next(iter(distinct), None)

    def read_part(self, reader: Callable[[str], T], part: str) -> T | None:
        """A part of the text as the reader returns it; None if it was refused."""
        return self.findings.read(reader, part, "query", self.name)

    def add(self, code: Code, message: str, **details: str | None) -> None:
        """Note a problem of this parameter."""
        self.findings.add(code, ("query", self.name), message, **details)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryParameter(Generic[T]):
    """One parameter: its name, what OpenAPI says of it, and how it is read."""

    name: str
    description: str
    schema: Mapping[str, Any]
    read: Callable[[ParameterValues], T]
    is_page_size: bool = False
    """Whether the server's limit for the size of a page is its maximum."""

    def describe(self, limits: Limits) -> Mapping[str, Any]:
        """Its JSON Schema on a server with those limits."""
        if not self.is_page_size:
            return self.schema
        return {**self.schema, "maximum": limits.list_size, "default": min(self.schema["default"], limits.list_size)}


class Parameters:
    """The query of a request as its route declares it: `parameters[STRICT]`."""

    def __init__(self, values: Mapping[QueryParameter[Any], Any]) -> None:
        self._values = values

    def __getitem__(self, parameter: QueryParameter[T]) -> T:
        """Its value. Raises `KeyError` for one that the route does not declare."""
        value: T = self._values[parameter]
        return value


def read_parameters(query: QueryParams, declared: Iterable[QueryParameter[Any]], *, limits: Limits) -> Parameters:
    """Read all declared parameters; raises `Refused` with every problem, unknown parameters among them."""
    findings = Findings()
    known = {parameter.name: parameter for parameter in declared}
    unknown = [name for name in dict.fromkeys(query.keys()) if name not in known]
    allowed = list_words(known, most=30) if known else "no parameters"
    if len(unknown) > MOST_UNKNOWN:
        message = f"has {len(unknown)} unknown parameters; the first {MOST_UNKNOWN} are listed"
        findings.add(Code.PARAMETER_UNKNOWN, ("query",), message, allowed=allowed)
    for name in unknown[:MOST_UNKNOWN]:
        findings.add(
            Code.PARAMETER_UNKNOWN,
            ("query", name),
            "unknown parameter",
            allowed=allowed,
            suggestion=find_nearest(name, known),
        )
    values = {
        parameter: parameter.read(
            ParameterValues(name=name, texts=query.getlist(name), findings=findings, limits=limits)
        )
        for name, parameter in known.items()
    }
    findings.finish()
    return Parameters(values)


def get_parameters(request: HTTPConnection) -> Parameters:
    """The query of a request, which was read before its endpoint was called."""
    parameters: Parameters = request.state.parameters
    return parameters


def read_text(given: str) -> str:
    """A text, bounded."""
    return expect_text(given, what="the text", most=MOST_TEXT)


def read_name(given: str) -> str:
    """A text that is compared with a column of names."""
    return expect_name(given, what="the text", most=MOST_TEXT)


def text(
    name: str,
    description: str,
    *,
    reader: Callable[[str], str] = read_text,
    schema: Mapping[str, Any] | None = None,
) -> QueryParameter[str | None]:
    """Declare a text; None if it is absent or empty."""

    return QueryParameter(
        name=name,
        description=description,
        schema=schema or {"type": "string"},
        read=lambda values: values.find(reader),
    )


def option(name: str, description: str, *, options: Sequence[str], **schema: Any) -> QueryParameter[str | None]:
    """Declare a text that is one of several; `schema` adds to its JSON Schema."""
    return text(
        name,
        description,
        reader=lambda given: expect_option(read_text(given), what=name, options=options),
        schema={"enum": list(options), **schema},
    )


def texts(
    name: str,
    description: str,
    *,
    reader: Callable[[str], str] = read_text,
    schema: Mapping[str, Any] | None = None,
) -> QueryParameter[tuple[str, ...]]:
    """Declare a text that may be repeated; empty ones are dropped."""

    return QueryParameter(
        name=name,
        description=description,
        schema=schema or {"type": "array", "items": {"type": "string"}},
        read=lambda values: tuple(values.list(reader)),
    )


def flag(name: str, description: str) -> QueryParameter[bool]:
    """Declare `true` or `false`; false if it is absent."""

    def read(values: ParameterValues) -> bool:
        given = values.find_text()
        if given is not None and given not in _FLAGS:
            values.add(Code.VALUE_OPTION, "is not a boolean", value=given, allowed="true, false")
        return _FLAGS.get(given or "", False)

    return QueryParameter(name=name, description=description, schema={"type": "boolean", "default": False}, read=read)


def page_size(name: str, description: str, *, default: int) -> QueryParameter[int]:
    """Declare the number of entries in a page, at most the server's limit."""

    def read(values: ParameterValues) -> int:
        most = values.limits.list_size
        found = _read_integer(values, at_least=1, at_most=most)
        return min(default, most) if found is None else found

    schema = {"type": "integer", "minimum": 1, "default": default}
    return QueryParameter(name=name, description=description, schema=schema, read=read, is_page_size=True)


def integer(name: str, description: str, *, default: int, at_least: int, at_most: int) -> QueryParameter[int]:
    """Declare a whole number within bounds."""

    def read(values: ParameterValues) -> int:
        found = _read_integer(values, at_least=at_least, at_most=at_most)
        return default if found is None else found

    schema = {"type": "integer", "minimum": at_least, "maximum": at_most, "default": default}
    return QueryParameter(name=name, description=description, schema=schema, read=read)


def optional_integer(name: str, description: str, *, at_least: int, at_most: int) -> QueryParameter[int | None]:
    """Declare a whole number within bounds; None if it is absent."""

    def read(values: ParameterValues) -> int | None:
        return _read_integer(values, at_least=at_least, at_most=at_most)

    schema = {"type": "integer", "minimum": at_least, "maximum": at_most}
    return QueryParameter(name=name, description=description, schema=schema, read=read)


def time_point(name: str, description: str) -> QueryParameter[datetime | None]:
    """Declare a time in ISO 8601 with its offset."""

    return QueryParameter(
        name=name,
        description=description,
        schema={"type": "string"},
        read=lambda values: values.find(lambda given: read_time(read_text(given))),
    )


def _read_integer(values: ParameterValues, *, at_least: int, at_most: int) -> int | None:
    given = values.find_text()
    if given is None:
        return None
    return values.read_part(
        lambda text: expect_integer(text, what=values.name, at_least=at_least, at_most=at_most), given
    )


PAGE = integer("page", "Number of the page, from 0.", default=0, at_least=0, at_most=2**31)
SIZE = page_size(
    "size", "Entries per page. Pages of large entities are shorter; see `size` in the response.", default=25
)
NAME = text("name", "Exact name; for projects, a part of the name.", reader=read_name)
USER = text("user", "Name of a user.", reader=read_name)
CASCADE = flag("cascade", "Also delete what depends on it.")
STRICT = flag("strict", "Refuse what would otherwise be a warning.")
