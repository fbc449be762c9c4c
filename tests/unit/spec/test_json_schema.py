from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from runyard.spec.entities import read_entity
from runyard.spec.json_schema import KINDS, build_schema
from runyard.spec.policy import read_policy
from runyard.spec.profile_documents import read_profiles
from runyard.spec.rule_grammar import RULED
from runyard.spec.run_documents import IDENTITY, read_run_file
from runyard.spec.run_fields import ADMIN_FIELDS, USER_FIELDS, read_admin_fields, read_run_fields
from tests.unit.spec.test_entities import RUN

RUN_FILES: list[dict[str, Any]] = [
    {},
    {"profile": "1xa100", "resources": {"mem": "6Gi"}},
    {"kind": "container", "action": "job", "image": "busybox:1.36", "command": ["sh", "-c"], "args": ["echo hi"]},
    {"node_selector": [{"key": "selectorKey", "value": "selectValue"}]},
    {"node_selector": {"disktype": "ssd"}},
    {"resources": {"cpu": {"requests": "10", "limits": "12"}}},
    {"resources": {"mem": {"requests": "32Gi", "limits": "64Gi"}}},
    {"resources": {"gpu": {"limits": "1"}}},
    {"resources": {"cpu": {"requests": 8}, "mem": {"requests": "32Gi"}, "gpu": {"limits": "1"}}},
    {"resources": {"cpu": "8", "mem": "32Gi", "gpu": "1", "disk": "10Gi"}},
    {"resources": {"cpu": 0.5, "gpu": 1}},
    {"secrets": ["my-secret-key", {"name": "kaggle", "mount_path": "/secrets/kaggle.json"}]},
    {"envs": [{"name": "ENV1", "value": "VALU123123"}]},
    {"envs": {"EPOCHS": 3, "DEBUG": True, "RATE": 0.1}},
    {"fs_group": 1000, "run_as_user": 1000, "run_as_group": 1000},
    {"fs_group": "8877"},
    {
        "volumes": [
            {
                "volume_type": "persistent_volume_claim",
                "name": "my-pvc",
                "mount_path": "/data",
                "spec": {"size": "10Gi"},
            },
            {"volume_type": "empty_dir", "name": "e", "mount_path": "/dev/shm", "spec": {"sizeLimit": "1Gi"}},
            {"volume_type": "config_map", "name": "c", "mount_path": "/c", "spec": {"data": {"a": "b"}}},
            {"volume_type": "image", "name": "i", "mount_path": "/i", "spec": {"image": "model:1"}},
            {"volume_type": "shared_volume", "name": "s", "mount_path": "/s"},
        ]
    },
    {"tolerations": [{"key": "spot", "operator": "Exists"}], "affinity": {"nodeAffinity": {}}},
    {"timeout": "2h", "ttl": 3600, "pending_timeout": "15m", "backoff_limit": 2},
    {"replicas": 2, "service_ports": [{"port": 80, "target_port": 8080}, 81], "service_type": "ClusterIP"},
]
"""The seeds' snippets, and the forms that the issue lists."""

POLICIES: list[dict[str, Any]] = [
    {},
    {"resources.mem": {"default": "256Mi", "max": "64Gi"}, "tolerations": {"allowed": [{"key": "spot"}]}},
    {"resources": {"mem": {"max": "64Gi"}, "cpu": {"limits": {"default": 4}}}, "volumes": {"size": {"max": "1Gi"}}},
    {"affinity": {"locked": True, "namespaces": {"allowed": ["monitoring"]}}},
    {"resources.cpu": {"max": 8, "limits": {"default": 4}}},
    {"resources.disk": {"max": "10Gi", "storage_class": {"default": "fast"}}},
    {"platform": {"mem_tolerance": 1.1, "gpu_resources": "nvidia.com/gpu", "pod_security": "baseline"}},
    {"projects": {"vision": {"resources.gpu": {"max": 2}, "profile": {"options": ["1xa100"], "required": True}}}},
    {"projects": {"vision": {"affinity": {"namespaces": {"allowed": ["a"]}}}}},
    {"node_selector": {"required": ["zone"], "default": {"zone": "a"}}},
]

PROFILE = {
    "id": "1xa100",
    "name": "One A100",
    "description": "8 cores and an A100",
    "resources": {
        "requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"},
        "limits": {"memory": "64Gi", "nvidia.com/gpu": 1},
    },
    "node_selector": {"gpu": "a100"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    "labels": {"example.org/team": "ml"},
    "image_pull_secrets": ["registry"],
}


@cache
def _get_validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(build_schema(kind))


def _list_errors(kind: str, given: Any) -> list[str]:
    return [error.message for error in _get_validator(kind).iter_errors(given)]


def _iter_examples(kind: str) -> Iterator[tuple[str, Any]]:
    for name, field in build_schema(kind)["properties"].items():
        for example in field.get("examples", ()):
            yield name, example
        for part, inner in field.get("properties", {}).items():
            for example in inner.get("examples", ()):
                yield name, {part: example}


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_legal_when_it_is_published(kind: str) -> None:
    schema = build_schema(kind)

    Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["title"]


