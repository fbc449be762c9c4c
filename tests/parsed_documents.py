"""Which JSON documents of the database are parsed: each becomes objects that take many times its bytes."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from runyard.store import columns


def record_parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The documents that are read from now on, as they are stored; the list grows."""
    parsed = list[str]()

    def note(value: str) -> Any:
        parsed.append(value)
        return json.loads(value)

    # Not the method of the column's type: SQLAlchemy keeps that once it was called.
    monkeypatch.setattr(columns, "json", SimpleNamespace(dumps=json.dumps, loads=note))
    return parsed
