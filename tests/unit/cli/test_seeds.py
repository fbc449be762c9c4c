"""Every snippet of the texts that Runyard began with, as text, through the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.conftest import Call
from tests.unit.cli.snippets import PROFILES, SECRETS, list_flattened, list_snippets, read_snippet

Objects = dict[str, dict[str, Any]]


def get_pod(objects: Objects) -> dict[str, Any]:
    pod: dict[str, Any] = objects["Job"]["spec"]["template"]["spec"]
    return pod


def resources(**sides: dict[str, str]) -> Callable[[Objects], bool]:
    return lambda objects: get_pod(objects)["containers"][0]["resources"] == sides


def context(**ids: int) -> Callable[[Objects], bool]:
    return lambda objects: ids.items() <= get_pod(objects)["securityContext"].items()


def claim(name: str, *, path: str, size: str) -> Callable[[Objects], bool]:
    def check(objects: Objects) -> bool:
        spec = objects["PersistentVolumeClaim"]["spec"]
        (mount,) = get_pod(objects)["containers"][0]["volumeMounts"]
        (volume,) = get_pod(objects)["volumes"]
        return bool(
            spec["resources"]["requests"]["storage"] == size
            and spec["accessModes"] == ["ReadWriteOnce"]
            and mount["mountPath"] == path
            and volume["persistentVolumeClaim"]["claimName"] == objects["PersistentVolumeClaim"]["metadata"]["name"]
            and objects["PersistentVolumeClaim"]["metadata"]["labels"]["runyard.io/volume"] == name
        )

    return check


def variables(**expected: str) -> Callable[[Objects], bool]:
    def check(objects: Objects) -> bool:
        given = {entry["name"]: entry.get("value") for entry in get_pod(objects)["containers"][0]["env"]}
        return expected.items() <= given.items()

    return check


def secrets(*names: str) -> Callable[[Objects], bool]:
    def check(objects: Objects) -> bool:
        entries = [entry for entry in get_pod(objects)["containers"][0]["env"] if "valueFrom" in entry]
        references = [entry["valueFrom"]["secretKeyRef"]["name"] for entry in entries]
        own = objects["Secret"]["metadata"]["name"]
        return {entry["name"] for entry in entries} == set(names) and set(references) == {own}

    return check


def disk(size: str) -> Callable[[Objects], bool]:
    def check(objects: Objects) -> bool:
        (volume,), (mount,) = get_pod(objects)["volumes"], get_pod(objects)["containers"][0]["volumeMounts"]
        template = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
        return bool(mount["mountPath"] == "/shared" and template["resources"]["requests"]["storage"] == size)

    return check


def all_of(*checks: Callable[[Objects], bool]) -> Callable[[Objects], bool]:
    return lambda objects: all(check(objects) for check in checks)


GPU = {"nvidia.com/gpu": "1"}
MEMORY = {"requests": {"memory": "32Gi"}, "limits": {"memory": "37795712205"}}
WHOLE = resources(requests={"cpu": "8", "memory": "32Gi"} | GPU, limits={"memory": "37795712205"} | GPU)

EXPECTED: dict[str, Callable[[Objects], bool]] = {
    "000-node-selector.yaml": lambda objects: get_pod(objects)["nodeSelector"] == {"selectorKey": "selectValue"},
    "000-volumes.yaml": claim("my-pvc", path="/data", size="10Gi"),
    "000-cpu.yaml": resources(requests={"cpu": "10"}, limits={"cpu": "12"}),
    "000-mem.yaml": resources(requests={"memory": "32Gi"}, limits={"memory": "64Gi"}),
    "000-gpu.yaml": resources(requests=GPU, limits=GPU),
    "000-secrets.yaml": secrets("my-secret-key"),
    "000-envs.yaml": variables(ENV1="VALU123123", ENV2="VALU123123"),
    "000-fs-group.yaml": context(fsGroup=1000),
    "000-run-as-user.yaml": context(runAsUser=1000),
    "000-run-as-group.yaml": context(runAsGroup=1000),
    "000-resources.yaml": WHOLE,
    "001-resources.yaml": WHOLE,
    "002-resources.yaml": all_of(WHOLE, disk("10Gi")),
    "002-run.py": all_of(
        context(fsGroup=8877),
        resources(requests={"memory": "32Gi", "cpu": "6"}, limits={"memory": "37795712205"}),
        claim("volume-deforestation", path="/app/files", size="350Gi"),
    ),
    "002-profile.py": all_of(
        claim("train-volume", path="/local-data", size="10Gi"),
        lambda objects: get_pod(objects)["nodeSelector"] == {"gpu": "a100"},
        resources(requests={"memory": "40Gi"} | GPU, limits={"memory": "44Gi"} | GPU),
    ),
    "002-volumes.yaml": claim("my-pvc", path="/data", size="10Gi"),
    "002-volumes.py": claim("my-pvc", path="/data", size="10Gi"),
    "002-cpu.yaml": resources(requests={"cpu": "10"}),
    "002-cpu.py": resources(requests={"cpu": "10"}),
    "002-mem.yaml": resources(**MEMORY),
    "002-mem.py": resources(**MEMORY),
    "002-gpu.yaml": resources(requests=GPU, limits=GPU),
    "002-gpu.py": resources(requests=GPU, limits=GPU),
    "002-disk.yaml": disk("10Gi"),
    "002-disk.py": disk("10Gi"),
    "002-secrets.yaml": secrets("my-secret-key"),
    "002-secrets.py": secrets("CDSETOOL_ESA_USER", "CDSETOOL_ESA_PASSWORD"),
    "002-envs.yaml": variables(ENV1="VALU123123", ENV2="VALU123123"),
    "002-envs.py": variables(HF_HOME="/local-data/huggingface", TRANSFORMERS_CACHE="/local-data/huggingface"),
    "002-fs-group.yaml": context(fsGroup=1000),
    "002-fs-group.py": context(fsGroup=8877),
    "002-run-as-user.yaml": context(runAsUser=1000),
    "002-run-as-user.py": context(runAsUser=1000),
    "002-run-as-group.yaml": context(runAsGroup=1000),
    "002-run-as-group.py": context(runAsGroup=1000),
}


def test_every_snippet_has_an_expectation_when_one_is_added() -> None:
    assert sorted(EXPECTED) == list_snippets()


@pytest.mark.parametrize("name", list_snippets())
def test_snippet_becomes_what_it_says_when_pasted(call: Call, tmp_path: Path, name: str) -> None:
    (tmp_path / "profiles.yaml").write_text(PROFILES)
    known = [word for secret in SECRETS for word in ("--secret", secret)]
    options = ("--image", "busybox:1.36", "--profiles", tmp_path / "profiles.yaml", *known)
    called = call("render", "-f", "-", *options, stdin=read_snippet(name))
    assert called.code == 0, called.err
    objects = {item["kind"]: item for item in yaml.safe_load_all(called.out)}
    assert EXPECTED[name](objects), called.out


@pytest.mark.parametrize("name", ["000-volumes.yaml", "002-volumes.yaml"])
def test_line_of_every_comma_is_named_when_quoted_values_end_with_one(call: Call, name: str) -> None:
    text = read_snippet(name)
    called = call("render", "-f", "-", "--image", "busybox:1.36", stdin=text)
    warned = [line.split(":")[1] for line in called.err.splitlines() if "the comma after the quoted value" in line]
    lines = text.decode().splitlines()
    assert warned == [str(number) for number, line in enumerate(lines, start=1) if line.endswith('",')]


LOST = {
    "002-resources.yaml": ["cpu", "mem", "gpu", "disk"],
    "002-cpu.yaml": ["cpu"],
    "002-mem.yaml": ["mem"],
    "002-gpu.yaml": ["gpu"],
    "002-disk.yaml": ["disk"],
}


@pytest.mark.parametrize("name", sorted(LOST))
def test_home_of_every_field_is_named_when_the_indentation_is_lost(call: Call, name: str) -> None:
    called = call("render", "-f", "-", "--image", "busybox:1.36", stdin=read_snippet(f"flattened/{name}"))
    assert (called.code, called.out) == (1, "")
    for number, field in enumerate(LOST[name], start=2):
        (line,) = [line for line in called.err.splitlines() if f"`{field}` belongs under `resources`" in line]
        assert line.startswith(f"<stdin>:{number}:")


@pytest.mark.parametrize("name", ["002-volumes.yaml", "002-envs.yaml"])
def test_lost_indentation_is_named_when_a_list_lost_it(call: Call, name: str) -> None:
    called = call("render", "-f", "-", "--image", "busybox:1.36", stdin=read_snippet(f"flattened/{name}"))
    assert (called.code, called.out) == (1, "")
    assert "indentation" in called.err


@pytest.mark.parametrize("name", sorted({*list_flattened()} - {*LOST, "002-volumes.yaml", "002-envs.yaml"}))
def test_snippet_becomes_what_it_says_when_it_had_no_indentation_to_lose(call: Call, name: str) -> None:
    options = ("--image", "busybox:1.36", "--secret", "my-secret-key")
    called = call("render", "-f", "-", *options, stdin=read_snippet(f"flattened/{name}"))
    assert called.code == 0, called.err
    objects = {item["kind"]: item for item in yaml.safe_load_all(called.out)}
    assert EXPECTED[name](objects)
