"""Specs of which one wrong value would make the whole list of an SDK fail."""

from typing import Any

import pytest

from runyard.app.entities.drafts import read_draft
from runyard.app.entities.entity_types import TYPES
from runyard.app.entities.spec_checks import check_spec
from runyard.spec.problems import Refused

TRIGGER: dict[str, Any] = {"task": "container+job://demo/t1", "schedule": "@daily"}


def find_problems(type_name: str, kind: str, spec: dict[str, Any]) -> dict[str, str]:
    written = read_draft({"kind": kind, "name": "x", "spec": spec})
    return {problem.where: problem.code for problem in check_spec(TYPES[type_name], written, project="demo")}


@pytest.mark.parametrize("template", [{}, {"template": None}])
def test_trigger_gets_an_empty_template_when_it_says_none(template: dict[str, Any]) -> None:
    written = read_draft({"kind": "scheduler", "name": "x", "spec": {**TRIGGER, **template}})
    assert check_spec(TYPES["trigger"], written, project="demo") == []
    assert written.spec["template"] == {}


def test_trigger_is_kept_as_sent_when_its_kind_is_foreign() -> None:
    written = read_draft({"kind": "automl", "name": "x", "spec": {"a": 1}})
    assert check_spec(TYPES["trigger"], written, project="demo") == []
    assert written.spec == {"a": 1}


@pytest.mark.parametrize(
    ("relationship", "expected"),
    [
        (5, {"": "type.mapping"}),
        ("x", {"": "type.mapping"}),
        ({"type": "produced_by"}, {".dest": "field.missing"}),
        ({"type": 1, "dest": []}, {".type": "type.text", ".dest": "type.text"}),
        ({"type": "a", "dest": "b", "source": 1}, {".source": "type.text"}),
    ],
)
def test_relationship_is_refused_when_no_client_can_read_it(relationship: Any, expected: dict[str, str]) -> None:
    with pytest.raises(Refused) as caught:
        read_draft({"kind": "artifact", "metadata": {"relationships": [relationship]}})
    found = {problem.where: problem.code for problem in caught.value.problems}
    assert found == {f"metadata.relationships[0]{where}": code for where, code in expected.items()}


def test_relationship_is_kept_when_it_says_type_and_dest() -> None:
    relationships = [{"type": "produced_by", "dest": "store://demo/run/r1"}]
    written = read_draft({"kind": "artifact", "metadata": {"relationships": relationships}})
    assert written.metadata["relationships"] == relationships


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"source": "main.py"}, {"spec.source.source": "source.local"}),
        ({"source": "src/main.py"}, {"spec.source.source": "source.local"}),
        ({"source": "/src/main.py"}, {"spec.source.source": "source.local"}),
        ({"source": "main.py", "base64": "eA=="}, {}),
        ({"source": "main.py", "code": "x"}, {}),
        ({"source": "git+https://example.org/code"}, {}),
        ({"source": "zip+s3://bucket/code.zip"}, {}),
    ],
)
def test_source_is_refused_when_only_its_client_has_the_file(source: dict[str, str], expected: dict[str, str]) -> None:
    spec = {"python_version": "PYTHON3_11", "source": {"handler": "main", **source}}
    assert find_problems("function", "python", spec) == expected


@pytest.mark.parametrize(
    ("type_name", "kind", "fields", "expected"),
    [
        ("artifact", "artifact", {"src_path": 5}, {"spec.src_path": "type.text"}),
        ("artifact", "own", {"src_path": 5}, {}),
        ("dataitem", "table", {"schema": []}, {"spec.schema": "type.mapping"}),
        ("dataitem", "table", {"schema": {}}, {"spec.schema.fields": "type.list"}),
        ("dataitem", "table", {"schema": {"fields": [{"name": "a"}]}}, {"spec.schema.fields[0]": "column.invalid"}),
        ("dataitem", "table", {"schema": {"fields": [{"name": "a", "type": "date"}]}}, {}),
        ("dataitem", "table", {"schema": {"fields": []}}, {}),
        ("model", "model", {"parameters": [1], "framework": {}}, {"spec.parameters": "type.mapping"}),
        ("model", "mlflow", {"input_datasets": {}, "signature": "x"}, {"spec.signature": "type.mapping"}),
        ("model", "huggingface", {"model_id": 5}, {"spec.model_id": "type.text"}),
    ],
)
def test_spec_is_refused_when_a_field_has_not_the_type_that_clients_check(
    type_name: str, kind: str, fields: dict[str, Any], expected: dict[str, str]
) -> None:
    found = find_problems(type_name, kind, {"path": "s3://a", **fields})
    assert expected.items() <= found.items()
    assert bool(found) == bool(expected)
