from copy import deepcopy
from typing import Any

import pytest

from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.resources import Sides
from runyard.spec.run_documents import RunFile, read_run_file
from runyard.spec.run_fields import RunFields
from runyard.spec.yaml.loader import load_document
from tests.unit.spec.refusals import find_problem, find_problems
from tests.unit.spec.test_entities import RUN

SEED_VOLUME = (
    'volumes:\n        - volume_type: "persistent_volume_claim",\n          name: "my-pvc",\n'
    '          mount_path: "/data",\n          spec: \n            size: "10Gi",\n            \n'
)
"""A pasted snippet, with its commas."""


def test_a_run_file_is_read_when_its_fields_stand_at_top_level() -> None:
    read = read_run_file(
        {
            "kind": "container",
            "action": "job",
            "project": "demo",
            "id": "run-1",
            "name": "training",
            "function": "train",
            "image": "busybox:1.36",
            "command": ["sh", "-c"],
            "args": ["echo hi"],
            "profile": "1xa100",
            "resources": {"mem": "6Gi"},
        }
    )

    assert (read.kind, read.action, read.project, read.id, read.name) == (
        "container",
        "job",
        "demo",
        "run-1",
        "training",
    )
    assert read.function == "train"
    assert (read.fields.profile, read.fields.image) == ("1xa100", "busybox:1.36")
    assert dict(read.fields.resources or {}) == {"mem": Sides(requests=Quantity.parse("6Gi"))}


@pytest.mark.parametrize("given", [None, {}])
def test_everything_is_blank_when_the_file_says_nothing(given: Any) -> None:
    assert read_run_file(given) == RunFile(fields=RunFields())


@pytest.mark.parametrize("snippet", [{"fs_group": 1000}, {"secrets": ["my-secret-key"]}, {"resources": {"cpu": "10"}}])
def test_a_snippet_is_a_run_file_when_it_is_all_there_is(snippet: dict[str, Any]) -> None:
    read = read_run_file(snippet)

    assert (read.kind, read.action, read.project) == (None, None, None)
    assert getattr(read.fields, next(iter(snippet))) is not None


def test_a_digitalhub_document_is_read_when_it_is_a_run() -> None:
    given = deepcopy(RUN)

    read = read_run_file(given)

    assert given == RUN
    assert (read.kind, read.action, read.project, read.id, read.function) == ("python", "job", "demo", "R", "f1")
    assert read.fields.parameters == {"x": 41}
    assert read.fields.replicas == 2
    assert type(read.fields) is RunFields


def test_the_action_is_the_tasks_when_an_old_kind_does_not_say_it() -> None:
    given = {"kind": "container+run", "spec": {"task": "container+serve://demo/T"}}

    read = read_run_file(given)

    assert (read.kind, read.action, read.project) == ("container", "serve", "demo")


@pytest.mark.parametrize(
    ("given", "where", "code"),
    [
        ({"kind": "python+job:run", "spec": {"task": "container+job://demo/T"}}, "kind", "run.kind"),
        ({"kind": "python+serve:run", "spec": {"task": "python+job://demo/T"}}, "kind", "run.kind"),
        (
            {"kind": "python+job:run", "project": "other", "spec": {"task": "python+job://demo/T"}},
            "spec.task",
            "run.project",
        ),
        ({"kind": "python+run", "spec": {"task": "python://demo/T"}}, "spec.task", "run.action"),
        ({"kind": "hera+pipeline:run", "spec": {"task": "hera+pipeline://demo/T"}}, "kind", "value.option"),
    ],
)
def test_a_document_is_refused_when_kind_task_and_project_disagree(given: Any, where: str, code: str) -> None:
    problem = find_problem(read_run_file, given)

    assert (problem.where, problem.code) == (where, code)


