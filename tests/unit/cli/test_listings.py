"""`-o` and `--columns` of commands that list things."""

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from runyard.cli.command_errors import format_error
from runyard.cli.listings import add_listing
from runyard.cli.tables import print_listing
from tests.command_tree import iter_commands

REPORTS = {"runyard explain", "runyard policy diff", "runyard policy rehearse"}
"""Commands with a table that is no list of things."""
ROWS = [
    {"name": "a", "by": "ada", "last-used": "never", "note": "\x1b[31m"},
    {"name": "b", "by": "", "last-used": "now", "note": ""},
]


@click.command()
@add_listing("name", "by", "last-used", more=("note",))
def ls(listing: Any) -> None:
    print_listing(listing, ROWS, data=ROWS, optional=("by",))


def call(*words: str) -> Result:
    return CliRunner().invoke(ls, words, standalone_mode=False)


def test_table_has_the_columns_that_were_named_when_they_are_known() -> None:
    assert call().output.splitlines()[0].split() == ["NAME", "BY", "LAST", "USED"]
    assert call("--columns", "by,name,by").output == "BY   NAME\nada  a\n     b\n"
    assert call("--columns", "Last used, NAME").output.splitlines()[1] == "never      a"
    assert call("-o", "wide").output.splitlines()[1].endswith("\\x1b[31m")
    assert call("-o", "wide", "--columns", "note").output.splitlines()[0] == "NOTE"


def test_other_forms_are_complete_when_they_are_asked_for() -> None:
    assert call("-o", "name").output == "a\nb\n"
    assert json.loads(call("-o", "json").output) == ROWS
    assert call("-o", "yaml").output.startswith("- name: a\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--columns", "nmae"], "unknown column `nmae`; did you mean `name`?"),
        (["--columns", "name,zzz"], "unknown column `zzz`; allowed: name, by, last-used, note"),
        (["--columns", ","], "no column is named; allowed: name, by, last-used, note"),
        (["--columns", "name", "-o", "json"], "--columns chooses those of a table; -o json has none"),
    ],
)
def test_columns_are_refused_when_a_table_has_none_of_that_name(words: list[str], message: str) -> None:
    error = call(*words).exception
    assert isinstance(error, click.UsageError)
    assert message in format_error(error)


def test_every_list_has_columns_that_its_help_names_when_it_is_a_table() -> None:
    found = 0
    for listed in iter_commands():
        options = {option: param for param in listed.command.params for option in param.opts}
        output = options.get("--output")
        if not isinstance(output, click.Option) or not isinstance(output.type, click.Choice):
            continue
        if "table" not in output.type.choices or listed.name in REPORTS:
            continue
        assert "--columns" in options, listed.name
        assert "in the order you name them: " in (getattr(options["--columns"], "help", "") or ""), listed.name
        found += 1
    assert found > 5
