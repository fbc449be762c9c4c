"""No refusal shows a value as Python writes it: users write YAML and JSON."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from runyard.domain.schedule import parse_schedule
from runyard.domain.schedule_fields import ScheduleError
from runyard.spec.entities import ENTITY_TYPES, read_entity
from runyard.spec.policy import read_policy
from runyard.spec.problems import Refused, shorten
from runyard.spec.profile_documents import read_profiles
from runyard.spec.rule_grammar import RULED
from runyard.spec.run_documents import read_run_file
from runyard.spec.run_fields import ADMIN_FIELDS

PATTERNS = (r"\['", r"\{'", r"'\]", r"'\}", r"\('", r"',\)", r"': ", r"\bb'", "<class", "object at 0x", "NoneType")
REPR = re.compile("|".join([*PATTERNS, r"\b(?:None|True|False|dict|str|bool)\b"]))
VALUES: tuple[Any, ...] = (
    True,
    False,
    7,
    -1,
    1.5,
    10**400,
    "",
    "x y",
    "'quoted'",
    [],
    [None],
    [True],
    ["a", 1],
    [["a"]],
    {},
    {"a": None},
    {"a": True, "b": ["c", {"d": "e"}]},
    [{"name": "a", "value": None}],
    [{"key": "a", "operator": False}],
    [{"volume_type": True, "name": ["a"], "mount_path": {"a": "b"}}],
    {"requests": True, "limits": ["1"]},
    {"cpu": [None], "mem": {"a": "b"}, "gpu": True, "disk": False},
)


def list_messages(read: Callable[[Any], Any], document: Any) -> list[str]:
    try:
        read(document)
    except Refused as refused:
        return [str(problem) for problem in refused.problems]
    return []


def iter_all() -> Iterator[tuple[Any, list[str]]]:
    for value in VALUES:
        for name in (*ADMIN_FIELDS, "kind", "action", "project", "id", "name", "function", "nope"):
            yield (name, value), list_messages(read_run_file, {name: value})
            yield (name, value), list_messages(read_profiles, [{"id": "p", name: value}])
        for name in (*RULED, "platform", "projects", "nope"):
            yield (name, value), list_messages(read_policy, {name: value})
            for clause in ("default", "min", "max", "options", "allowed", "denied", "required", "locked", "nope"):
                yield (name, clause, value), list_messages(read_policy, {name: {clause: value}})
        for entity_type in ENTITY_TYPES:
            for key in ("kind", "name", "id", "spec", "metadata", "project"):
                document = {"kind": entity_type, key: value}
                yield (entity_type, key, value), list_messages(partial(read_entity, entity_type), document)
        for reader in (read_run_file, read_policy):
            yield (reader, value), list_messages(reader, value)
        yield value, list_messages(read_profiles, [value])


def test_no_message_has_a_python_repr_when_values_are_wrong() -> None:
    told = list(iter_all())
    messages = [message for _, listed in told for message in listed]
    assert len(messages) > 5000
    assert [(given, message) for given, listed in told for message in listed if REPR.search(message)] == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "true"),
        (None, "null"),
        ({"a": None, "b": ["c", True]}, '{"a": null, "b": ["c", true]}'),
        (("a", 1.5), '["a", 1.5]'),
        ({1: "a", ("x",): 2}, "a mapping with 2 entries"),
        ([10**5000], "a list with a number too long to show"),
        ({"a": 10**5000}, "a mapping with a number too long to show"),
        ("ü\n b", "ü b"),
        (1.5, "1.5"),
    ],
)
def test_value_is_written_as_json_when_it_is_shown(value: Any, shown: str) -> None:
    assert shorten(value) == shown


def test_schedule_is_quoted_in_backticks_when_it_is_wrong() -> None:
    with pytest.raises(ScheduleError) as refused:
        parse_schedule("0 0 0 ? * nope")
    assert not REPR.search(str(refused.value))
