"""What a response loses in the clients' form comes back from `original`."""

import json
from typing import Any

import pytest
from hypothesis import given, settings

from runyard.spec.digitalhub.client_specs import shape_run_spec
from runyard.spec.digitalhub.original_fields import restore_spec, show_spec
from runyard.spec.problems import Refused
from runyard.spec.run_fields import read_run_fields
from tests.unit.spec.digitalhub.test_client_specs import (
    FUNCTION,
    RUN_MODELS,
    TASK,
    TASK_MODELS,
    legal_fields,
    read_strictly,
)


def _read_set(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that are set; an empty one is a blank."""
    return {name: value for name, value in read_run_fields(fields).__dict__.items() if value not in (None, (), {}, [])}


KINDS = [*(("run", kind) for kind in RUN_MODELS), ("task", "container+serve"), ("function", "container")]


@pytest.mark.parametrize(("type_name", "kind"), KINDS)
@settings(max_examples=100)
@given(fields=legal_fields())
def test_same_fields_are_read_when_a_shown_spec_is_restored(type_name: str, kind: str, fields: dict[str, Any]) -> None:
    shown = json.loads(json.dumps(show_spec(type_name, kind, fields)))

    assert _read_set(restore_spec(type_name, kind, shown)) == _read_set(fields)


@pytest.mark.parametrize(("type_name", "kind"), KINDS)
@settings(max_examples=50)
@given(fields=legal_fields())
def test_shown_spec_is_the_same_when_it_was_restored_and_is_shown_again(
    type_name: str, kind: str, fields: dict[str, Any]
) -> None:
    shown = show_spec(type_name, kind, fields)

    assert show_spec(type_name, kind, restore_spec(type_name, kind, shown)) == shown


@pytest.mark.parametrize("kind", RUN_MODELS)
@settings(max_examples=50)
@given(fields=legal_fields())
def test_every_sdk_reads_a_shown_run_when_it_has_an_original(kind: str, fields: dict[str, Any]) -> None:
    shown = show_spec("run", kind, {"task": TASK, "function": FUNCTION, **fields})
    for model in RUN_MODELS[kind]:
        read_strictly(model, shown)


@settings(max_examples=50)
@given(fields=legal_fields())
def test_every_sdk_reads_a_shown_task_when_it_has_an_original(fields: dict[str, Any]) -> None:
    shown = show_spec("task", "container+serve", {"function": FUNCTION, **fields})
    for model in TASK_MODELS:
        read_strictly(model, shown)


@settings(max_examples=200)
@given(fields=legal_fields(), other=legal_fields())
def test_edit_is_never_ignored_when_a_client_changes_what_was_shown(
    fields: dict[str, Any], other: dict[str, Any]
) -> None:
    """Whatever a client writes into the shown fields is what is read, or is refused."""
    kind = "container+job:run"
    shown = show_spec("run", kind, fields)
    original = shown.get("original", {})
    edited = {**shown, **shape_run_spec(kind, other)}
    visible = {name: value for name, value in edited.items() if name != "original"}
    is_edited = any(visible.get(name) not in (shown.get(name), value) for name, value in original.items())
    if is_edited:
        with pytest.raises(Refused, match="differ: only one of them was changed"):
            restore_spec("run", kind, edited)
        return
    restored = restore_spec("run", kind, edited)
    for name, value in visible.items():
        assert restored[name] in (value, original.get(name))


@pytest.mark.parametrize(
    ("type_name", "kind"), [("run", "hera+pipeline:run"), ("task", "dbt+transform"), ("artifact", "x")]
)
def test_spec_is_untouched_when_its_kind_is_not_ours(type_name: str, kind: str) -> None:
    spec = {"original": {"a": 1}, "Resources": None}

    assert show_spec(type_name, kind, spec) == restore_spec(type_name, kind, spec) == spec


def test_empty_values_do_not_differ_when_a_client_adds_or_drops_them() -> None:
    volumes = [{"volume_type": "config_map", "name": "a", "mount_path": "/a", "spec": {"data": {"x": "y"}}}]
    shown = show_spec("run", "container+job:run", {"volumes": volumes})

    assert restore_spec("run", "container+job:run", {**shown, "volumes": []}) == {"volumes": volumes}
