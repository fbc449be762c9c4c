import io
import json

import pytest

from runyard.cli.output import dump_json, format_value, has_colour
from runyard.spec.problems import Path


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_used_only_when_a_person_looks_and_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert has_colour(Terminal())
    assert not has_colour(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colour(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colour(Terminal())
    monkeypatch.setenv("NO_COLOR", "")
    assert has_colour(Terminal())


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        (("timeout",), 7200, "2h"),
        (("ttl",), 90, "90s"),
        (("volumes", "a", "lifetime"), 604800, "7d"),
        (("volumes", "a", "lifetime"), "keep", "keep"),
        (("run_as_user",), 1000, "1000"),
        (("envs", "A"), "true", "true"),
        (("command",), ["sh", "-c"], '["sh", "-c"]'),
        (("envs", "A"), "é\x1b[31m", "é\\x1b[31m"),
    ],
)
def test_value_is_as_its_user_writes_it_when_shown(path: Path, value: object, shown: str) -> None:
    assert format_value(path, value) == shown


def test_value_is_one_bounded_line_when_it_is_long() -> None:
    shown = format_value(("source",), {"source": "print(1)\n" * 100})
    assert len(shown) <= 80
    assert shown.endswith("…")


def test_json_is_the_same_data_when_it_has_what_terminals_obey() -> None:
    data = {"é": "a\x9bb\u202ec\x1b"}
    text = dump_json(data)
    assert json.loads(text) == data
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "é" in text
