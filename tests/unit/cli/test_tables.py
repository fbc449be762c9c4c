import os
import shutil
from collections.abc import Callable

import pytest

from runyard.cli.tables import GrowingTable, measure, print_table

ROWS = [("a", "x" * 500), ("[bold]b[/bold]", ":smile: 7200")]


def test_rows_are_whole_lines_when_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("field", "value"), ROWS)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["FIELD", "VALUE"]
    assert first.split() == ["a", "x" * 500]
    assert second.split(maxsplit=1) == ["[bold]b[/bold]", ":smile: 7200"]
    assert not any(line.endswith(" ") for line in (head, first, second))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes standard output a terminal of a width, without colour."""

    def make(columns: int) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((columns, 20)))
        monkeypatch.setenv("NO_COLOR", "1")

    return make


Narrow = Callable[[int], None]


def test_cells_are_wrapped_between_words_when_a_terminal_is_narrow(
    capsys: pytest.CaptureFixture[str], narrow: Narrow
) -> None:
    narrow(30)
    print_table(("field", "value"), [("image", "one two three four five six seven"), ("b", "eight")])
    assert capsys.readouterr().out.splitlines() == [
        "FIELD  VALUE",
        "image  one two three four five",
        "       six seven",
        "b      eight",
    ]


def test_empty_column_goes_without_a_word_when_a_terminal_is_narrow(
    capsys: pytest.CaptureFixture[str], narrow: Narrow
) -> None:
    narrow(16)
    print_table(("field", "value", "replaced"), [("a", "12345678", "")], optional=("replaced",))
    assert capsys.readouterr().out.splitlines() == ["FIELD  VALUE", "a      12345678"]


def test_optional_columns_go_in_their_order_and_are_named_when_a_terminal_is_narrow(
    capsys: pytest.CaptureFixture[str], narrow: Narrow
) -> None:
    rows = [("r" * 20, "p" * 20, "f" * 20, "b" * 20)]
    head, optional = ("run", "project", "field", "by"), ("by", "project")
    narrow(70)
    print_table(head, rows, optional=optional)
    assert capsys.readouterr().out.splitlines() == [
        f"RUN{' ' * 17}  PROJECT{' ' * 13}  FIELD",
        "  ".join(rows[0][:3]),
        "(without `by` to fit 70 columns; complete when piped)",
    ]
    narrow(50)
    print_table(head, rows, optional=optional)
    shown = capsys.readouterr().out.splitlines()
    assert shown[1:] == [
        f"{'r' * 20}  {'f' * 20}",
        "(without `project` and `by` to fit 50 columns;",
        "complete when piped)",
    ]


def test_long_words_are_cut_and_marked_when_nothing_else_fits(
    capsys: pytest.CaptureFixture[str], narrow: Narrow
) -> None:
    narrow(60)
    print_table(("field", "value"), [("a", f"short {'x' * 500}")])
    assert capsys.readouterr().out.splitlines() == [
        "FIELD  VALUE",
        "a      short",
        f"       {'x' * 47}…",
        "(shortened to fit 60 columns; complete when piped)",
    ]


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal_when_letters_are_wide(
    capsys: pytest.CaptureFixture[str], narrow: Narrow, columns: int
) -> None:
    narrow(columns)
    print_table(("field", "value"), [("名前" * 30, "値 " * 90), ("e\u0301" * 80, "é" * 200)])
    assert max(map(measure, capsys.readouterr().out.splitlines())) <= columns


def test_everything_is_whole_when_the_terminal_is_wide_enough(
    capsys: pytest.CaptureFixture[str], narrow: Narrow
) -> None:
    narrow(12)
    print_table(("field", "value"), [("a", "1234")], optional=("value",))
    assert capsys.readouterr().out == "FIELD  VALUE\na      1234\n"


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


def test_table_is_printed_when_an_optional_column_is_not_among_its_own(
    capsys: pytest.CaptureFixture[str], narrow: Narrow
) -> None:
    narrow(40)
    print_table(("run", "state"), [("r1", "RUNNING")], optional=("message", "state"))
    assert capsys.readouterr().out.splitlines() == ["RUN  STATE", "r1   RUNNING"]


def test_rows_stand_in_columns_that_grow_when_they_come_one_after_the_other() -> None:
    table = GrowingTable(("run", "state"))
    assert table.format_rows([]) == []
    assert table.format_rows([("r1", "PENDING")]) == ["RUN  STATE", "r1   PENDING"]
    assert table.format_rows([("r1000", "RUNNING"), ("r2", "ERROR")]) == ["r1000  RUNNING", "r2     ERROR"]
    assert table.format_rows([("r3", "ERROR")]) == ["r3     ERROR"]
