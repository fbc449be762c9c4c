"""Namespaces of projects: valid, different, and known by their labels."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.engines.kubernetes.namespaces import Namespaces, find_project, project_namespace
from runyard.spec.names import check_dns_label, check_project_name

PROJECTS = st.from_regex(r"[a-z0-9-]{2,38}", fullmatch=True)
PER_PROJECT = Namespaces(shared=None, installation="i1")


def make_namespace(project: str, *, installation: str = "i1", **metadata: Any) -> dict[str, Any]:
    labels = Namespaces(shared=None, installation=installation).render_labels(project)
    return {"metadata": {"name": project_namespace(project), "labels": labels, **metadata}}


@given(PROJECTS)
def test_namespace_is_valid_when_the_project_is(project: str) -> None:
    assert check_project_name(project) is None
    assert check_dns_label(project_namespace(project)) is None


@given(PROJECTS, PROJECTS)
def test_namespaces_differ_when_projects_do(one: str, other: str) -> None:
    assert (project_namespace(one) == project_namespace(other)) == (one == other)


@pytest.mark.parametrize(
    ("project", "expected"),
    [
        ("demo", "runyard-demo"),
        ("-demo", "runyard--demo"),
        ("demo-", "runyard-x-demo-be1840b59c2c003d630d"),
        ("--", "runyard-x-d8156bae0c4243d3742f"),
    ],
)
def test_namespace_is_hashed_when_the_plain_name_is_not_valid(project: str, expected: str) -> None:
    assert project_namespace(project) == expected


@pytest.mark.parametrize("project", ["demo-", "--"])
def test_namespace_is_another_when_a_project_imitates_a_hashed_name(project: str) -> None:
    imitation = project_namespace(project).removeprefix("runyard-")
    assert project_namespace(imitation) != project_namespace(project)


def test_namespace_is_the_shared_one_when_all_projects_share_it() -> None:
    shared = Namespaces(shared="team", installation="i1")
    assert {shared.get_namespace(project) for project in ("demo", "other")} == {"team"}
    assert not shared.is_per_project


def test_namespace_is_ours_when_its_labels_name_installation_and_project() -> None:
    assert PER_PROJECT.owns(make_namespace("demo"), project="demo")


@pytest.mark.parametrize(
    "stranger",
    [
        {"metadata": {"name": "runyard-demo"}},
        make_namespace("demo", installation="i2"),
        make_namespace("other"),
        make_namespace("demo", annotations={"runyard.io/project": "other"}),
        {"metadata": {"name": "runyard-demo", "labels": {"runyard.io/project": "demo"}}},
    ],
)
def test_namespace_is_a_strangers_when_a_label_differs(stranger: dict[str, Any]) -> None:
    assert not PER_PROJECT.owns(stranger, project="demo")


def test_project_is_read_from_the_annotation_when_the_label_is_hashed() -> None:
    namespace = make_namespace("demo-", annotations={"runyard.io/project": "demo-"})
    assert namespace["metadata"]["labels"]["runyard.io/project"] != "demo-"
    assert find_project(namespace) == "demo-"
    assert PER_PROJECT.owns(namespace, project="demo-")
