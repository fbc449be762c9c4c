from copy import deepcopy
from typing import Any

import pytest

from runyard.spec.config_maps import MOST_INLINE_BYTES
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.volumes import VOLUME_TYPES, Volume, read_mount_path, read_volumes
from tests.unit.spec.refusals import find_problem, find_problems

SIZE = Quantity.parse("10Gi")


def _volume(kind: str = "empty_dir", name: str = "v", path: str = "/v", spec: Any = None) -> dict[str, Any]:
    return {"volume_type": kind, "name": name, "mount_path": path, "spec": spec}


def _read(*volumes: dict[str, Any]) -> tuple[Volume, ...]:
    return read_volumes(list(volumes))


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("persistent_volume_claim", {}, {}),
        ("persistent_volume_claim", {"size": "10Gi"}, {"size": SIZE}),
        ("persistent_volume_claim", {"size": 10737418240}, {"size": SIZE}),
        ("persistent_volume_claim", {"storage_class": "fast"}, {"storage_class": "fast"}),
        ("persistent_volume_claim", {"storageClass": "fast"}, {"storage_class": "fast"}),
        ("persistent_volume_claim", {"claim_name": "data"}, {"claim_name": "data"}),
        ("persistent_volume_claim", {"claimName": "data"}, {"claim_name": "data"}),
        ("persistent_volume_claim", {"lifetime": "run"}, {"lifetime": "run"}),
        ("persistent_volume_claim", {"lifetime": "keep"}, {"lifetime": "keep"}),
        ("persistent_volume_claim", {"lifetime": "7d"}, {"lifetime": 7 * 86400}),
        ("persistent_volume_claim", {"lifetime": 90}, {"lifetime": 90}),
        ("config_map", {"data": {"a.toml": "x = 1\n"}}, {"data": {"a.toml": "x = 1\n"}}),
        ("config_map", {"data": {"n": 3}}, {"data": {"n": "3"}}),
        ("config_map", {"name": "settings"}, {"config_map": "settings"}),
        ("empty_dir", {}, {}),
        ("empty_dir", {"size_limit": "10Gi"}, {"size": SIZE}),
        ("empty_dir", {"sizeLimit": "10Gi"}, {"size": SIZE}),
        ("empty_dir", {"size": "10Gi"}, {"size": SIZE}),
        ("empty_dir", {"size_limit": "10Gi", "medium": "Memory"}, {"size": SIZE, "medium": "Memory"}),
        ("empty_dir", {"medium": ""}, {}),
        ("ephemeral", {"size": "10Gi"}, {"size": SIZE}),
        ("ephemeral", {"size": "10Gi", "storageClass": "fast"}, {"size": SIZE, "storage_class": "fast"}),
        ("shared_volume", {}, {}),
        ("shared_volume", {"claim_name": "data"}, {"claim_name": "data"}),
        ("shared_volume", {"claimName": "data"}, {"claim_name": "data"}),
        ("shared_volume", {"size": "10Gi"}, {"size": SIZE}),
        ("image", {"image": "registry.example.org/model:1"}, {"image": "registry.example.org/model:1"}),
    ],
)
def test_a_volume_is_read_when_its_spec_is_spelt_in_any_way(
    kind: Any, spec: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert _read(_volume(kind, spec=spec)) == (Volume(name="v", type=kind, mount_path="/v", **expected),)


@pytest.mark.parametrize("key", ["sub_path", "subPath"])
@pytest.mark.parametrize("kind", VOLUME_TYPES)
def test_a_part_is_mounted_when_any_type_names_a_sub_path(kind: str, key: str) -> None:
    needed = {"config_map": {"name": "c"}, "image": {"image": "i:1"}}.get(kind, {})

    (volume,) = _read(_volume(kind, spec={**needed, key: "a/b"}))

    assert volume.sub_path == "a/b"


def test_a_volume_is_read_when_its_own_keys_are_camel_case() -> None:
    (volume,) = read_volumes([{"volumeType": "empty_dir", "name": "v", "mountPath": "/v"}])

    assert (volume.type, volume.mount_path) == ("empty_dir", "/v")


@pytest.mark.parametrize("spec", [None, {}])
def test_everything_is_left_blank_when_the_spec_is_blank(spec: Any) -> None:
    (volume,) = read_volumes([_volume("persistent_volume_claim", spec=spec)])

    assert volume == Volume(name="v", type="persistent_volume_claim", mount_path="/v")


@pytest.mark.parametrize(
    ("kind", "spec", "where", "code"),
    [
        ("persistent_volume_claim", {"size": "0"}, "spec.size", "quantity.zero"),
        ("persistent_volume_claim", {"size": "-1Gi"}, "spec.size", "quantity.negative"),
        ("persistent_volume_claim", {"size": "big"}, "spec.size", "quantity.invalid"),
        ("persistent_volume_claim", {"size": "1000E"}, "spec.size", "quantity.large"),
        ("persistent_volume_claim", {"lifetime": "forever"}, "spec.lifetime", "volumes.lifetime"),
        ("persistent_volume_claim", {"lifetime": 0}, "spec.lifetime", "volumes.lifetime"),
        ("persistent_volume_claim", {"lifetime": True}, "spec.lifetime", "volumes.lifetime"),
        ("persistent_volume_claim", {"lifetime": ["7d"]}, "spec.lifetime", "volumes.lifetime"),
        ("persistent_volume_claim", {"storageClass": "Not A Name"}, "spec.storageClass", "name.invalid"),
        ("persistent_volume_claim", {"claimName": "../x"}, "spec.claimName", "name.invalid"),
        ("persistent_volume_claim", {"claim_name": "c", "size": "1Gi"}, "spec.size", "volumes.existing"),
        ("persistent_volume_claim", {"claim_name": "c", "lifetime": "run"}, "spec.lifetime", "volumes.existing"),
        ("persistent_volume_claim", {"claim_name": "c", "storageClass": "s"}, "spec.storageClass", "volumes.existing"),
        ("empty_dir", {"medium": "memory"}, "spec.medium", "value.option"),
        ("empty_dir", {"medium": "HugePages"}, "spec.medium", "value.option"),
        ("empty_dir", {"lifetime": "keep"}, "spec.lifetime", "field.unknown"),
        ("empty_dir", {"size": "1Gi", "size_limit": "1Gi"}, "spec.size", "field.unknown"),
        ("empty_dir", {"sizeLimit": "1Gi", "size_limit": "1Gi"}, "spec.size_limit", "field.twice"),
        ("ephemeral", {"lifetime": "keep"}, "spec.lifetime", "field.unknown"),
        ("ephemeral", {"claim_name": "c"}, "spec.claim_name", "field.unknown"),
        ("shared_volume", {"lifetime": "run"}, "spec.lifetime", "field.unknown"),
        ("config_map", {}, "spec", "volumes.config_map"),
        ("config_map", {"data": {"a": "b"}, "name": "c"}, "spec", "volumes.config_map"),
        ("config_map", {"data": {"../a": "b"}}, "spec.data[../a]", "volumes.data_key"),
        ("config_map", {"data": {"a": ["b"]}}, "spec.data.a", "type.text"),
        ("config_map", {"data": {"a": "\x00"}}, "spec.data.a", "text.control"),
        ("config_map", {"data": "text"}, "spec.data", "type.mapping"),
        ("config_map", {"data": {"a": "é" * MOST_INLINE_BYTES}}, "spec.data", "size.bytes"),
        ("image", {}, "spec.image", "field.missing"),
        ("image", {"image": "a b"}, "spec.image", "image.invalid"),
        ("empty_dir", {"subPath": "/abs"}, "spec.subPath", "volumes.sub_path"),
        ("empty_dir", {"subPath": "a/../../b"}, "spec.subPath", "volumes.sub_path"),
        ("empty_dir", {"hostPath": "/"}, "spec.hostPath", "field.unknown"),
    ],
)
def test_a_spec_is_refused_at_the_users_own_spelling_when_it_is_wrong(
    kind: str, spec: dict[str, Any], where: str, code: str
) -> None:
    problems = find_problems(read_volumes, [_volume(kind, spec=spec)])

    assert {where: problem.code for where, problem in problems.items()} == {f"[0].{where}": code}


@pytest.mark.parametrize(
    ("kind", "suggestion"),
    [
        ("pvc", "persistent_volume_claim"),
        ("persistentVolumeClaim", "persistent_volume_claim"),
        ("emptyDir", "empty_dir"),
        ("configMap", "config_map"),
        ("Empty_Dir", "empty_dir"),
        ("secret", "secrets: [{name: …, mount_path: …}]"),
        ("hostPath", None),
        ("host_path", None),
        ("nfs", None),
        (3, None),
        ([], None),
    ],
)
def test_a_volume_type_is_refused_with_the_nearest_when_it_is_unknown(kind: Any, suggestion: str | None) -> None:
    problem = find_problem(read_volumes, [_volume(kind)])

    assert problem.where == "[0].volume_type"
    assert problem.suggestion == suggestion


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("My Volume", "my-volume"),
        ("a_b", "a-b"),
        ("x" * 64, "x" * 63),
        ("-a", "a"),
        ("a.b", "a-b"),
        ("runyard-x", None),
        ("", None),
        (3, None),
        ("a\n", None),
        ("ⅷ", None),
    ],
)
def test_a_volumes_name_is_refused_when_kubernetes_or_the_platform_cannot_take_it(
    name: Any, suggestion: str | None
) -> None:
    problem = find_problem(read_volumes, [_volume(name=name)])

    assert (problem.where, problem.suggestion) == ("[0].name", suggestion)


