from collections.abc import Callable
from typing import Any

import pytest

from runyard.spec.digitalhub.reference_strings import (
    FunctionReference,
    Key,
    RunKind,
    TaskReference,
    find_run_kind,
    find_task_kind,
    parse_function_reference,
    parse_key,
    parse_task_reference,
)
from tests.unit.spec.refusals import find_problem

ID = "7f3a2c1b4d5e6f708192a3b4c5d6e7f8"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"python://demo/f1:{ID}", FunctionReference(kind="python", project="demo", name="f1", id=ID)),
        ("container://demo/c1", FunctionReference(kind="container", project="demo", name="c1")),
        ("hera://demo/w.1_x-y+z:W", FunctionReference(kind="hera", project="demo", name="w.1_x-y+z", id="W")),
    ],
)
def test_a_functions_reference_is_read_and_written_back_when_it_is_one(text: str, expected: FunctionReference) -> None:
    assert parse_function_reference(text) == expected
    assert str(expected) == text


def test_a_tasks_reference_is_read_and_written_back_when_it_is_one() -> None:
    reference = parse_task_reference(f"python+job://demo/{ID}")

    assert reference == TaskReference(kind="python+job", project="demo", id=ID)
    assert str(reference) == f"python+job://demo/{ID}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("store://demo", Key(project="demo")),
        (
            f"store://demo/function/python/f1:{ID}",
            Key(project="demo", type="function", kind="python", name="f1", id=ID),
        ),
        ("store://demo/function/python/f1", Key(project="demo", type="function", kind="python", name="f1")),
        (
            f"store://demo/run/python+job:run/{ID}:{ID}",
            Key(project="demo", type="run", kind="python+job:run", name=ID, id=ID),
        ),
        (
            f"store://demo/task/python+job/{ID}:{ID}",
            Key(project="demo", type="task", kind="python+job", name=ID, id=ID),
        ),
        (
            "store://demo/secret/secret/my-secret-key:S",
            Key(project="demo", type="secret", kind="secret", name="my-secret-key", id="S"),
        ),
        (
            "store://demo/artifact/artifact/a.b:1",
            Key(project="demo", type="artifact", kind="artifact", name="a.b", id="1"),
        ),
    ],
)
def test_a_key_is_read_and_written_back_when_it_is_one(text: str, expected: Key) -> None:
    assert parse_key(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(("kind", "entity"), [("run", "python+job:run"), ("task", "python+job")])
def test_the_id_is_taken_from_the_name_when_the_sdk_leaves_it_out(kind: str, entity: str) -> None:
    key = parse_key(f"store://demo/{kind}/{entity}/{ID}")

    assert (key.name, key.id) == (ID, ID)
    assert parse_key(str(key)) == key


@pytest.mark.parametrize("parse", [parse_function_reference, parse_task_reference, parse_key])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "demo",
        "://demo/f",
        "python://",
        "python:///f",
        "python://demo/",
        "python://demo/f/g",
        "python://demo/../other",
        "python://demo/f:1:2",
        "python://demo/f 1",
        "python://demo/f\n",
        " python://demo/f",
        "python://demo/ƒ",
        "store://",
        "store://demo/",
        "store://demo/function/python",
        "store://demo/function/python/",
        "store://demo/FUNCTION/python/f/g",
        "python://demo/" + "f" * 3000,
        None,
        3,
        ["python://demo/f"],
    ],
)
def test_a_reference_is_refused_with_its_form_when_it_is_none(parse: Callable[[Any], object], text: Any) -> None:
    problem = find_problem(parse, text)

    assert problem.code == "reference.invalid"
    assert "://" in (problem.allowed or "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python+job:run", RunKind(function="python", action="job")),
        ("container+serve:run", RunKind(function="container", action="serve")),
        ("container+deploy:run", RunKind(function="container", action="deploy")),
        ("python+run", RunKind(function="python", action=None)),
        ("container+run", RunKind(function="container", action=None)),
        ("vllmserve-text+serve:run", RunKind(function="vllmserve-text", action="serve")),
    ],
)
def test_a_runs_kind_says_function_and_action_when_it_is_one(text: str, expected: RunKind) -> None:
    assert find_run_kind(text) == expected


@pytest.mark.parametrize(
    "text", ["", "run", "python", "python+job", ":run", "+run", "python+:run", "python+job:run\n", "a b+run"]
)
def test_a_runs_kind_is_not_found_when_it_is_none(text: str) -> None:
    assert find_run_kind(text) is None


@pytest.mark.parametrize(
    ("text", "expected"), [("python+job", ("python", "job")), ("container+build", ("container", "build"))]
)
def test_a_tasks_kind_says_function_and_action_when_it_is_one(text: str, expected: tuple[str, str]) -> None:
    assert find_task_kind(text) == expected


@pytest.mark.parametrize("text", ["", "python", "python+run", "python+job:run", "+job", "python+"])
def test_a_tasks_kind_is_not_found_when_it_is_none(text: str) -> None:
    assert find_task_kind(text) is None
