from typing import Any

import pytest

from runyard.spec.problems import Problem
from runyard.spec.run_documents import read_run_file
from runyard.spec.run_fields import read_run_fields
from runyard.spec.yaml.loader import load_document
from tests.unit.spec.refusals import find_problem, find_problems

SEED_RESOURCES = 'resources:\ncpu: "8"\nmem: 32Gi\ngpu: "1"\ndisk: 10Gi\n'
SEED_VOLUME = (
    'volumes:\n- volume_type: "persistent_volume_claim",\nname: "my-pvc",\nmount_path: "/data",\nspec:\nsize: "10Gi",\n'
)


def _read_text(text: str) -> dict[str, Problem]:
    return find_problems(read_run_file, load_document(text).data)


def test_each_resource_is_sent_home_when_the_seeds_snippet_lost_its_indentation() -> None:
    problems = _read_text(SEED_RESOURCES)

    assert set(problems) == {"cpu", "mem", "gpu", "disk"}
    for name, problem in problems.items():
        assert problem.code == "field.misplaced"
        assert f"`{name}` belongs under `resources`" in problem.message
        assert "indentation" in problem.message
    assert problems["mem"].suggestion == "resources: {mem: 32Gi}"


def test_each_field_is_sent_home_when_the_seeds_volume_lost_its_indentation() -> None:
    problems = _read_text(SEED_VOLUME)

    messages = {where: problem.message for where, problem in problems.items() if problem.code == "field.misplaced"}
    assert set(messages) == {"name", "mount_path", "spec", "size"}
    assert "`mount_path` belongs under `volumes[]`" in messages["mount_path"]
    assert "`name` belongs under `volumes[]`" in messages["name"]
    assert "`size` belongs under `volumes[].spec`" in messages["size"]


@pytest.mark.parametrize("line", ["fs_group: 1000", "run_as_user: 1000", "run_as_group: 1000"])
def test_a_snippet_is_read_when_there_was_no_indentation_to_lose(line: str) -> None:
    name, _, value = line.partition(": ")

    assert getattr(read_run_file(load_document(line).data).fields, name) == int(value)


def test_a_resource_is_sent_home_without_doubting_when_nothing_was_flattened() -> None:
    problem = find_problem(read_run_fields, {"cpu": 8})

    assert problem.message == "`cpu` belongs under `resources`"


@pytest.mark.parametrize(
    ("given", "home"),
    [
        ({"requests": {"cpu": 1}}, "`resources`"),
        ({"limits": {"cpu": 1}}, "`resources`"),
        ({"mount_path": "/a"}, "`volumes[]`"),
        ({"mountPath": "/a"}, "`volumes[]`"),
        ({"mount_path": "/a", "secrets": ["x"]}, "`secrets[]`"),
        ({"volume_type": "empty_dir"}, "`volumes[]`"),
        ({"storage_class": "fast"}, "`volumes[].spec`"),
        ({"value": "x", "envs": []}, "`envs[]`"),
        ({"value": "x", "node_selector": []}, "`node_selector[]`"),
        ({"key": "x"}, "`node_selector[]`"),
        ({"operator": "Exists", "tolerations": []}, "`tolerations[]`"),
        ({"effect": "NoSchedule"}, "`tolerations[]`"),
        ({"nodeAffinity": {}}, "`affinity`"),
        ({"target_port": 80}, "`service_ports[]`"),
    ],
)
def test_a_key_is_sent_home_when_it_stands_too_high(given: dict[str, Any], home: str) -> None:
    (problem,) = [each for each in find_problems(read_run_fields, given).values() if each.code == "field.misplaced"]

    assert f"belongs under {home}" in problem.message


def test_the_users_spelling_is_told_when_a_misplaced_key_is_camel_case() -> None:
    problem = find_problem(read_run_fields, {"mountPath": "/a"})

    assert problem.where == "mountPath"
    assert "`mountPath` belongs under" in problem.message


def test_nothing_is_misplaced_when_the_key_is_a_field() -> None:
    assert read_run_fields({"secrets": ["a"], "envs": {"A": "b"}}).envs == {"A": "b"}


def test_a_misplaced_number_is_told_when_nobody_can_write_it() -> None:
    assert "bits" in str(find_problem(read_run_fields, {"cpu": 10**5000}).suggestion)
