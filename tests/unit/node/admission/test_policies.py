from typing import Any

import pytest

from runyard.node.admission.policies import (
    check_node_name,
    render_binding_policy,
    render_filling_policy,
    render_preemption_policy,
    render_webhook_configuration,
)

AGENT = "system:serviceaccount:kube-system:runyard-node"


def test_filling_policy_is_bound_to_the_classes_of_the_node_when_it_is_rendered() -> None:
    policy, binding = render_filling_policy("k8s.gpu", scheduler_name="k8s.gpu")
    assert policy["apiVersion"] == binding["apiVersion"] == "admissionregistration.k8s.io/v1"
    assert policy["spec"]["paramKind"] == {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
    assert policy["spec"]["failurePolicy"] == "Ignore"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["paramRef"]["selector"] == {"matchLabels": {"k8s.gpu": "k8s.gpu"}}
    older, _ = render_filling_policy("k8s.gpu", version="v1beta1", scheduler_name="k8s.gpu")
    assert older == policy | {"apiVersion": "admissionregistration.k8s.io/v1beta1"}


def test_scheduler_is_left_when_no_name_is_given() -> None:
    with_name, _ = render_filling_policy("k8s.gpu", scheduler_name="k8s.gpu")
    without, _ = render_filling_policy("k8s.gpu", scheduler_name=None)
    assert with_name["spec"]["mutations"][1:] == without["spec"]["mutations"]
    assert "schedulerName" not in str(without)


def test_binding_policy_names_node_and_user_when_it_is_rendered() -> None:
    policy, binding = render_binding_policy("gpu-2", binder=AGENT)
    validation, changes = policy["spec"]["validations"]
    assert "resize" in changes["expression"]
    assert f"request.userInfo.username == '{AGENT}'" in validation["expression"]
    assert validation["expression"].endswith("!= 'gpu-2'")
    assert binding["spec"] == {"policyName": "gpu-2-binding", "validationActions": ["Deny"]}


def test_preemption_policy_concerns_the_default_scheduler_and_pods_of_the_node_when_it_is_rendered() -> None:
    policy, binding = render_preemption_policy("gpu-2")
    conditions = [one["expression"] for one in policy["spec"]["matchConditions"]]
    assert conditions[0] == "request.userInfo.username == 'system:kube-scheduler'"
    assert conditions[1].endswith("== 'gpu-2'")
    assert policy["spec"]["failurePolicy"] == "Ignore"
    assert binding["spec"] == {"policyName": "gpu-2-preemption", "validationActions": ["Deny"]}


@pytest.mark.parametrize("name", ["", "a'b", 'a"b', "A", "a\\b", "a" * 64, "a b", "a\n", "ä"])
def test_name_is_refused_when_it_cannot_be_quoted_into_cel(name: str) -> None:
    assert check_node_name(name)
    renderers: list[Any] = [
        lambda: render_filling_policy(name, scheduler_name="k8s.gpu"),
        lambda: render_filling_policy("k8s.gpu", scheduler_name=name),
        lambda: render_binding_policy(name, binder=AGENT),
        lambda: render_preemption_policy(name),
        lambda: render_webhook_configuration(name, ca_certificate=b"x", url="https://agent"),
    ]
    for render in renderers:
        with pytest.raises(ValueError, match="node name"):
            render()


@pytest.mark.parametrize("user", ["", "a'b", "a\\b", "a b", "a\n", "'", "x" * 254])
def test_user_is_refused_when_it_cannot_be_quoted_into_cel(user: str) -> None:
    with pytest.raises(ValueError, match="not a user name"):
        render_binding_policy("k8s.gpu", binder=user)


def test_webhook_spares_its_own_namespace_when_it_is_a_service() -> None:
    (webhook,) = render_webhook_configuration("k8s.gpu", ca_certificate=b"pem", service=("gpu", "agent"), port=9443)[
        "webhooks"
    ]
    assert webhook["clientConfig"] == {
        "service": {"namespace": "gpu", "name": "agent", "port": 9443, "path": "/admission"},
        "caBundle": "cGVt",
    }
    assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == ["gpu", "kube-system"]
    assert webhook["failurePolicy"] == "Ignore"
    with pytest.raises(ValueError, match="either `service` or `url`"):
        render_webhook_configuration("k8s.gpu", ca_certificate=b"pem")
