import copy
import random
import re
from typing import Any

import pytest

from runyard.node.mirror.field_references import quote_as_go
from runyard.node.mirror.translation import (
    DOWNWARD_API,
    MOST_REFERENCES,
    TOKENS,
    Needed,
    TokenSource,
    Untranslatable,
    translate_pod,
)
from runyard.node.offer import Shape
from tests.unit.node.mirror.pods import api_access_volume, local_pod

HOST = "10.1.2.3"
LOCAL: dict[str, Any] = {
    "serviceAccount": "default",
    "nodeSelector": {"disk": "ssd"},
    "affinity": {"podAffinity": {}},
    "tolerations": [{"operator": "Exists"}],
    "schedulerName": "k8s.gpu",
    "priority": 3,
    "priorityClassName": "high",
    "preemptionPolicy": "Never",
    "overhead": {"cpu": "1"},
    "runtimeClassName": "gpu-1x",
    "topologySpreadConstraints": [{}],
    "schedulingGates": [{"name": "g"}],
    "resourceClaims": [{"name": "c"}],
    "readinessGates": [{"conditionType": "example.com/ok"}],
}


def _env(spec: dict[str, Any]) -> dict[str, Any]:
    return {variable["name"]: variable for variable in spec["containers"][0]["env"]}


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def test_spec_has_nothing_of_the_local_cluster_when_translated() -> None:
    container = {
        "name": "main",
        "image": "busybox",
        "resources": {"limits": {"cpu": "1"}, "claims": [{"name": "c"}]},
        "volumeMounts": [
            {"name": "kube-api-access-x1y2z", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
            {"name": "scratch", "mountPath": "/scratch"},
        ],
    }
    pod = local_pod(**LOCAL, containers=[container], volumes=[api_access_volume(), {"name": "scratch", "emptyDir": {}}])
    before = copy.deepcopy(pod)
    translated = translate_pod(pod, host_address=HOST)
    assert translated.spec == {
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "resources": {"limits": {"cpu": "1"}},
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            }
        ],
        "restartPolicy": "Always",
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostname": "train",
    }
    assert translated.needed == ()
    assert pod == before


@pytest.mark.parametrize(
    ("name", "hostname"), [("web.v1", "web-v1"), ("a" * 70, "a" * 63), ("a" * 62 + ".b", "a" * 62)]
)
def test_hostname_is_a_dns_label_when_the_name_is_none(name: str, hostname: str) -> None:
    assert translate_pod(local_pod(metadata={"name": name}), host_address=HOST).spec["hostname"] == hostname


def test_hostname_stays_when_the_user_set_it() -> None:
    assert translate_pod(local_pod(hostname="mine"), host_address=HOST).spec["hostname"] == "mine"


def test_environment_has_the_local_values_when_it_refers_to_fields() -> None:
    env = [
        _field("NAME", "metadata.name"),
        _field("NAMESPACE", "metadata.namespace"),
        _field("UID", "metadata.uid"),
        _field("LABEL", "metadata.labels['app']"),
        _field("NO_LABEL", "metadata.labels['none']"),
        _field("NOTE", "metadata.annotations['example.com/note']"),
        _field("NODE", "spec.nodeName"),
        _field("ACCOUNT", "spec.serviceAccountName"),
        _field("HOST", "status.hostIP"),
        _field("IP", "status.podIP"),
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "PLAIN", "value": "$(NAME)"},
    ]
    pod = local_pod(
        metadata={"annotations": {"example.com/note": "$(NAME) costs $5"}},
        containers=[{"name": "main", "image": "busybox", "env": env}],
    )
    found = _env(translate_pod(pod, host_address=HOST).spec)
    values = {name: variable["value"] for name, variable in found.items() if "value" in variable}
    assert values == {
        "NAME": "train",
        "NAMESPACE": "team",
        "UID": "8d0a8f33-e9f9-434a-b3de-9ae58ac9de76",
        "LABEL": "x",
        "NO_LABEL": "",
        "NOTE": "$$(NAME) costs $$5",
        "NODE": "k8s.gpu",
        "ACCOUNT": "default",
        "HOST": HOST,
        "PLAIN": "$(NAME)",
    }
    assert found["IP"] == env[9]
    assert found["CPU"] == env[10]


