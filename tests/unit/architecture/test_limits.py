"""docs/operators/limits.md states every bound of the server as the code has it."""

from pathlib import Path

import pytest

from runyard.settings import SETTINGS
from tests.unit.architecture.limits_page import UNLISTED, Row, iter_bounds, read_constant, read_rows, to_number

ROWS = read_rows()
FLAGS = {setting.flag: setting for setting in SETTINGS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.constant)
def test_limit_equals_the_constant_when_the_page_names_it(row: Row) -> None:
    assert read_constant(row.constant) == row.amount


@pytest.mark.parametrize("row", [row for row in ROWS if row.setting != "fixed"], ids=lambda row: row.setting)
def test_limit_equals_the_default_when_the_page_names_a_setting(row: Row) -> None:
    setting = FLAGS[row.setting]
    assert setting.default is not None
    assert to_number(setting.read(setting.default, Path.cwd())) == row.amount


def test_page_names_every_bound_when_code_declares_it() -> None:
    listed = {row.constant for row in ROWS}
    missing = [name for name in iter_bounds() if name not in listed and name not in UNLISTED]
    assert missing == [], "add a row to docs/operators/limits.md, or a reason to UNLISTED"


def test_page_names_each_bound_once_when_it_has_several_tables() -> None:
    constants = [row.constant for row in ROWS]
    assert sorted(set(constants)) == sorted(constants)
    assert not set(constants) & UNLISTED.keys()
