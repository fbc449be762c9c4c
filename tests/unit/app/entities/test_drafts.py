from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.app.entities.drafts import MOST_DEPTH, check_id, check_project, drop_nulls, is_deeper, read_draft
from runyard.spec.problems import Refused

ENTITY: dict[str, Any] = {"kind": "dbt", "name": "f"}


def find_problems(document: Any) -> dict[str, str]:
    with pytest.raises(Refused) as caught:
        read_draft(document)
    return {problem.where: problem.code for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": ""}, {"kind": "text.empty"}),
        ({"kind": "a b"}, {"kind": "kind.invalid"}),
        ({"kind": "ä"}, {"kind": "kind.invalid"}),
        ({"kind": None}, {"kind": "field.missing"}),
        ({"kind": 1}, {"kind": "type.text"}),
        ({"name": "x" * 257}, {"name": "text.long"}),
        ({"name": "a/b"}, {"name": "name.invalid"}),
        ({"name": "a\n"}, {"name": "text.control"}),
        ({"id": ""}, {"id": "text.empty"}),
        ({"id": {}}, {"id": "type.text"}),
        ({"spec": []}, {"spec": "type.mapping"}),
        ({"spec": "x"}, {"spec": "type.mapping"}),
        ({"metadata": {"labels": "a"}}, {"metadata.labels": "type.list"}),
        ({"metadata": {"labels": [""]}}, {"metadata.labels[0]": "text.empty"}),
        ({"metadata": {"labels": [1]}}, {"metadata.labels[0]": "type.text"}),
        ({"metadata": {"labels": ["a"] * 257}}, {"metadata.labels": "size.entries"}),
        ({"metadata": {"relationships": {}}}, {"metadata.relationships": "type.list"}),
        ({"metadata": {"relationships": [{}] * 257}}, {"metadata.relationships": "size.entries"}),
        ({"metadata": {"description": "a" * 32_768}}, {"metadata": "size.bytes"}),
        ({"metadata": {"x": [[]] * 1000}}, {"metadata": "size.values"}),
        ({"extensions": [{}] * 257}, {"extensions": "size.entries"}),
        ({"spec": {"parameters": [0] * 50_000}}, {"": "size.values"}),
        ({"metadata": {"description": 5}}, {"metadata.description": "type.text"}),
        ({"status": {"state": "stopped"}}, {"status.state": "value.option"}),
        ({"status": {"state": 5}}, {"status.state": "value.option"}),
        ({"extensions": {}}, {"extensions": "type.list"}),
        ({"extensions": [1]}, {"extensions[0]": "type.mapping"}),
        ({"knd": 1}, {"knd": "value.option"}),
        ({"spec": {str(number): 1 for number in range(257)}}, {"spec": "size.entries"}),
    ],
)
def test_envelope_is_refused_when_a_part_is_wrong(fields: dict[str, Any], expected: dict[str, str]) -> None:
    assert find_problems({**ENTITY, **fields}) == expected


@pytest.mark.parametrize("document", [None, [], "x", 5, {1: 2}])
def test_document_is_refused_when_it_is_no_mapping_of_texts(document: Any) -> None:
    assert list(find_problems(document)) == [""]


def test_servers_values_are_left_aside_when_a_client_sends_them() -> None:
    metadata = {"created": "x", "updated": 5, "created_by": "eve", "updated_by": None, "version": "v"}
    draft = read_draft({**ENTITY, "key": "store://x", "user": "eve", "metadata": metadata})
    assert draft.metadata == {"version": "v"}
    assert not hasattr(draft, "user")


def test_nulls_mean_nothing_when_they_are_written() -> None:
    nulls = dict.fromkeys(("id", "project", "key", "user", "metadata", "spec", "status", "extensions"))
    assert read_draft({**ENTITY, **nulls}) == read_draft(ENTITY)
    spec = {"a": None, "b": [None, {"c": None}], "parameters": {"x": None}, "d": {"init_parameters": {"y": None}}}
    assert read_draft({**ENTITY, "spec": spec}).spec == {
        "b": [None, {}],
        "parameters": {"x": None},
        "d": {"init_parameters": {"y": None}},
    }


def test_state_is_apart_from_the_status_when_it_is_read() -> None:
    draft = read_draft({**ENTITY, "status": {"state": "READY", "message": "m"}})
    assert (draft.state, draft.status) == ("READY", {"message": "m"})


@pytest.mark.parametrize("text", ["a", "0a1b2c", "a-b-c", "550e8400-e29b-41d4-a716-446655440000"])
def test_id_is_taken_when_every_client_can_read_it(text: str) -> None:
    assert check_id(read_draft({**ENTITY, "id": text})) == []


@pytest.mark.parametrize(
    ("text", "suggestion"), [("A", "a"), ("a_b", "a-b"), ("a.b", "a-b"), ("-a", "a"), ("a--b", "a-b"), ("+", None)]
)
def test_id_is_refused_when_an_sdk_could_not_read_the_list_with_it(text: str, suggestion: str | None) -> None:
    (problem,) = check_id(read_draft({**ENTITY, "id": text}))
    assert (problem.code, problem.suggestion) == ("id.invalid", suggestion)


def test_other_project_is_refused_when_the_document_names_it() -> None:
    draft = read_draft({**ENTITY, "project": "other", "metadata": {"project": "third"}})
    assert [problem.where for problem in check_project(draft, "demo")] == ["project", "metadata.project"]


def nest(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", [1, 2, 59, 60])
def test_spec_is_taken_when_it_is_nested_as_deep_as_it_may(levels: int) -> None:
    assert not is_deeper(nest(levels), MOST_DEPTH)
    assert is_deeper(nest(levels), levels - 1)


def test_spec_is_refused_when_it_is_nested_deeper() -> None:
    assert find_problems({**ENTITY, "spec": nest(MOST_DEPTH + 1)}) == {"spec": "too.deep"}
    assert find_problems({**ENTITY, "extensions": [nest(MOST_DEPTH + 1)]}) == {"extensions[0]": "too.deep"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_nulls_are_in_no_mapping_when_they_were_dropped(value: Any) -> None:
    dropped = drop_nulls(value)
    assert drop_nulls(dropped) == dropped

    def has_null(inner: Any) -> bool:
        if isinstance(inner, dict):
            return any(item is None or has_null(item) for item in inner.values())
        return isinstance(inner, list) and any(map(has_null, inner))

    assert not has_null(dropped)


@given(JSON)
def test_envelope_is_read_or_refused_when_a_part_is_anything(value: Any) -> None:
    for name in ("kind", "id", "name", "project", "metadata", "spec", "status", "extensions", "other"):
        with suppress(Refused):
            read_draft({**ENTITY, name: value})
