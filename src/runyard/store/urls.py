"""Parses database URLs, and shows them without passwords."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from runyard.store.errors import WrongUrl

EXAMPLES = "sqlite:////var/lib/runyard/runyard.db or postgresql://runyard@db.example.org/runyard"
_POSTGRESQL_SCHEMES = ("postgresql", "postgres", "postgresql+asyncpg")
_SQLITE_SCHEMES = ("sqlite", "sqlite+aiosqlite")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteUrl:
    """A SQLite database."""

    path: Path

    @property
    def shown(self) -> str:
        """For messages; `parse_url` reads it."""
        return f"sqlite:///{quote(str(self.path))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresUrl:
    """A PostgreSQL database. `dsn` may contain a password; only the driver gets it."""

    dsn: str = field(repr=False)
    shown: str


DatabaseUrl = SqliteUrl | PostgresUrl


def parse_url(url: str) -> DatabaseUrl:
    """Parse a URL. Raises `WrongUrl`; the message shows only the scheme, since a password may be anywhere."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise WrongUrl(f"a database URL looks like {EXAMPLES}")
    if scheme in _SQLITE_SCHEMES:
        return _parse_sqlite_url(rest)
    if scheme in _POSTGRESQL_SCHEMES:
        return _parse_postgresql_url(f"postgresql://{rest}")
    raise WrongUrl(f"databases of the kind {scheme} are not supported; use {EXAMPLES}")


def show_url(url: str) -> str:
    """The URL without password and options. Raises `WrongUrl`."""
    return parse_url(url).shown


def _parse_sqlite_url(rest: str) -> SqliteUrl:
    if not rest.startswith("/") or rest in ("/", "/:memory:"):
        raise WrongUrl("a SQLite database needs a file, with an absolute path: sqlite:////var/lib/runyard/runyard.db")
    if "?" in rest:
        raise WrongUrl("the URL of a SQLite database has no options: only sqlite:////var/lib/runyard/runyard.db")
    path = Path(unquote(rest[1:]))
    if not path.is_absolute():
        # Where it would be depends on the directory in which each command is started.
        raise WrongUrl(f"the path of a SQLite database must be absolute: use {SqliteUrl(path=path.absolute()).shown}")
    return SqliteUrl(path=path)


def _parse_postgresql_url(url: str) -> PostgresUrl:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise WrongUrl("the database URL cannot be read; special characters in it must be percent-encoded") from None
    if "@" in parts.path or "@" in parts.fragment or parts.fragment:
        raise WrongUrl("special characters in a database URL must be percent-encoded: / is %2F, @ is %40, # is %23")
    userinfo, at, hosts = parts.netloc.rpartition("@")
    user = userinfo.partition(":")[0]
    return PostgresUrl(dsn=url, shown=f"postgresql://{user}{at}{hosts}{parts.path}")