@pytest.mark.parametrize(
    ("given", "where", "suggestion"),
    [
        ({"kind": "containers"}, "kind", "container"),
        ({"kind": "Python"}, "kind", "python"),
        ({"action": "jobs"}, "action", "job"),
        ({"action": "train"}, "action", None),
        ({"project": "My Project"}, "project", "my-project"),
        ({"id": "a/b"}, "id", None),
        ({"name": "a b"}, "name", None),
        ({"function": "python://demo"}, "function", None),
        ({"kidn": "container"}, "kidn", "kind"),
        ({"actoin": "job"}, "actoin", "action"),
        ({"projet": "demo"}, "projet", "project"),
        ({"imge": "x"}, "imge", "image"),
    ],
)
def test_a_file_is_refused_with_the_nearest_when_a_word_is_wrong(
    given: Any, where: str, suggestion: str | None
) -> None:
    problem = find_problem(read_run_file, given)

    assert (problem.where, problem.suggestion) == (where, suggestion)


def test_the_function_is_named_when_the_file_gives_its_reference() -> None:
    assert read_run_file({"function": "container://demo/train:7"}).function == "train"


def test_every_problem_is_told_when_identity_and_fields_are_wrong() -> None:
    given = {"kind": "x", "project": "X Y", "resources": {"cpu": "a"}, "mem": "1Gi", "volumes": [3]}

    assert set(find_problems(read_run_file, given)) == {"kind", "project", "resources.cpu", "mem", "volumes[0]"}


@pytest.mark.parametrize("given", [[], "job", 3, [{"action": "job"}]])
def test_a_file_is_refused_when_it_is_no_mapping(given: Any) -> None:
    assert find_problem(read_run_file, given).code == "type.mapping"


@pytest.mark.parametrize(
    "text",
    [
        "profile: 1xa100\nresources: {mem: 6Gi}\n",
        "node_selector:\n  - key: selectorKey\n    value: selectValue\n",
        SEED_VOLUME,
        'resources:\n  cpu:\n    requests: "10"\n    limits: "12"\n',
        "resources:\n  mem:\n    requests: 32Gi\n    limits: 64Gi\n",
        'resources:\n  gpu:\n    limits: "1"    \n',
        "secrets:\n  - my-secret-key\n",
        "envs:\n  - name: ENV1\n    value: VALU123123\n  - name: ENV2\n    value: VALU123123  \n",
        "fs_group: 1000\n",
        "run_as_user: 1000\n",
        "run_as_group: 1000\n",
        'resources:\n  cpu:\n    requests: 8\n  mem:\n    requests: 32Gi\n  gpu:\n    limits: "1"\n',
        'resources:\n  cpu: "8"\n  mem: 32Gi\n  gpu: "1"\n  disk: 10Gi\n',
    ],
)
def test_a_seeds_snippet_is_read_when_it_is_pasted_as_it_stands(text: str) -> None:
    assert read_run_file(load_document(text).data).fields != RunFields()


@pytest.mark.parametrize(
    "arguments",
    [
        {
            "action": "job",
            "fs_group": "8877",
            "args": ["a"],
            "resources": {"mem": "32Gi", "cpu": "6"},
            "volumes": [
                {
                    "volume_type": "persistent_volume_claim",
                    "name": "volume-deforestation",
                    "mount_path": "/app/files",
                    "spec": {"size": "350Gi"},
                }
            ],
        },
        {
            "action": "job",
            "inputs": {"input1": "store://demo/dataitem/table/d"},
            "profile": "1xa100",
            "resources": {"mem": "6Gi"},
        },
        {"action": "job", "secrets": ["CDSETOOL_ESA_USER", "CDSETOOL_ESA_PASSWORD"]},
        {"action": "job", "envs": [{"name": "HF_HOME", "value": "/local-data/huggingface"}]},
    ],
)
def test_a_seeds_call_is_read_when_its_arguments_are_written_as_a_file(arguments: dict[str, Any]) -> None:
    assert read_run_file(arguments).action == "job"


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("local_execution", True, "run.local"),
        ("workflow", "hera://demo/w:1", "run.workflow"),
        ("instructions", ["RUN true"], "field.pointless"),
        ("base_image", "busybox:1.36", "field.pointless"),
        ("function", "python://demo/f:1", "run.function"),
    ],
)
def test_a_document_is_refused_when_it_says_what_would_not_be_done(name: str, value: Any, code: str) -> None:
    spec = {"task": "container+job://demo/T", name: value}
    problem = find_problem(read_run_file, {"kind": "container+job:run", "project": "demo", "spec": spec})

    assert (problem.code, problem.path) == (code, ("spec", name))
