"""Where a database stands, by its tables and revisions."""

import pytest

from runyard.store import schema
from runyard.store.errors import ForeignSchema, FutureSchema, OldSchema


@pytest.fixture(autouse=True)
def three_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "list_known_revisions", lambda: ["0001", "0002", "0003"])


@pytest.mark.parametrize(
    ("tables", "revisions", "state", "pending"),
    [
        ((), (), "empty", ("0001", "0002", "0003")),
        (("alembic_version",), (), "empty", ("0001", "0002", "0003")),
        (("runs", "alembic_version"), ("0001",), "old", ("0002", "0003")),
        (("runs", "alembic_version"), ("0003",), "current", ()),
        (("runs", "alembic_version"), ("0004",), "future", ()),
        (("runs", "alembic_version"), ("0001", "0003"), "future", ()),
        (("runs", "alembic_version"), (), "foreign", ()),
        (("theirs",), (), "foreign", ()),
    ],
)
def test_state_is_known_when_tables_and_revisions_are(
    tables: tuple[str, ...], revisions: tuple[str, ...], state: str, pending: tuple[str, ...]
) -> None:
    status = schema._classify(tables, revisions, shown_url="sqlite:////x.db")
    assert (status.state, status.pending, status.head) == (state, pending, "0003")


@pytest.mark.parametrize(
    ("revisions", "error", "words"),
    [
        (("0001",), OldSchema, "at revision 0001 and this release works with 0003.*runyard db upgrade"),
        (("0009",), FutureSchema, "at revision 0009.*up to 0003.*left untouched"),
        ((), ForeignSchema, "not Runyard's"),
    ],
)
def test_what_to_do_is_told_when_it_cannot_be_used(
    revisions: tuple[str, ...], error: type[Exception], words: str
) -> None:
    status = schema._classify(("runs",), revisions, shown_url="sqlite:////x.db")
    with pytest.raises(error, match=words):
        status.check_usable()