def test_every_format_has_a_schema_when_people_write_it_by_hand() -> None:
    assert set(KINDS) >= {"run-file", "profile", "policy", "project", "function", "task", "run", "secret"}


def test_an_unknown_kind_is_an_error_when_it_is_asked_for() -> None:
    with pytest.raises(KeyError):
        build_schema("banana")


@pytest.mark.parametrize("given", RUN_FILES)
def test_a_run_file_is_valid_when_it_can_be_read(given: dict[str, Any]) -> None:
    read_run_file(given)

    assert _list_errors("run-file", given) == []


@pytest.mark.parametrize("given", POLICIES)
def test_a_policy_is_valid_when_it_can_be_read(given: dict[str, Any]) -> None:
    read_policy(given)

    assert _list_errors("policy", given) == []


def test_a_profile_is_valid_when_it_can_be_read() -> None:
    read_profiles([PROFILE])

    assert _list_errors("profile", PROFILE) == []


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("run", RUN),
        ("task", {"kind": "container+job", "spec": {"function": "container://demo/f", "resources": {"cpu": 1}}}),
        (
            "function",
            {
                "kind": "python",
                "name": "f",
                "spec": {"python_version": "PYTHON3_11", "source": {"handler": "main", "code": "def main(): ..."}},
            },
        ),
        ("secret", {"kind": "secret", "name": "s", "spec": {"path": "secret://s"}}),
        ("project", {"kind": "project", "name": "demo", "spec": {"source": "./", "anything": 1}}),
    ],
)
def test_an_entity_is_valid_when_it_can_be_read(kind: str, given: dict[str, Any]) -> None:
    read_entity(kind, given)

    assert _list_errors(kind, given) == []


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("run-file", {"resources": {"memory": "1Gi"}}),
        ("run-file", {"resources": {"cpu": {"request": 1}}}),
        ("run-file", {"kind": "containers"}),
        ("run-file", {"bananas": 1}),
        ("run-file", {"service_type": "clusterip"}),
        ("run-file", {"labels": {"a": "b"}}),
        ("run-file", {"volumes": [{"volume_type": "hostPath", "name": "a", "mount_path": "/a"}]}),
        ("run-file", {"volumes": [{"name": "a", "mount_path": "/a"}]}),
        ("run-file", {"envs": [{"name": "A"}]}),
        ("run-file", {"fs_group": 0}),
        ("profile", {"name": "no id"}),
        ("profile", {"id": "a", "profile": "b"}),
        ("policy", {"resources.mem": {"maximum": 1}}),
        ("policy", {"resources.memory": {"max": 1}}),
        ("policy", {"resources": {"memory": {"max": 1}}}),
        ("policy", {"tolerations": {"required": True}}),
        ("policy", {"platform": {"pod_security": "privileged"}}),
        ("policy", {"projects": {"vision": {"bananas": {}}}}),
        ("run", {"spec": {}}),
        ("run", {"kind": "container+job:run", "spec": {"bananas": 1}}),
    ],
)
def test_a_document_is_invalid_when_it_would_be_refused(kind: str, given: dict[str, Any]) -> None:
    assert _list_errors(kind, given)


@pytest.mark.parametrize(
    ("kind", "read"), [("run-file", read_run_file), ("profile", read_admin_fields), ("run-file", read_run_fields)]
)
def test_an_example_is_readable_when_a_schema_shows_it(kind: str, read: Callable[[Any], object]) -> None:
    beside = {"id", "name", "description", *(IDENTITY if read is read_run_fields else ())}
    examples = [(name, example) for name, example in _iter_examples(kind) if name not in beside]

    assert len(examples) > 10
    for name, example in examples:
        read({name: example})
        assert _list_errors(kind, {"id": "x", name: example} if kind == "profile" else {name: example}) == []


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("run-file", {*USER_FIELDS, *IDENTITY}),
        ("profile", {*ADMIN_FIELDS, "id", "name", "description"} - {"profile"}),
        ("policy", {*RULED, "platform", "projects", "resources", "volumes"}),
    ],
)
def test_every_field_is_in_the_schema_when_it_can_be_written(kind: str, names: set[str]) -> None:
    assert set(build_schema(kind)["properties"]) == names


@pytest.mark.parametrize("name", USER_FIELDS)
def test_a_field_says_what_it_is_when_its_schema_is_read(name: str) -> None:
    assert build_schema("run-file")["properties"][name].get("description")


def test_a_schema_is_ones_own_when_somebody_changes_it() -> None:
    build_schema("run-file")["properties"]["resources"]["properties"].clear()
    build_schema("policy")["properties"].clear()

    assert build_schema("run-file")["properties"]["resources"]["properties"]["cpu"]
    assert build_schema("policy")["properties"]