@pytest.mark.parametrize("missing", ["volume_type", "name", "mount_path"])
def test_a_volume_is_refused_when_something_is_missing(missing: str) -> None:
    given = _volume()
    del given[missing]

    problem = find_problem(read_volumes, [given])

    assert (problem.code, problem.where) == ("field.missing", f"[0].{missing}")


@pytest.mark.parametrize(("key", "suggestion"), [("mountPaths", "mount_path"), ("specs", "spec"), ("readOnly", None)])
def test_a_key_is_refused_as_it_was_written_when_it_is_unknown(key: str, suggestion: str | None) -> None:
    problem = find_problem(read_volumes, [{**_volume(), key: "x"}])

    assert (problem.code, problem.where, problem.suggestion) == ("field.unknown", f"[0].{key}", suggestion)


@pytest.mark.parametrize("spec", ["10Gi", ["size"], 0, False, []])
def test_a_spec_is_refused_when_it_is_no_mapping(spec: Any) -> None:
    problem = find_problem(read_volumes, [_volume(spec=spec)])

    assert (problem.code, problem.where) == ("type.mapping", "[0].spec")


@pytest.mark.parametrize("given", [{}, "v", _volume(), 3])
def test_volumes_are_refused_when_they_are_no_list(given: Any) -> None:
    assert find_problem(read_volumes, given).code == "type.list"


