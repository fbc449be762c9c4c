"""Holds PyYAML to the methods that our scanner overrides: its scanner is not a public API."""

import re
import tomllib
from pathlib import Path

import pytest
from yaml.reader import Reader
from yaml.scanner import Scanner

from runyard.spec.yaml.scanner import EventReader

OVERRIDDEN = {"fetch_flow_scalar", "fetch_flow_entry", "scan_to_next_token"}
CALLERS = {
    "fetch_flow_scalar": (Scanner.fetch_single, Scanner.fetch_double),
    "fetch_flow_entry": (Scanner.fetch_more_tokens,),
    "scan_to_next_token": (Scanner.fetch_more_tokens,),
}
INHERITED_METHODS = {"check_event", "get_event", "peek", "prefix", "forward", "scan_line_break"}
INHERITED_STATE = {"buffer", "index", "line", "column", "flow_level", "allow_simple_key"}


def test_overridden_methods_are_the_known_ones_when_the_scanner_is_read() -> None:
    ours = {name for name in vars(EventReader) if not name.startswith("_")}
    assert {name for name in ours if hasattr(Scanner, name)} == OVERRIDDEN
    assert ours - OVERRIDDEN == {"iter_events"}


@pytest.mark.parametrize("name", sorted(OVERRIDDEN))
def test_pyyaml_calls_the_overridden_method_when_it_scans(name: str) -> None:
    for caller in CALLERS[name]:
        assert name in caller.__code__.co_names


def test_inherited_names_exist_when_pyyaml_is_upgraded() -> None:
    reader = EventReader("a: 1")
    assert {name for name in INHERITED_METHODS if not callable(getattr(reader, name, None))} == set()
    assert {name for name in INHERITED_STATE if not hasattr(reader, name)} == set()
    assert isinstance(reader, Reader)


def test_next_minor_version_of_pyyaml_is_excluded_when_dependencies_are_declared() -> None:
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    (declared,) = (entry for entry in project["dependencies"] if re.match(r"pyyaml\b", entry))
    assert declared == "pyyaml>=6.0.3,<6.1"
