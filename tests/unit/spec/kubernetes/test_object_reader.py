from typing import Any

import pytest

from runyard.pods.fields import UnreadablePod, read_part
from runyard.spec.kubernetes.object_reader import (
    Reader,
    integer_reader,
    list_reader,
    map_reader,
    read_fields,
    read_flag,
    read_object,
    read_text,
    text_reader,
)
from runyard.spec.names import check_dns_label
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem
from runyard.spec.readers import Findings

read_name = text_reader(check_dns_label, Code.NAME_INVALID)
read_digit = integer_reader(least=0, most=9)
read_texts = map_reader(read_name, read_text, of="names to text")
READERS: dict[str, Reader] = {"hostPath": read_text, "readOnly": read_flag}


def collect(read: Reader, given: Any) -> list[Problem]:
    findings = Findings()
    assert (read(given, findings, ("at",)) is None) == bool(findings.problems)
    return findings.problems


@pytest.mark.parametrize(
    ("read", "given", "code", "message"),
    [
        (read_text, 1, "type.text", "must be text, not a number"),
        (read_text, None, "type.text", "must be text, not null"),
        (read_flag, "true", "type.boolean", "must be true or false, not text"),
        (read_flag, 0, "type.boolean", "must be true or false, not a number"),
        (read_object, [], "type.mapping", "must be a mapping, not a list"),
        (read_object, {1: 2}, "type.key", "has a key that is a number"),
        (read_digit, True, "type.integer", "must be a whole number, not a boolean"),
        (read_digit, 5.0, "type.integer", "must be a whole number, not a number with a decimal point"),
        (read_digit, 10, "number.range", "is out of range"),
        (list_reader(read_text, of="words"), "a", "type.list", "must be a list of words, not text"),
        (list_reader(read_text, of="words", least=1), [], "size.entries", "has 0 entries"),
        (list_reader(read_text, of="words", most=1), ["a", "b"], "size.entries", "has 2 entries"),
        (read_texts, [], "type.mapping", "must be a mapping of names to text, not a list"),
        (map_reader(read_name, read_text, of="names to text", most=0), {"a": "b"}, "size.entries", "has 1 entries"),
    ],
)
def test_problem_is_reported_when_a_value_has_the_wrong_type_or_size(
    read: Reader, given: Any, code: str, message: str
) -> None:
    (problem,) = collect(read, given)
    assert (problem.code, problem.path, problem.message) == (code, ("at",), message)


def test_every_entry_is_reported_when_several_entries_of_a_map_are_wrong() -> None:
    problems = collect(read_texts, {"A": 1, "b": "x", "c": 2})
    assert [(problem.code, problem.path) for problem in problems] == [
        ("name.invalid", ("at", "A")),
        ("type.text", ("at", "A")),
        ("type.text", ("at", "c")),
    ]


def test_number_of_thousands_of_digits_is_refused_when_text_is_expected() -> None:
    (problem,) = collect(read_text, 10**5000)
    assert problem.suggestion is None
    assert problem.value == "a number of 16610 bits"


def test_snake_case_is_unknown_when_only_exact_names_are_accepted() -> None:
    findings = Findings()
    read_fields({"host_path": "/"}, findings, (), READERS, of="a volume", accepts_snake_case=False)
    (problem,) = findings.problems
    assert (problem.code, problem.path, problem.suggestion) == ("field.unknown", ("host_path",), "hostPath")


def test_both_spellings_are_read_when_users_write_them() -> None:
    findings = Findings()
    fields = read_fields({"host_path": "/", "readOnly": True}, findings, (), READERS, of="a volume")
    assert fields is not None
    assert fields.values == {"hostPath": "/", "readOnly": True}
    assert findings.problems == []


@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_pod_is_unreadable_when_its_text_has_an_unpaired_surrogate(text: str) -> None:
    with pytest.raises(UnreadablePod) as caught:
        read_part({"name": text}).read_text("name")
    assert caught.value.problem.code == "field.unreadable"
    assert caught.value.problem.message == "must be Unicode text without unpaired surrogates"


def test_pod_is_unreadable_when_a_value_is_nested_too_deeply_to_be_printed() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UnreadablePod, match="must be text, not a list; given: a list"):
        read_part({"name": deep}).read_text("name")