@pytest.mark.parametrize("entry", ["data", None, 3, []])
def test_a_volume_is_refused_when_it_is_no_mapping(entry: Any) -> None:
    assert find_problem(read_volumes, [entry]).code == "type.mapping"


def test_volumes_are_refused_when_there_are_hundreds() -> None:
    many = [_volume(name=f"v{number}", path=f"/v{number}") for number in range(257)]

    assert find_problem(read_volumes, many).code == "size.entries"


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("/data", "/data"),
        ("/data/", "/data"),
        ("//data", "/data"),
        ("/a//b/./c", "/a/b/c"),
        ("/dev/shm", "/dev/shm"),
        ("/dev/shm/", "/dev/shm"),
        ("/etcetera", "/etcetera"),
        ("/devel", "/devel"),
        ("/system", "/system"),
        ("/procs", "/procs"),
        ("/home/etc", "/home/etc"),
        ("/app/files", "/app/files"),
        ("/shared", "/shared"),
    ],
)
def test_a_mount_path_is_normalised_when_it_is_good(given: str, normal: str) -> None:
    assert read_mount_path(given) == normal


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/.",
        "/./",
        "/proc",
        "/proc/1/root",
        "//proc",
        "/./proc",
        "/sys",
        "/sys/fs/cgroup",
        "/dev",
        "/dev/",
        "/dev/null",
        "/dev/shm/x",
        "/dev/shmx",
        "/etc",
        "/etc/passwd",
        "/etc/.",
        "/var/run/secrets",
        "/run/secrets",
        "/var/run/secrets/kubernetes.io",
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "/run/secrets/kubernetes.io/serviceaccount/token",
    ],
)
def test_a_mount_path_is_refused_when_it_belongs_to_the_system(path: str) -> None:
    assert find_problem(read_mount_path, path).code == "mount_path.system"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("data", "mount_path.relative"),
        ("./data", "mount_path.relative"),
        ("~/data", "mount_path.relative"),
        ("", "text.empty"),
        ("/..", "mount_path.dots"),
        ("/a/../b", "mount_path.dots"),
        ("/data/..", "mount_path.dots"),
        ("/a..b", "mount_path.dots"),
        ("../etc", "mount_path.relative"),
        ("/a:b", "mount_path.character"),
        ("/a\\b", "mount_path.character"),
        ("/a\nb", "text.control"),
        ("/a\x00", "text.control"),
        ("/a\x7f", "text.control"),
        ("/a\x85", "text.control"),
        ("/a\x9f", "text.control"),
        ("/\ud800", "text.control"),
        ("/" + "a" * 1024, "text.long"),
        (5, "type.text"),
        (["/data"], "type.text"),
    ],
)
def test_a_mount_path_is_refused_when_it_is_no_clean_absolute_path(path: Any, code: str) -> None:
    assert find_problem(read_mount_path, path).code == code