def test_downward_volumes_become_files_of_a_generated_map_when_they_show_metadata() -> None:
    amount = {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}}
    volumes = [
        {
            "name": "info",
            "downwardAPI": {
                "defaultMode": 256,
                "items": [
                    {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}, "mode": 292},
                    amount,
                ],
            },
        },
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"secret": {"name": "key"}},
                    {"downwardAPI": {"items": [{"path": "me/name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                ]
            },
        },
    ]
    pod = local_pod(metadata={"labels": {"b": 'say "hi"\n', "a": "1"}}, volumes=volumes)
    translated = translate_pod(pod, host_address=HOST)
    assert translated.generated == {DOWNWARD_API: {"data": {"file-0": 'a="1"\nb="say \\"hi\\"\\n"', "file-1": "train"}}}
    info, everything = translated.spec["volumes"]
    assert info == {
        "name": "info",
        "projected": {
            "defaultMode": 256,
            "sources": [
                {"configMap": {"name": DOWNWARD_API, "items": [{"key": "file-0", "path": "labels", "mode": 292}]}},
                {"downwardAPI": {"items": [amount]}},
            ],
        },
    }
    assert everything["projected"]["sources"] == [
        {"secret": {"name": "key"}},
        {"configMap": {"name": DOWNWARD_API, "items": [{"key": "file-1", "path": "me/name"}]}},
    ]
    assert translated.needed == (Needed("Secret", "key", is_optional=False),)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("\x00\x1b\x7f", '"\\x00\\x1b\\x7f"'),
        ("\a\b\f\n\r\t\v", '"\\a\\b\\f\\n\\r\\t\\v"'),
        ("é – 漢", '"é – 漢"'),
        ("\u00a0\u200b\ufeff\U000e0001", '"\\u00a0\\u200b\\ufeff\\U000e0001"'),
    ],
)
def test_texts_are_quoted_as_go_does_when_a_volume_shows_them(text: str, quoted: str) -> None:
    assert quote_as_go(text) == quoted


def test_everything_referred_to_is_listed_once_when_it_is_named_in_several_places() -> None:
    spec: dict[str, Any] = {
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [
            {"name": "a", "configMap": {"name": "both", "optional": True}},
            {"name": "b", "secret": {"secretName": "volume", "optional": True}},
            {"name": "c", "projected": {"sources": [{"configMap": {"name": "projected"}}]}},
        ],
        "initContainers": [
            {"name": "i", "envFrom": [{"configMapRef": {"name": "all"}}, {"secretRef": {"name": "all"}}]}
        ],
        "containers": [
            {
                "name": "main",
                "env": [
                    {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "both", "key": "k"}}},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "maybe", "key": "k", "optional": True}}},
                ],
            }
        ],
    }
    assert translate_pod(local_pod(**spec), host_address=HOST).needed == (
        Needed("ConfigMap", "all", is_optional=False),
        Needed("ConfigMap", "both", is_optional=False),
        Needed("ConfigMap", "projected", is_optional=False),
        Needed("Secret", "all", is_optional=False),
        Needed("Secret", "maybe", is_optional=True),
        Needed("Secret", "registry", is_optional=True),
        Needed("Secret", "volume", is_optional=True),
    )


