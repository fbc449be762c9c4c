from copy import deepcopy
from typing import Any

import pytest

from runyard.spec.digitalhub.reference_strings import FunctionReference, TaskReference
from runyard.spec.entities import ENTITY_TYPES, read_entity
from runyard.spec.problems import Problem
from tests.unit.spec.refusals import find_problem, find_problems

RUN = {
    "kind": "python+job:run",
    "metadata": {
        "project": "demo",
        "name": "R",
        "relationships": [{"type": "run_of", "dest": "store://demo/function/python/f1:F"}],
    },
    "spec": {
        "task": "python+job://demo/T",
        "function": "python://demo/f1:F",
        "volumes": [
            {
                "volume_type": "persistent_volume_claim",
                "name": "my-pvc",
                "mount_path": "/data",
                "spec": {"size": "10Gi"},
            },
            {
                "volume_type": "empty_dir",
                "name": "e",
                "mount_path": "/e",
                "spec": {"size_limit": "1Gi", "medium": "Memory"},
            },
            {"volume_type": "ephemeral", "name": "eph", "mount_path": "/eph", "spec": {"size": "1Gi"}},
            {"volume_type": "shared_volume", "name": "sh", "mount_path": "/sh"},
        ],
        "resources": {"cpu": "500m", "mem": "64Mi", "gpu": 1, "disk": "1Gi"},
        "envs": [{"name": "ENV1", "value": "V1"}],
        "secrets": ["my-secret-key"],
        "profile": "cpu-small",
        "replicas": 2,
        "parameters": {"x": 41},
        "local_execution": False,
    },
    "status": {"state": "CREATED"},
    "project": "demo",
    "id": "R",
    "name": "R",
    "key": "store://demo/run/python+job:run/R",
    "extensions": [],
}
"""As the digitalhub SDK posts it."""


def _refuse(entity_type: str, given: Any) -> dict[str, Problem]:
    return find_problems(lambda value: read_entity(entity_type, value), given)


def _task(kind: str = "container+job", **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "spec": {"function": f"{kind.partition('+')[0]}://demo/f:1", **spec}}


def _run(kind: str = "container+job:run", **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "spec": {"task": "container+job://demo/T", **spec}}


def test_a_run_is_read_when_the_sdk_posts_it() -> None:
    given = deepcopy(RUN)

    entity = read_entity("run", given)

    assert given == RUN
    assert (entity.id, entity.project, entity.kind) == ("R", "demo", "python+job:run")
    assert entity.spec.task == TaskReference(kind="python+job", project="demo", id="T")
    assert entity.spec.function == FunctionReference(kind="python", project="demo", name="f1", id="F")
    assert [volume.name for volume in entity.spec.volumes] == ["my-pvc", "e", "eph", "sh"]
    assert entity.spec.parameters == {"x": 41}
    assert entity.metadata == RUN["metadata"]


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("container+job:run", {"args": ["-c", "echo hi"], "run_as_user": 1000, "run_as_group": 1000, "fs_group": 1000}),
        (
            "container+serve:run",
            {
                "replicas": 1,
                "service_ports": [{"port": 8080, "target_port": 8080}],
                "service_type": "ClusterIP",
                "service_name": "svc1",
            },
        ),
        ("container+build:run", {"instructions": ["RUN true"]}),
        ("container+deploy:run", {"replicas": 1}),
        ("python+serve:run", {"replicas": 1, "service_type": "NodePort", "init_parameters": {"a": 1}}),
        ("python+run", {"resources": {"cpu": {"requests": "1", "limits": "2"}}, "local_execution": True}),
    ],
)
def test_a_run_of_any_kind_is_read_when_the_sdk_posts_it(kind: str, spec: dict[str, Any]) -> None:
    assert read_entity("run", _run(kind, **spec)).kind == kind


@pytest.mark.parametrize(
    "kind",
    [
        "container+job",
        "container+serve",
        "container+deploy",
        "container+build",
        "python+job",
        "python+serve",
        "python+build",
    ],
)
def test_a_task_is_read_when_we_run_its_kind(kind: str) -> None:
    entity = read_entity("task", _task(kind, resources={"cpu": 1}))

    assert entity.spec.function.kind == kind.partition("+")[0]


def test_a_function_is_read_when_it_is_python() -> None:
    entity = read_entity(
        "function",
        {
            "kind": "python",
            "name": "f1",
            "project": "demo",
            "spec": {
                "source": {"source": "git+https://example.org/code", "handler": "main:run", "lang": "python"},
                "python_version": "PYTHON3_11",
                "requirements": ["numpy"],
                "base_image": "python:3.11",
            },
        },
    )

    assert (entity.spec.python_version, entity.spec.requirements) == ("PYTHON3_11", ("numpy",))


def test_a_function_is_read_when_it_is_a_container() -> None:
    given = {
        "kind": "container",
        "name": "c1",
        "spec": {"image": "busybox:1.36", "command": "sh", "image_pull_policy": "Always"},
    }

    assert read_entity("function", given).spec.command == ("sh",)


def test_a_secret_is_read_without_its_value_when_it_is_one() -> None:
    given = {
        "kind": "secret",
        "name": "my-secret-key",
        "spec": {"path": "secret://my-secret-key", "provider": "kubernetes"},
    }

    assert read_entity("secret", given).spec.path == "secret://my-secret-key"


@pytest.mark.parametrize("path", ["my-secret-key", "secret://", "secret://a b", "vault://x", "secret://a/../b", 3])
def test_a_secret_is_refused_when_its_path_names_none(path: Any) -> None:
    assert set(_refuse("secret", {"kind": "secret", "name": "s", "spec": {"path": path}})) == {"spec.path"}