@pytest.mark.parametrize("path", ["etc", "./proc/self", ".", "../etc"])
def test_no_path_is_proposed_when_the_absolute_one_would_be_refused(path: str) -> None:
    assert find_problem(read_mount_path, path).suggestion is None


def test_the_absolute_path_is_proposed_when_a_relative_one_is_given() -> None:
    assert find_problem(read_mount_path, "./data").suggestion == "/data"


@pytest.mark.parametrize("second", ["/data", "/data/", "//data", "/./data"])
def test_a_path_is_refused_when_it_stands_twice_in_any_spelling(second: str) -> None:
    problem = find_problem(read_volumes, [_volume(name="a", path="/data"), _volume(name="b", path=second)])

    assert (problem.code, problem.where) == ("volumes.mount_path_twice", "[1].mount_path")


def test_a_name_is_refused_when_it_stands_twice() -> None:
    problem = find_problem(read_volumes, [_volume(path="/a"), _volume(path="/b")])

    assert (problem.code, problem.where) == ("volumes.name_twice", "[1].name")


def test_every_problem_is_told_when_there_are_several() -> None:
    given = [
        {"volume_type": "pvc", "name": "A", "mount_path": "/etc"},
        {"volume_type": "empty_dir", "spec": {"sise_limit": 1}},
        _volume("persistent_volume_claim", "c", "/c", {"size": "x", "storageClass": "Y"}),
    ]

    problems = find_problems(read_volumes, given)

    assert set(problems) == {
        "[0].volume_type",
        "[0].name",
        "[0].mount_path",
        "[1].name",
        "[1].mount_path",
        "[1].spec.sise_limit",
        "[2].spec.size",
        "[2].spec.storageClass",
    }
    assert problems["[1].spec.sise_limit"].suggestion == "size_limit"


def test_what_was_given_stays_as_it_was_when_it_is_read() -> None:
    given = [_volume(spec={"sizeLimit": "1Gi"}), _volume("config_map", "c", "/c", {"data": {"a": "b"}})]
    before = deepcopy(given)

    volumes = read_volumes(given)

    assert given == before
    assert volumes[1].data is not None
    with pytest.raises(TypeError):
        volumes[1].data["a"] = "other"  # type: ignore[index]  # that it cannot be changed is the point
