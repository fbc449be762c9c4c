import os
import shutil

import pytest

from runyard.cli.tables import print_table

ROWS = [("a", "x" * 500), ("[bold]b[/bold]", ":smile: 7200")]


def test_rows_are_whole_lines_when_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("field", "value"), ROWS)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["FIELD", "VALUE"]
    assert first.split() == ["a", "x" * 500]
    assert second.split(maxsplit=1) == ["[bold]b[/bold]", ":smile: 7200"]
    assert not any(line.endswith(" ") for line in (head, first, second))


def test_cells_are_folded_and_complete_when_a_terminal_is_narrow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((60, 20)))
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(("field", "value"), ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    assert "".join(lines).count("x") == 500


def test_only_the_head_is_bold_when_a_person_looks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    print_table(("field",), [("a",)])
    head, row = capsys.readouterr().out.splitlines()
    assert head.startswith("\x1b[1m")
    assert "\x1b" not in row


def test_only_the_head_is_printed_when_there_are_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("field", "value"), [])
    assert capsys.readouterr().out == "FIELD  VALUE\n"
