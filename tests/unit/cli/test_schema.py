import json

import pytest
import yaml

from runyard.spec.json_schema import KINDS, build_schema
from tests.unit.cli.conftest import Call


@pytest.mark.parametrize("kind", KINDS)
def test_schema_is_printed_when_its_kind_is_named(call: Call, kind: str) -> None:
    called = call("schema", kind)
    assert called.code == 0
    assert json.loads(called.out) == build_schema(kind)
    assert yaml.safe_load(call("schema", kind, "-o", "yaml").out) == json.loads(called.out)


def test_kinds_are_listed_when_none_is_named(call: Call) -> None:
    called = call("schema")
    assert called.code == 0
    assert [line.split()[0] for line in called.out.splitlines()] == list(KINDS)


def test_kinds_are_named_when_it_is_unknown(call: Call) -> None:
    called = call("schema", "runs")
    assert called.code == 2
    assert "run-file" in called.err
