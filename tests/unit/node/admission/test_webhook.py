import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import given

from runyard.node.admission.filling import fill_pod, plan_fillings
from runyard.node.admission.webhook import MOST_BODY_BYTES, MOST_VALUES, BadReview, render_patch, review
from tests.unit.node.admission.pods import ONE, Object, container, generated_pods, pod

SHAPES = {ONE.name: ONE}


def send(given_pod: Any, scheduler_name: str | None = "k8s.gpu", **request: Any) -> Object:
    asked = {
        "uid": "705ab4f5",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": given_pod,
        **request,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    answer = json.loads(review(json.dumps(body).encode(), SHAPES, scheduler_name=scheduler_name))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Object = answer["response"]
    assert (response.pop("uid"), response.pop("allowed")) == ("705ab4f5", True)
    return response


def patch_of(response: Object) -> list[Object]:
    assert response["patchType"] == "JSONPatch"
    patch: list[Object] = json.loads(base64.b64decode(response["patch"]))
    return patch


def test_pod_is_filled_when_its_class_is_the_nodes() -> None:
    given_pod = pod(container("a", gpu=1), init=[{"name": "i"}], runtimeClassName=ONE.name)
    whole = {"cpu": "8000m", "memory": "32861620Ki"}
    assert patch_of(send(given_pod)) == [
        {"op": "add", "path": "/spec/schedulerName", "value": "k8s.gpu"},
        {"op": "add", "path": "/spec/containers/0/resources", "value": {"limits": {"nvidia.com/gpu": 1, **whole}}},
        {"op": "add", "path": "/spec/initContainers/0/resources", "value": {"limits": whole}},
    ]


@given(given_pod=generated_pods())
def test_patch_is_the_filling_when_it_is_applied(given_pod: Object) -> None:
    fillings = plan_fillings(given_pod, ONE)
    patched = copy.deepcopy(given_pod)
    for operation in render_patch(given_pod, fillings, scheduler_name=None):
        _, spec, list_name, index, last = operation["path"].split("/")
        patched[spec][list_name][int(index)][last] = operation["value"]
    assert patched == fill_pod(given_pod, fillings)


def test_only_the_scheduler_is_set_when_the_pod_states_everything() -> None:
    given_pod = pod(container("a", gpu=1, cpu=1, memory="1Gi"), runtimeClassName=ONE.name)
    assert [each["path"] for each in patch_of(send(given_pod))] == ["/spec/schedulerName"]
    assert patch_of(send(given_pod, scheduler_name=None)) == []


@pytest.mark.parametrize(
    ("given_pod", "request_fields"),
    [
        (pod(container()), {}),
        (pod(container(), runtimeClassName="runc"), {}),
        (pod(container(), runtimeClassName=["a"]), {}),
        (None, {}),
        ([], {}),
        (pod(container(), runtimeClassName=ONE.name), {"operation": "UPDATE"}),
        (pod(container(), runtimeClassName=ONE.name), {"subResource": "status"}),
        (pod(container(), runtimeClassName=ONE.name), {"resource": {"group": "apps", "resource": "deployments"}}),
    ],
)
def test_nothing_is_changed_when_it_is_no_new_pod_of_the_node(given_pod: Any, request_fields: Object) -> None:
    assert send(given_pod, **request_fields) == {}


def test_pod_is_let_through_with_a_warning_when_it_cannot_be_read() -> None:
    response = send(pod(container(cpu="a lot"), runtimeClassName=ONE.name))
    assert "patch" not in response
    assert "not filled in" in response["warnings"][0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"kind": "AdmissionReview", "kind": "AdmissionReview"}', "not JSON"),
        (b"[]", "not an AdmissionReview"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}', "not of admission.k8s.io/v1"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}', "no request"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {}}', "request.uid"),
        (b" " * (MOST_BODY_BYTES + 1), "bytes; allowed"),
        (b"[" + b"1," * MOST_VALUES + b"1]", "values"),
    ],
)
def test_review_is_refused_when_the_body_is_wrong_or_too_large(body: bytes, words: str) -> None:
    with pytest.raises(BadReview, match=words):
        review(body, SHAPES, scheduler_name="k8s.gpu")