def test_a_secret_is_refused_when_it_carries_a_value() -> None:
    problems = _refuse("secret", {"kind": "secret", "name": "s", "spec": {"value": "hunter2"}})

    assert problems["spec.value"].code == "field.unknown"
    assert "hunter2" not in str(problems["spec.value"])


def test_a_projects_spec_is_kept_word_for_word_when_a_client_keeps_things_there() -> None:
    spec = {"source": "./", "config": {"a": 1}, "myKey": {"deepKey": [1]}, "other_key": 2}

    read = read_entity("project", {"kind": "project", "name": "demo", "spec": spec}).spec

    assert read.model_dump() == spec


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("Demo", "demo"), ("my project", "my-project"), ("a", None), ("x" * 39, "x" * 38), ("ünï", None), (None, None)],
)
def test_a_project_is_refused_with_the_nearest_name_when_it_cannot_be_a_namespace(
    name: str | None, suggestion: str | None
) -> None:
    problems = _refuse("project", {"kind": "project", "name": name})

    assert problems["name"].suggestion == suggestion


@pytest.mark.parametrize(
    ("entity_type", "given", "where"),
    [
        ("function", {"kind": "python", "name": "f", "spec": {"source": {}}}, "spec.python_version"),
        ("function", {"kind": "python", "name": "f", "spec": {"python_version": "PYTHON3_11"}}, "spec.source"),
        ("function", {"kind": "container", "spec": {"image": "a:1"}}, "name"),
        ("function", {"kind": "container", "name": "f", "spec": {"command": "sh"}}, "spec.image"),
        ("function", {"kind": "container", "name": "f", "spec": {"base_image": "a:1"}}, "spec.image"),
        ("function", {"kind": "container", "name": "f", "spec": None}, "spec.image"),
        ("function", {"kind": "container", "name": "f"}, "spec.image"),
        ("function", {"kind": "dbt", "name": "f"}, "kind"),
        ("task", {"kind": "container+job", "spec": {}}, "spec.function"),
        ("task", {"kind": "python+deploy", "spec": {"function": "python://demo/f"}}, "kind"),
        ("task", {"kind": "container+job", "spec": {"function": "python://demo/f"}}, "spec.function"),
        ("task", {"kind": "container+job", "spec": {"function": "demo/f"}}, "spec.function"),
        ("task", _task("container+build", instructions="RUN true"), "spec.instructions"),
        ("task", _task("container+build", instructions=5), "spec.instructions"),
        ("task", _task("container+build", instructions=[5]), "spec.instructions[0]"),
        ("run", {"kind": "container+job:run", "spec": {}}, "spec.task"),
        ("run", {"kind": "container+job:run"}, "spec.task"),
        ("run", {"kind": "container+job:run", "spec": []}, "spec"),
        ("run", {"kind": "hera+pipeline:run", "spec": {"task": "hera+pipeline://demo/T"}}, "kind"),
        ("run", {"kind": "container+job", "spec": {"task": "container+job://demo/T"}}, "kind"),
        ("run", _run(local_execution="yes"), "spec.local_execution"),
        ("run", _run(task="T"), "spec.task"),
        ("run", _run(resources={"cpu": "x"}), "spec.resources.cpu"),
        ("run", _run(fsGroup=0), "spec.fsGroup"),
        ("run", {**_run(), "id": "a/b"}, "id"),
        ("run", {**_run(), "name": "a b"}, "name"),
        ("run", {**_run(), "project": "Not A Project"}, "project"),
        ("run", {**_run(), "kind": 3}, "kind"),
        ("run", {"spec": {"task": "container+job://demo/T"}}, "kind"),
        ("run", {**_run(), "statuss": {}}, "statuss"),
        ("run", {**_run(), "metadata": []}, "metadata"),
    ],
)
def test_an_entity_is_refused_at_the_right_place_when_it_is_wrong(entity_type: str, given: Any, where: str) -> None:
    assert set(_refuse(entity_type, given)) == {where}


@pytest.mark.parametrize(
    ("entity_type", "kind", "suggestion"),
    [
        ("run", "container+jobs:run", "container+job:run"),
        ("run", "Container+job:run", "container+job:run"),
        ("task", "python+jobs", "python+job"),
        ("function", "pyton", "python"),
        ("function", "Container", "container"),
        ("secret", "secrets", "secret"),
    ],
)
def test_a_kind_is_refused_with_the_nearest_when_it_is_unknown(entity_type: str, kind: str, suggestion: str) -> None:
    problem = _refuse(entity_type, {"kind": kind, "name": "n"})["kind"]

    assert (problem.code, problem.suggestion) == ("value.option", suggestion)


def test_every_problem_is_told_when_head_and_spec_are_wrong() -> None:
    given = {**_run(resources={"cpu": "x"}, fs_group=0), "id": "a/b", "nmae": "n", "project": "X Y"}

    assert set(_refuse("run", given)) == {"id", "nmae", "project", "spec.resources.cpu", "spec.fs_group"}


@pytest.mark.parametrize("given", [None, [], "run", 3])
@pytest.mark.parametrize("entity_type", ENTITY_TYPES)
def test_an_entity_is_refused_when_it_is_no_mapping(entity_type: str, given: Any) -> None:
    assert find_problem(lambda value: read_entity(entity_type, value), given).code == "type.mapping"


def test_a_type_is_refused_with_the_nearest_when_it_is_unknown() -> None:
    problem = _refuse("runs", {"kind": "container+job:run"})["kind"]

    assert (problem.code, problem.suggestion) == ("value.option", "run")
