"""URLs: what is understood, what is refused, and that a password is shown nowhere."""

from pathlib import Path

import pytest

from runyard.store import show_url
from runyard.store.errors import WrongUrl
from runyard.store.urls import PostgresUrl, SqliteUrl, parse_url


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+aiosqlite"])
def test_path_is_absolute_when_the_url_is_of_sqlite(scheme: str) -> None:
    assert parse_url(f"{scheme}:////var/lib/a%20b.db") == SqliteUrl(path=Path("/var/lib/a b.db"))
    assert show_url(f"{scheme}:////var/lib/x.db") == "sqlite:////var/lib/x.db"


def test_absolute_form_is_proposed_when_the_path_of_sqlite_is_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(WrongUrl) as refusal:
        parse_url("sqlite:///relative/x.db")
    proposed = f"sqlite:///{tmp_path}/a%20b/relative/x.db"
    assert str(refusal.value) == f"the path of a SQLite database must be absolute: use {proposed}"
    assert parse_url(proposed) == SqliteUrl(path=folder / "relative" / "x.db")


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg"])
@pytest.mark.parametrize(
    ("rest", "shown"),
    [
        ("ada:s3cret@db.example.org:5433/runyard", "ada@db.example.org:5433/runyard"),
        ("ada:s3cret@one:1,two:2/runyard?target_session_attrs=any", "ada@one:1,two:2/runyard"),
        ("ada@[::1]/runyard", "ada@[::1]/runyard"),
        ("db/runyard?user=ada&password=s3cret&sslmode=require", "db/runyard"),
        ("ada:s3cr%40et%2F@db/runyard", "ada@db/runyard"),
        ("/runyard?host=/run/postgresql", "/runyard"),
        ("ada:s3cr@et@db/runyard", "ada@db/runyard"),
    ],
)
def test_password_is_left_out_when_the_url_is_shown(scheme: str, rest: str, shown: str) -> None:
    url = parse_url(f"{scheme}://{rest}")
    assert isinstance(url, PostgresUrl)
    assert url.shown == f"postgresql://{shown}"
    assert url.dsn == f"postgresql://{rest}"
    assert "s3cr" not in repr(url)
    assert "s3cr" not in url.shown


@pytest.mark.parametrize(
    "url",
    [
        "runyard.db",
        "/var/lib/runyard.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite://host/path",
        "sqlite:///x.db?mode=ro",
        "mysql://ada:s3cret@db/runyard",
        "postgresql://ada:s3/cret@db/runyard",
        "postgresql://ada:s3#cret@db/runyard",
        "postgresql://ada:s3cret@[db/runyard",
    ],
)
def test_reason_is_told_without_the_password_when_a_url_cannot_be_used(url: str) -> None:
    with pytest.raises(WrongUrl) as refusal:
        parse_url(url)
    assert "s3" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert len(str(refusal.value)) > 20


def test_nearest_right_thing_is_shown_when_the_scheme_is_unknown() -> None:
    with pytest.raises(WrongUrl, match=r"mysql are not supported; use sqlite:////.* or postgresql://"):
        parse_url("mysql://db/x")
