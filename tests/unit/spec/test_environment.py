from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest

from runyard.spec.environment import SecretUse, read_envs, read_labels, read_node_selector, read_secrets
from tests.unit.spec.refusals import find_problem, find_problems

PAIRS = [(read_envs, "name"), (read_node_selector, "key"), (read_labels, "name")]
"""Readers of names with values, and what the list form calls the name."""


@pytest.mark.parametrize(("read", "key"), PAIRS)
def test_both_forms_are_the_same_when_they_say_the_same(read: Callable[[Any], Mapping[str, str]], key: str) -> None:
    pairs = [{key: "A", "value": "1"}, {key: "B", "value": "2"}]

    assert read(pairs) == read({"A": "1", "B": "2"}) == {"A": "1", "B": "2"}


@pytest.mark.parametrize("read", [read for read, _ in PAIRS])
@pytest.mark.parametrize("nothing", [{}, []])
def test_nothing_is_set_when_nothing_is_given(read: Callable[[Any], Mapping[str, str]], nothing: Any) -> None:
    assert read(nothing) == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("VALU123123", "VALU123123"),
        ("", ""),
        (3, "3"),
        (0, "0"),
        (-1, "-1"),
        (1.5, "1.5"),
        (True, "true"),
        (False, "false"),
        ("line\nline\ttab", "line\nline\ttab"),
        ("naïve ☃ $(HOME) ${X}", "naïve ☃ $(HOME) ${X}"),
    ],
)
def test_numbers_and_booleans_become_text_when_variables_hold_them(value: Any, text: str) -> None:
    assert read_envs({"A": value}) == read_envs([{"name": "A", "value": value}]) == {"A": text}


@pytest.mark.parametrize(
    ("value", "text"), [("ssd", "ssd"), (3, "3"), (True, "true"), ("", ""), ("a.b_c-D", "a.b_c-D")]
)
def test_numbers_and_booleans_become_text_when_labels_hold_them(value: Any, text: str) -> None:
    assert read_node_selector({"k": value}) == read_node_selector([{"key": "k", "value": value}]) == {"k": text}


def test_the_order_is_kept_when_variables_build_on_each_other() -> None:
    assert list(read_envs([{"name": name, "value": "x"} for name in ("Z", "A", "M")])) == ["Z", "A", "M"]


@pytest.mark.parametrize("name", ["A", "_a", "HF_HOME", "my-var", "my.var", "A1", "a" * 253])
def test_a_variable_is_taken_when_a_container_can_have_it(name: str) -> None:
    assert read_envs({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("1A", "_1A"),
        ("MY VAR", "MY_VAR"),
        ("A=B", "A_B"),
        ("", None),
        ("..A", "A"),
        ("a" * 254, None),
        ("ＡＢ", None),
        ("A\n", None),
        ("É", None),
    ],
)
def test_a_variable_is_refused_when_no_container_can_have_it(name: str, suggestion: str | None) -> None:
    problem = find_problem(read_envs, {name: "x"})

    assert (problem.path, problem.suggestion) == ((name,), suggestion)


@pytest.mark.parametrize("key", ["", "a b", "-a", "a/", "/a", "a/b/c", "UPPER.case/x", "x" * 64, "é"])
def test_a_label_is_refused_when_no_node_can_have_it(key: str) -> None:
    assert find_problem(read_node_selector, {key: "x"}).path == (key,)


@pytest.mark.parametrize("value", ["a b", "-a", "x" * 64, "é", "a/b", "a\n"])
def test_a_labels_value_is_refused_when_no_node_can_have_it(value: str) -> None:
    problem = find_problem(read_node_selector, [{"key": "k", "value": value}])

    assert (problem.code, problem.where) == ("label.value", "[0].value")


@pytest.mark.parametrize(
    "name",
    ["runyard.io/run", "dhcore/user", "app.kubernetes.io/name", "job-name", "controller-uid", "pod-template-hash"],
)
def test_an_admins_label_is_refused_when_it_is_reserved(name: str) -> None:
    problem = find_problem(read_labels, {name: "x"})

    assert (problem.code, problem.path) == ("label.reserved", (name,))
    assert read_node_selector({name: "x"}) == {name: "x"}


def test_variables_are_refused_when_there_are_more_than_256() -> None:
    given = {f"V{number}": "x" for number in range(256)}

    assert read_envs(given) == given
    assert find_problem(read_envs, {**given, "V256": "x"}).code == "size.entries"


@pytest.mark.parametrize("value", [None, [], {}, ["a"], {"a": 1}])
def test_a_value_is_refused_when_it_is_no_scalar(value: Any) -> None:
    assert find_problem(read_envs, {"A": value}).where == "A"
    assert find_problem(read_envs, [{"name": "A", "value": value}]).where == "[0].value"


@pytest.mark.parametrize("value", ["a\0b", "\ud800", "a\udfff", "x" * 32_769])
def test_a_value_is_refused_when_it_cannot_be_sent(value: str) -> None:
    assert find_problem(read_envs, {"A": value}).where == "A"


def test_a_value_is_refused_when_python_itself_cannot_write_it() -> None:
    assert find_problem(read_envs, {"A": 10**5000}).where == "A"


def test_the_environment_is_refused_when_it_is_larger_than_a_process_can_have() -> None:
    assert find_problem(read_envs, {f"A{n}": "x" * 32_000 for n in range(10)}).code == "size.characters"


