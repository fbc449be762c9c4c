"""Column types that behave the same on SQLite and PostgreSQL."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Dialect, Integer, LargeBinary, Text
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeDecorator, TypeEngine

from runyard.store.errors import NaiveTime, UnstorableText

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LARGEST = 2**63 - 1
_SLICE = 5000

# A row of a PostgreSQL index is limited to about 2,700 bytes; our widest has one reference and two names.
NAME_BYTES = 600
REFERENCE_BYTES = 1500

# Texts are ordered by bytes, so that both engines sort alike whatever the locale is.
_BY_BYTES = Text(collation="C")

Sequence = BigInteger().with_variant(Integer(), "sqlite")
"""An auto-incremented number; SQLite supports that only for INTEGER."""

Bytes = LargeBinary
Count = BigInteger


class UtcTime(TypeDecorator[datetime]):
    """A time in microseconds. Takes aware times, returns aware times in UTC."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return postgresql.TIMESTAMP(timezone=True) if dialect.name == "postgresql" else BigInteger()

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise NaiveTime(f"a time without a time zone: {value.isoformat()}")
        return value if dialect.name == "postgresql" else (value - EPOCH) // MICROSECOND

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        at: datetime = value.astimezone(UTC) if dialect.name == "postgresql" else EPOCH + value * MICROSECOND
        return at


class JsonText(TypeDecorator[Any]):
    """JSON as text. Order of keys, NaN and every character are preserved on both engines."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002 - inherited
        return None if value is None else _write_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002 - inherited
        return self.parse(value)

    def parse(self, text: str | None) -> Any:
        """The value that was stored as this text."""
        return None if text is None else json.loads(text)


def _write_json(value: Any) -> str:
    """As `json.dumps`; a long list, such as a metric, in slices: one call would hold the interpreter lock (GIL)."""
    if not isinstance(value, list | tuple) or len(value) <= _SLICE:
        return json.dumps(value, separators=(",", ":"))
    slices = (value[start : start + _SLICE] for start in range(0, len(value), _SLICE))
    return f"[{','.join([json.dumps(part, separators=(',', ':'))[1:-1] for part in slices])}]"


class JsonTuple(JsonText):
    """A JSON list, as a tuple in Python."""

    cache_ok = True

    def parse(self, text: str | None) -> Any:
        """The value that was stored as this text."""
        return () if text is None else tuple(json.loads(text))


class Name(TypeDecorator[str]):
    """An indexed text. Raises `UnstorableText` if one of the engines could not store or index it."""

    impl = Text
    cache_ok = True
    largest_bytes = NAME_BYTES

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return _BY_BYTES if dialect.name == "postgresql" else Text()

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - inherited
        if value is None:
            return None
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise UnstorableText("an unpaired surrogate cannot be stored in a name") from None
        if "\0" in value:
            raise UnstorableText("a NUL cannot be stored in a name")
        if size > self.largest_bytes:
            raise UnstorableText(f"a name of {size} bytes, the longest that can be stored has {self.largest_bytes}")
        return value


def is_storable_name(value: str) -> bool:
    """Whether a `Name` could have this value; otherwise no row has it."""
    is_short = len(value) <= NAME_BYTES if value.isascii() else len(value.encode(errors="replace")) <= NAME_BYTES
    return is_short and "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


class Reference(Name):
    """A reference string, which consists of several names."""

    cache_ok = True
    largest_bytes = REFERENCE_BYTES


class Prose(TypeDecorator[str]):
    """A text for people, not indexed. Characters that an engine cannot store become U+FFFD."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - inherited
        if value is None:
            return None
        return value.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
