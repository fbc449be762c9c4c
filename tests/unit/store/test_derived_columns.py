"""What is taken out of references and documents."""

import pytest

from runyard.store.derived_columns import derive_columns, find_action, find_base, hash_to_shard_key, list_labels
from tests.contract.store.builders import make_entity, make_run, make_task


@pytest.mark.parametrize(
    ("reference", "base"),
    [
        ("python://p/f:f1", "python://p/f"),
        ("python://p/f", "python://p/f"),
        ("python://p/f:", "python://p/f"),
        ("f:1", "f"),
        ("f", "f"),
        ("", ""),
        (None, None),
    ],
)
def test_base_is_the_reference_without_id_when_it_has_one(reference: str | None, base: str | None) -> None:
    assert find_base(reference) == base


@pytest.mark.parametrize(
    ("task", "kind", "action"),
    [
        ("python+job://p/t", "python+job:run", "job"),
        ("container+serve://p/t", "container+run", "serve"),
        (None, "python+job:run", "job"),
        (None, "python+job", "job"),
        (None, "python+run", None),
        (None, "python", None),
        ("python://p/t", "python+job", None),
    ],
)
def test_action_is_that_of_the_task_when_there_is_one(task: str | None, kind: str, action: str | None) -> None:
    assert find_action(task, kind=kind) == action


def test_columns_come_from_the_spec_when_it_is_no_run() -> None:
    columns = derive_columns(make_task("T1", name="Nämé"))
    assert columns["function"] == "python://p/f:f1"
    assert columns["function_base"] == "python://p/f"
    assert columns["action"] == "job"
    assert columns["search"] == "t1\x1fnämé"


def test_columns_come_from_the_fields_when_it_is_a_run() -> None:
    run = make_run("R1", spec={"function": "other://x/y:z"}, workflow="hera://p/W:1")
    columns = derive_columns(run)
    assert columns["function"] == "python://p/f:f1"
    assert columns["workflow_base"] == "hera://p/W"
    assert columns["search"].split("\x1f") == ["r1", "r1", "python://p/f:f1", "hera://p/w:1"]


@pytest.mark.parametrize("spec", [{}, {"function": None}, {"function": 3}, {"function": {"a": 1}}])
def test_column_is_empty_when_the_spec_holds_no_text(spec: dict[str, object]) -> None:
    assert derive_columns(make_entity("f1", spec=spec))["function"] is None


@pytest.mark.parametrize(
    ("metadata", "labels"),
    [
        ({}, []),
        ({"labels": None}, []),
        ({"labels": "text"}, []),
        ({"labels": {"a": "b"}}, []),
        ({"labels": ["b", "a", "b", 1, None]}, ["a", "b"]),
    ],
)
def test_labels_are_the_texts_when_there_is_anything_else(metadata: dict[str, object], labels: list[str]) -> None:
    assert list_labels(metadata) == labels


def test_shards_are_even_when_there_are_many_runs() -> None:
    keys = [hash_to_shard_key(f"run-{number}") for number in range(3000)]
    assert all(0 <= key < 2**31 for key in keys)
    sizes = [sum(key % 3 == shard for key in keys) for shard in range(3)]
    assert all(900 < size < 1100 for size in sizes)
    assert hash_to_shard_key("run-1") == 711_764_195
