import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from runyard.spec.digitalhub.client_specs import restore_task_spec, shape_function_spec, shape_run_spec, shape_task_spec
from runyard.spec.problems import Refused
from runyard.spec.run_fields import read_run_fields
from tests.unit.spec.digitalhub import sdk_models as sdk

TASK = "container+job://demo/t1"
FUNCTION = "container://demo/box:f1"
RUN_MODELS = {
    "container+run": (sdk.Run13,),
    "python+run": (sdk.Run13,),
    "container+job:run": (sdk.Run14, sdk.Run15),
    "python+serve:run": (sdk.Run14, sdk.Run15),
}
TASK_MODELS = (sdk.Task13, sdk.Task14, sdk.Task15)

REQUIREMENT = {"key": "zone", "operator": "In", "values": ["a"]}
AMOUNTS = st.sampled_from(
    ["1", 2, "500m", "1Gi", 0.5, {"requests": "1"}, {"limits": 2}, {"requests": 1, "limits": "2"}]
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "profile": st.sampled_from(["small", ""]),
    "resources": st.dictionaries(st.sampled_from(["cpu", "mem"]), AMOUNTS)
    | st.sampled_from([{"gpu": 1, "disk": "1Gi"}, {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": 2}}, {}]),
    "nodeSelector": st.sampled_from([{"zone": "a"}, {"zone": 1}, [{"key": "zone", "value": "a"}], {}]),
    "tolerations": st.sampled_from(
        [[{"key": "gpu", "operator": "Exists"}], [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 5}], []]
    ),
    "affinity": st.sampled_from(
        [
            {},
            {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [REQUIREMENT]}]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": {"matchExpressions": [REQUIREMENT]}}
                    ],
                }
            },
            {
                "pod_anti_affinity": {
                    "preferred_during_scheduling_ignored_during_execution": [
                        {
                            "weight": 1,
                            "podAffinityTerm": {
                                "topologyKey": "zone",
                                "labelSelector": {"matchLabels": {"appName": "x"}},
                            },
                        }
                    ]
                }
            },
        ]
    ),
    "volumes": st.sampled_from(
        [
            [],
            [{"volume_type": "empty_dir", "name": "a", "mount_path": "/a", "spec": {"size_limit": 1024}}],
            [{"volumeType": "config_map", "name": "a", "mountPath": "/a", "spec": {"data": {"x": "y"}}}],
            [{"volume_type": "shared_volume", "name": "a", "mount_path": "/a"}],
            [{"volume_type": "persistent_volume_claim", "name": "a", "mount_path": "/a", "spec": {"size": 10}}],
        ]
    ),
    "secrets": st.sampled_from([["a"], [{"name": "b", "mount_path": "/b"}], []]),
    "envs": st.sampled_from([{"A": 1}, {"A": True}, [{"name": "A", "value": 0.5}], [], {}]),
    "run_as_user": st.sampled_from([1000, "1000", 1000.0]),
    "fsGroup": st.sampled_from([1, "2"]),
    "command": st.sampled_from(["sh", ["sh", "-c"], ["sleep", 1]]),
    "args": st.sampled_from([["-c", 1, True, 0.5], []]),
    "replicas": st.sampled_from([0, 1, "2", 3.0]),
    "service_ports": st.sampled_from([[80], ["81"], [{"port": 80}], [{"port": "80", "targetPort": 8080, "name": "a"}]]),
    "service_type": st.sampled_from(["ClusterIP", "NodePort"]),
    "service_name": st.just("svc"),
    "image": st.just("busybox:1.36"),
    "imagePullPolicy": st.sampled_from(["Always", "Never"]),
    "parameters": st.sampled_from([{"x": None}, {}]),
    "timeout": st.sampled_from(["2h", 90]),
    "requirements": st.just(["numpy"]),
    "source": st.sampled_from([{}, {"handler": "h", "code": "x", "lang": "python"}]),
}


def legal_fields() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=FIELDS).filter(is_legal)


def is_legal(fields: dict[str, Any]) -> bool:
    try:
        read_run_fields(fields)
    except Refused:
        return False
    return True


@pytest.mark.parametrize("name", FIELDS)
def test_field_is_drawn_in_legal_forms_when_fields_are_generated(name: str) -> None:
    strategy = FIELDS[name]

    @given(strategy)
    def check(value: Any) -> None:
        read_run_fields({name: value})

    check()


@pytest.mark.parametrize("kind", RUN_MODELS)
@settings(max_examples=50)
@given(fields=legal_fields())
def test_every_sdk_reads_a_run_when_its_fields_are_legal(kind: str, fields: dict[str, Any]) -> None:
    shaped = shape_run_spec(kind, {"task": TASK, "function": FUNCTION, **fields})
    json.dumps(shaped)
    for model in RUN_MODELS[kind]:
        read_strictly(model, shaped)


@pytest.mark.parametrize("kind", ["container+job", "container+serve", "container+deploy", "python+serve", "python+job"])
@settings(max_examples=50)
@given(fields=legal_fields())
def test_every_sdk_reads_a_task_when_its_fields_are_legal(kind: str, fields: dict[str, Any]) -> None:
    shaped = shape_task_spec(kind, {"function": FUNCTION, **fields})
    counting = sdk.ReplicasFromZero if kind == "container+serve" else sdk.ReplicasFromOne
    for model in (*TASK_MODELS, counting):
        read_strictly(model, shaped)