@pytest.mark.parametrize(
    ("volume", "reason", "words"),
    [
        ({"hostPath": {"path": "/"}}, "VolumeNotSupported", "spec.volumes[0]: a pod of this node cannot have"),
        ({"persistentVolumeClaim": {"claimName": "d"}}, "VolumeNotSupported", "type persistentVolumeClaim"),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
            "ServiceAccountTokenNotAllowed",
            "spec.volumes[0].projected.sources[0].serviceAccountToken",
        ),
        ({"projected": {"sources": [{"clusterTrustBundle": {}}]}}, "VolumeNotSupported", "clusterTrustBundle"),
        (
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "spec.magic"}}]}},
            "UnknownField",
            "spec.volumes[0].downwardAPI.items[0].fieldRef: the field spec.magic",
        ),
    ],
)
def test_pod_is_refused_in_words_when_a_volume_is_the_local_clusters(
    volume: dict[str, Any], reason: str, words: str
) -> None:
    with pytest.raises(Untranslatable, match=re.escape(words)) as refusal:
        translate_pod(local_pod(volumes=[{"name": "v", **volume}]), host_address=HOST)
    assert refusal.value.reason == reason


def test_tokens_become_files_of_a_generated_secret_when_they_are_allowed() -> None:
    sources = [
        {"serviceAccountToken": {"path": "vault/token", "audience": "vault", "expirationSeconds": 7200}},
        {"serviceAccountToken": {"path": "token"}},
    ]
    pod = local_pod(volumes=[{"name": "t", "projected": {"sources": sources}}])
    translated = translate_pod(pod, host_address=HOST, allows_tokens=True)
    assert translated.spec["volumes"][0]["projected"]["sources"] == [
        {"secret": {"name": TOKENS, "items": [{"key": "token-0", "path": "vault/token"}]}},
        {"secret": {"name": TOKENS, "items": [{"key": "token-1", "path": "token"}]}},
    ]
    assert translated.tokens == (
        TokenSource(key="token-0", audience="vault", expiration_seconds=7200),
        TokenSource(key="token-1", audience="", expiration_seconds=3600),
    )
    assert translated.needed == ()


def test_pod_is_refused_when_it_refers_to_too_many_objects() -> None:
    volumes = [{"name": f"v{n}", "configMap": {"name": f"c{n}"}} for n in range(MOST_REFERENCES + 1)]
    with pytest.raises(Untranslatable, match="101 ConfigMaps and Secrets; allowed: 100"):
        translate_pod(local_pod(volumes=volumes), host_address=HOST)


def test_workload_has_the_pods_identity_when_it_is_made() -> None:
    pod = local_pod(metadata={"annotations": {"k8s.gpu/x": "ours", "example.com/a": "theirs"}})
    translated = translate_pod(pod, host_address=HOST)
    shape = Shape("gpu-1x", "nvidia", {})
    workload = translated.to_workload(pod, shape=shape, config_maps={"c": {}}, secrets={"s": {}})
    assert (workload.uid, workload.namespace, workload.name) == (pod["metadata"]["uid"], "team", "train")
    assert workload.annotations == {"example.com/a": "theirs"}
    assert (workload.config_maps, workload.secrets, workload.shape) == ({"c": {}}, {"s": {}}, shape)


def test_translation_never_keeps_a_local_field_when_pods_are_generated() -> None:
    choose = random.Random(7)
    for _ in range(200):
        fields = {name: value for name, value in LOCAL.items() if choose.random() < 0.5}
        volumes: list[dict[str, Any]] = [
            volume
            for volume in (
                api_access_volume(),
                {"name": "m", "configMap": {"name": "m"}},
                {"name": "d", "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                {"name": "e", "emptyDir": {}},
            )
            if choose.random() < 0.5
        ]
        pod = local_pod(**fields, volumes=volumes)
        spec = translate_pod(pod, host_address=HOST).spec
        assert not set(spec) & (set(LOCAL) | {"nodeName", "serviceAccountName"})
        assert [volume["name"] for volume in spec["volumes"]] == [
            volume["name"] for volume in volumes if not str(volume["name"]).startswith("kube-api-access-")
        ]
        assert "serviceAccountToken" not in str(spec["volumes"])
