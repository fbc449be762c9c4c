import pytest

from runyard.spec.problems import Refused
from runyard.spec.recorded_requests import is_recorded, read_recorded_request, write_recorded_request

DOCUMENT = write_recorded_request(
    run_id="r1",
    project="demo",
    created="2026-11-15T12:00:00+00:00",
    run=("container+job:run", {"task": "container+job://demo/t", "envs": [{"name": "A", "value": "1"}]}),
    task=("container+job", {"function": "container://demo/f:1", "nodeSelector": [{"key": "gpu", "value": "a100"}]}),
    function=("container", {"image": "a:1", "resources": {"mem": "8Gi"}, "parameters": {"x": 1}, "unknown": 2}),
)


def test_layers_come_back_when_a_recorded_request_is_read() -> None:
    run = read_recorded_request(DOCUMENT)
    assert (run.id, run.project, run.kind, run.action) == ("r1", "demo", "container", "job")
    assert run.fields.envs == {"A": "1"}
    assert run.task_layer is not None
    assert run.task_layer.node_selector == {"gpu": "a100"}
    assert run.function_layer is not None
    assert run.function_layer.image == "a:1"


def test_only_what_policies_decide_about_is_written_when_a_request_is_recorded() -> None:
    assert DOCUMENT["function"]["spec"] == {"image": "a:1", "resources": {"mem": "8Gi"}}
    assert "function" not in DOCUMENT["task"]["spec"]


def test_every_problem_is_told_with_its_path_when_a_recorded_request_is_wrong() -> None:
    wrong = {
        **DOCUMENT,
        "id": 7,
        "nope": 1,
        "run": {"kind": "container+job:run", "spec": {"fs_group": 0}},
        "task": {"kind": "x"},
        "function": {"kind": "container", "spec": {"resources": {"mem": "lots"}}},
    }
    with pytest.raises(Refused) as refused:
        read_recorded_request(wrong)
    assert {problem.where for problem in refused.value.problems} == {
        "nope",
        "run.spec.fs_group",
        "task",
        "function.resources.mem",
        "id",
    }


def test_run_file_is_not_taken_for_a_recorded_request_when_it_has_no_run() -> None:
    assert is_recorded(DOCUMENT)
    assert not any(map(is_recorded, (None, "run", {"image": "a:1"}, {"run": "text"})))