@settings(max_examples=50)
@given(fields=legal_fields())
def test_every_sdk_reads_a_function_when_its_fields_are_legal(fields: dict[str, Any]) -> None:
    read_strictly(sdk.ContainerFunction, shape_function_spec("container", fields))
    python = {"pythonVersion": "PYTHON3_11", "source": {"handler": "h", "base64": "eA=="}, **fields}
    read_strictly(sdk.PythonFunction, shape_function_spec("python", python))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("kind", RUN_MODELS)
@settings(max_examples=50)
@given(fields=st.dictionaries(st.sampled_from([*FIELDS, "instructions", "base_image", "local_execution"]), JSON))
def test_every_sdk_reads_a_run_when_a_client_wrote_anything_in_it(kind: str, fields: dict[str, Any]) -> None:
    shaped = shape_run_spec(kind, {**fields, "task": TASK})
    for model in RUN_MODELS[kind]:
        read_strictly(model, shaped)


@settings(max_examples=50)
@given(fields=legal_fields())
def test_nothing_is_lost_when_an_sdk_sends_a_task_back_as_it_was_shown(fields: dict[str, Any]) -> None:
    stored = {"function": FUNCTION, **fields}
    kind = "container+serve"
    restored = restore_task_spec(kind, stored, shape_task_spec(kind, stored))
    assert {**restored} == {name: value for name, value in fold(stored).items() if name in restored}
    assert shape_task_spec(kind, restored) == shape_task_spec(kind, stored)
    lost = set(fold(stored)) - set(restored)
    assert lost == set()


def test_shown_value_changes_when_an_update_of_a_task_says_another() -> None:
    stored = {
        "function": FUNCTION,
        "resources": {"cpu": 1},
        "secrets": [{"name": "a", "mount_path": "/a"}],
        "args": ["x"],
    }
    written = {"function": FUNCTION, "secrets": ["b"]}
    restored = restore_task_spec("container+job", stored, written)
    assert restored == {"function": FUNCTION, "resources": {"cpu": 1}, "secrets": ["b"]}


def test_withheld_value_changes_when_an_update_of_a_task_says_one() -> None:
    stored = {"function": FUNCTION, "resources": {"cpu": 1}}
    assert restore_task_spec("container+job", stored, {"resources": {"cpu": 2}}) == {"resources": {"cpu": 2}}
    assert restore_task_spec("container+job", stored, {"resources": {}})["resources"] == {}


def test_options_of_a_volume_stay_when_only_what_was_shown_comes_back() -> None:
    claim = {"volume_type": "persistent_volume_claim", "name": "a", "mount_path": "/a"}
    stored = {"volumes": [{**claim, "spec": {"storage_class": "fast"}}]}
    # The SDK leaves out what is empty.
    assert restore_task_spec("container+job", stored, {"volumes": [claim]}) == stored
    other = {"volumes": [{**claim, "spec": {"storage_class": "slow"}}]}
    assert restore_task_spec("container+job", stored, other) == other


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        (shape_run_spec, "hera+pipeline:run"),
        (shape_run_spec, "dbt+run"),
        (shape_run_spec, "strange"),
        (shape_task_spec, "hera+pipeline"),
        (shape_task_spec, "strange"),
        (shape_function_spec, "dbt"),
    ],
)
def test_spec_is_answered_word_for_word_when_the_kind_is_foreign(shape: Any, kind: str) -> None:
    spec = {"camelCase": 1, "resources": {"cpu": {"a": 1}}, "command": ["a", "b"], "volumes": "none"}
    assert shape(kind, spec) == spec


@pytest.mark.parametrize(
    ("kind", "resources", "expected"),
    [
        ("container+job:run", {"cpu": {"requests": 1, "limits": 2}, "disk": "1Gi"}, {"cpu": 1, "disk": "1Gi"}),
        ("container+job:run", {"cpu": 0.5, "memory": "1Gi"}, {"cpu": "0.5", "mem": "1Gi"}),
        ("container+job:run", {"limits": {"memory": "1Gi"}}, {"mem": "1Gi"}),
        ("container+run", {"cpu": 1, "disk": "1Gi"}, {"cpu": {"requests": "1"}}),
        ("container+run", {"mem": {"limits": 5}}, {"mem": {"limits": "5"}}),
    ],
)
def test_amounts_have_the_shape_of_the_release_when_a_run_is_answered(
    kind: str, resources: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert shape_run_spec(kind, {"resources": resources})["resources"] == expected


def test_amounts_are_left_out_when_a_task_is_answered() -> None:
    assert "resources" not in shape_task_spec("container+job", {"resources": {"cpu": 1}})


def test_label_keys_stay_when_the_fields_around_them_are_respelled() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"appName": "x"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    shaped = shape_run_spec("container+job:run", {"affinity": affinity})["affinity"]
    required = shaped["pod_affinity"]["required_during_scheduling_ignored_during_execution"]
    assert required == [{"topology_key": "zone", "label_selector": {"match_labels": {"appName": "x"}}}]


def fold(spec: dict[str, Any]) -> dict[str, Any]:
    names = {"nodeSelector": "node_selector", "fsGroup": "fs_group", "imagePullPolicy": "image_pull_policy"}
    return {names.get(name, name): value for name, value in spec.items()}


def read_strictly(model: type[BaseModel], spec: dict[str, Any]) -> None:
    assert None not in spec.values()
    model.model_validate(spec)
