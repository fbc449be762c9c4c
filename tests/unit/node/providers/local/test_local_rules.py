"""What the local provider refuses, and how it resolves environments and volumes."""

import base64
from pathlib import Path
from typing import Any

import pytest

from runyard.node.offer import Shape
from runyard.node.providers.local.environment import container_environment, expand
from runyard.node.providers.local.rules import check_workload
from runyard.node.providers.local.volume_files import VolumeFile, volume_contents, write_volume
from runyard.node.providers.provider import ProviderRefused, Workload


def workload(*, config_maps: Any = None, secrets: Any = None, **spec: Any) -> Workload:
    return Workload(
        uid="8d0a8f33-e9f9-434a-b3de-9ae58ac9de76",
        namespace="default",
        name="trial",
        shape=Shape(name="small", handler="small", limits={}),
        labels={},
        annotations={},
        spec={"containers": [{"name": "main", "image": "any", "command": ["true"]}], **spec},
        config_maps=config_maps or {},
        secrets=secrets or {},
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"containers": [{"name": "main", "image": "i"}]}, r"spec\.containers\[0\]\.command is missing: there are no"),
        ({"initContainers": [{"name": "i"}]}, r"spec\.initContainers\[0\]\.command is missing"),
        (
            {"initContainers": [{"name": "i", "command": ["x"], "restartPolicy": "Always"}]},
            r"spec\.initContainers\[0\]\.restartPolicy: sidecars and restart rules of single containers are not run",
        ),
        (
            {"containers": [{"name": "m", "command": ["x"], "livenessProbe": {"exec": {}}}]},
            r"spec\.containers\[0\]\.livenessProbe: probes are not run",
        ),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, r"spec\.volumes\[0\]\.hostPath: allowed are"),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}]}}]},
            r"projected\.sources\[0\]\.serviceAccountToken",
        ),
        ({"securityContext": {"runAsUser": 12345}}, r"spec\.securityContext\.runAsUser is 12345"),
    ],
)
def test_pod_is_refused_in_words_when_a_field_is_not_supported(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(ProviderRefused, match=words):
        check_workload(workload(**spec))


def test_every_problem_is_named_when_there_are_several() -> None:
    with pytest.raises(ProviderRefused) as caught:
        check_workload(workload(containers=[{"name": "m", "tty": True}], hostAliases=[{}]))
    assert str(caught.value).count("; ") == 2


def test_environment_is_resolved_when_it_comes_from_everywhere() -> None:
    pod = workload(
        config_maps={"c": {"data": {"a": "1", "b": "2"}}},
        secrets={"s": {"data": {"token": base64.b64encode(b"top").decode()}}},
    )
    container = {
        "name": "main",
        "envFrom": [
            {"prefix": "C_", "configMapRef": {"name": "c"}},
            {"secretRef": {"name": "absent", "optional": True}},
        ],
        "env": [
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}},
            {"name": "LATER", "value": "$(TOKEN)-$(C_a)-$(NONE)-$$(TOKEN)"},
            {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "z", "optional": True}}},
        ],
    }
    assert container_environment(pod, container, base={"PATH": "/bin"}) == {
        "PATH": "/bin",
        "C_a": "1",
        "C_b": "2",
        "TOKEN": "top",
        "LATER": "top-1-$(NONE)-$(TOKEN)",
    }


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"envFrom": [{"secretRef": {"name": "s"}}]}, "secret s, which does not exist"),
        (
            {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]},
            "key k of configMap c, which is missing",
        ),
    ],
)
def test_container_is_refused_when_what_it_needs_is_missing(container: dict[str, Any], words: str) -> None:
    with pytest.raises(ProviderRefused, match=words) as caught:
        container_environment(workload(), {"name": "main", **container}, base={})
    assert caught.value.reason == "CreateContainerConfigError"


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(B) $A $", "$(B) $A $"),
        ("$(A", "$(A"),
        ("$(A $(A)", "$(A $(A)"),
    ],
)
def test_references_expand_as_in_kubernetes_when_in_a_command(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


def test_volume_has_the_items_and_modes_when_projected() -> None:
    pod = workload(
        config_maps={"c": {"data": {"a": "1"}, "binaryData": {"raw": base64.b64encode(b"\0\xff").decode()}}},
        secrets={"s": {"data": {"k": base64.b64encode(b"x").decode()}}},
    )
    volume = {
        "name": "v",
        "projected": {
            "defaultMode": 0o400,
            "sources": [
                {"configMap": {"name": "c"}},
                {"secret": {"name": "s", "items": [{"key": "k", "path": "deep/k", "mode": 0o600}]}},
            ],
        },
    }
    assert volume_contents(pod, volume) == {
        "a": VolumeFile(b"1", 0o400),
        "raw": VolumeFile(b"\0\xff", 0o400),
        "deep/k": VolumeFile(b"x", 0o600),
    }
    assert volume_contents(pod, {"name": "e", "emptyDir": {}}) is None


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "", "a/../../b"])
def test_volume_is_refused_when_an_item_leaves_it(path: str) -> None:
    volume = {"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": path}]}}
    with pytest.raises(ProviderRefused, match="not a path inside of a volume"):
        volume_contents(workload(config_maps={"c": {"data": {"a": "1"}}}), volume)


def test_folder_holds_exactly_the_files_when_a_volume_is_written_again(tmp_path: Path) -> None:
    write_volume(tmp_path, {"a": VolumeFile(b"1", 0o640), "deep/b": VolumeFile(b"2", 0o644)})
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    unchanged = (tmp_path / "a").stat().st_ino
    write_volume(tmp_path, {"a": VolumeFile(b"1", 0o640), "c": VolumeFile(b"3", 0o644)})
    assert (tmp_path / "a").stat().st_ino == unchanged
    files = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {"a": b"1", "c": b"3"}