@pytest.mark.parametrize(("read", "key"), PAIRS)
def test_a_name_is_refused_when_it_stands_twice(read: Callable[[Any], object], key: str) -> None:
    problem = find_problem(read, [{key: "A", "value": "1"}, {key: "A", "value": "2"}])

    assert (problem.code, problem.where) == (f"{key}.twice", f"[1].{key}")


@pytest.mark.parametrize(("read", "key"), PAIRS)
@pytest.mark.parametrize("missing", ["key", "value"])
def test_an_entry_is_refused_when_half_of_it_is_missing(read: Callable[[Any], object], key: str, missing: str) -> None:
    field = key if missing == "key" else "value"

    problem = find_problem(read, [{k: "A" for k in (key, "value") if k != field}])

    assert (problem.code, problem.where) == ("field.missing", f"[0].{field}")


def test_an_entry_is_refused_with_the_nearest_when_it_has_an_unknown_key() -> None:
    problem = find_problem(read_envs, [{"name": "A", "value": "1", "valu": "2"}])

    assert (problem.code, problem.where, problem.suggestion) == ("field.unknown", "[0].valu", "value")


def test_a_reference_to_kubernetes_is_refused_when_a_variable_holds_one() -> None:
    given = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "other", "key": "password"}}}]

    problems = find_problems(read_envs, given)

    assert problems["[0].valueFrom"].code == "field.unknown"


@pytest.mark.parametrize("given", ["A=1", 3, True])
@pytest.mark.parametrize(("read", "key"), PAIRS)
def test_pairs_are_refused_when_they_are_neither_list_nor_mapping(
    read: Callable[[Any], object], key: str, given: Any
) -> None:
    problem = find_problem(read, given)

    assert problem.code == "type.pairs"
    assert key in (problem.allowed or "")


@pytest.mark.parametrize("entry", ["A=1", None, ["A", "1"]])
def test_an_entry_is_refused_when_it_is_no_mapping(entry: Any) -> None:
    assert find_problem(read_envs, [entry]).where == "[0]"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ()),
        (["my-secret-key"], (SecretUse(name="my-secret-key"),)),
        (["A", "B"], (SecretUse(name="A"), SecretUse(name="B"))),
        ([{"name": "A"}], (SecretUse(name="A"),)),
        ([{"name": "A", "mount_path": None}], (SecretUse(name="A"),)),
        ([{"name": "k", "mount_path": "/s//k.json"}], (SecretUse(name="k", mount_path="/s/k.json"),)),
        (["A", {"name": "B", "mount_path": "/b"}], (SecretUse(name="A"), SecretUse(name="B", mount_path="/b"))),
    ],
)
def test_secrets_are_read_when_they_are_names_or_files(given: Any, expected: tuple[SecretUse, ...]) -> None:
    assert read_secrets(given) == expected


@pytest.mark.parametrize(
    ("given", "where", "code"),
    [
        ("my-secret-key", "", "type.list"),
        ({"A": "B"}, "", "type.list"),
        (["A", "A"], "[1]", "secrets.twice"),
        (["A", {"name": "A", "mount_path": "/a"}], "[1]", "secrets.twice"),
        (
            [{"name": "A", "mount_path": "/s"}, {"name": "B", "mount_path": "/s/"}],
            "[1].mount_path",
            "secrets.path_twice",
        ),
        (
            [{"name": "A", "mount_path": "/s"}, "B", {"name": "C", "mount_path": "/s"}],
            "[2].mount_path",
            "secrets.path_twice",
        ),
        ([{"mount_path": "/s"}], "[0].name", "field.missing"),
        ([{"name": "A", "mount_path": "s"}], "[0].mount_path", "mount_path.relative"),
        ([{"name": "A", "mount_path": "/etc/ssl/key"}], "[0].mount_path", "mount_path.system"),
        ([{"name": "A", "mount_path": "/a/../b"}], "[0].mount_path", "mount_path.dots"),
        ([{"name": "A", "key": "x"}], "[0].key", "field.unknown"),
        (["../other/secret"], "[0]", "secrets.name"),
        (["a b"], "[0]", "secrets.name"),
        (["1a"], "[0]", "secrets.name"),
        ([""], "[0]", "text.empty"),
        ([3], "[0]", "type.mapping"),
        ([None], "[0]", "type.mapping"),
        (["a\n"], "[0]", "text.control"),
        ([["a"]], "[0]", "type.mapping"),
    ],
)
def test_secrets_are_refused_when_they_name_nothing_that_can_be_stored(given: Any, where: str, code: str) -> None:
    problem = find_problem(read_secrets, given)

    assert (problem.where, problem.code) == (where, code)


def test_every_problem_is_told_when_there_are_several() -> None:
    given = [{"name": "1", "value": []}, {"nam": "A", "value": "x"}, "x", {"name": "A", "value": 1}]

    assert set(find_problems(read_envs, given)) == {"[0].name", "[0].value", "[1].nam", "[1].name", "[2]"}


def test_what_was_given_stays_as_it_was_when_it_is_read() -> None:
    given = [{"name": "A", "value": 1}]
    before = deepcopy(given)

    envs = read_envs(given)

    assert given == before
    with pytest.raises(TypeError):
        envs["A"] = "2"  # type: ignore[index]  # that it cannot be changed is the point
