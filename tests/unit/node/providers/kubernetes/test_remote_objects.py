import pytest

from runyard.kube.resources import CONFIG_MAPS, SECRETS
from runyard.node.offer import Shape
from runyard.node.providers.kubernetes.remote_objects import check_node_label, copy_name, iter_copies, render_pod
from runyard.node.providers.provider import Workload

CONTENTS = "k8s.gpu/contents"
UID = "8d0a8f33-e9f9-434a-b3de-9ae58ac9de76"


def _workload(**fields: object) -> Workload:
    given = {
        "uid": UID,
        "namespace": "team",
        "name": "train",
        "shape": Shape("gpu-1x", "nvidia", {}, remote_class="nvidia"),
        "labels": {"app": "x", "k8s.gpu/node": "forged", "k8s.gpu/other": "forged"},
        "annotations": {"note": "n", "k8s.gpu/name": "forged"},
        "spec": {"containers": [{"name": "main"}]},
        **fields,
    }
    return Workload(**given)  # type: ignore[arg-type]


def test_identity_is_ours_when_the_user_sets_our_labels() -> None:
    pod = render_pod(_workload(), node="k8s.gpu")
    assert pod["metadata"] == {
        "name": f"pod-{UID}",
        "labels": {"app": "x", "k8s.gpu/node": "k8s.gpu", "k8s.gpu/uid": UID, "k8s.gpu/namespace": "team"},
        "annotations": {
            "note": "n",
            "k8s.gpu/name": "train",
            "k8s.gpu/contents": pod["metadata"]["annotations"][CONTENTS],
        },
    }
    assert pod["spec"]["runtimeClassName"] == "nvidia"


def test_digest_changes_when_the_content_of_a_copy_does() -> None:
    texts = [{"c": {"data": {"a": text}}} for text in ("1", "1", "2")]
    digests = [render_pod(_workload(config_maps=maps), node="n")["metadata"]["annotations"][CONTENTS] for maps in texts]
    assert digests[0] == digests[1] != digests[2]


def test_references_name_the_copies_when_the_pod_is_rendered() -> None:
    spec = {
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
        "containers": [{"name": "main", "envFrom": [{"secretRef": {"name": "settings", "optional": True}}]}],
    }
    workload = _workload(spec=spec, config_maps={"settings": {"data": {"a": "1"}}}, secrets={"registry": {}})
    pod = render_pod(workload, node="n")
    as_map, as_secret = copy_name(UID, "ConfigMap", "settings"), copy_name(UID, "Secret", "settings")
    assert as_map != as_secret
    assert pod["spec"]["volumes"][0]["configMap"]["name"] == as_map
    assert pod["spec"]["containers"][0]["envFrom"][0]["secretRef"] == {"name": as_secret, "optional": True}
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    copies = {(resource.kind, body["metadata"]["name"]): body for resource, body in iter_copies(workload, node="n")}
    assert copies.keys() == {("ConfigMap", as_map), ("Secret", pod["spec"]["imagePullSecrets"][0]["name"])}
    assert copies["ConfigMap", as_map]["data"] == {"a": "1"}
    assert copies["ConfigMap", as_map]["metadata"]["labels"]["k8s.gpu/uid"] == UID


def test_copy_is_a_plain_secret_when_controllers_act_on_its_type() -> None:
    secrets = {
        "token": {"type": "kubernetes.io/service-account-token", "data": {"token": "eA=="}},
        "tls": {"type": "kubernetes.io/tls", "data": {}},
    }
    kinds = [(resource, body["type"]) for resource, body in iter_copies(_workload(secrets=secrets), node="n")]
    assert kinds == [(SECRETS, "Opaque"), (SECRETS, "kubernetes.io/tls")]


def test_map_keeps_bytes_when_it_has_some() -> None:
    (resource, body), *_ = iter_copies(_workload(config_maps={"b": {"binaryData": {"x": "AAE="}}}), node="n")
    assert (resource, body["binaryData"], "data" in body) == (CONFIG_MAPS, {"x": "AAE="}, False)


@pytest.mark.parametrize("node", ["", "a" * 64, "a b", "-a"])
def test_node_is_refused_when_it_cannot_be_a_label(node: str) -> None:
    with pytest.raises(ValueError, match="cannot be a label at the provider"):
        check_node_label(node)


def test_uid_is_refused_when_it_could_name_something_else() -> None:
    with pytest.raises(ValueError, match="uid of a pod"):
        render_pod(_workload(uid="../x"), node="n")
