import json
from pathlib import Path
from typing import Any

import pytest

from runyard.domain.effective_document import (
    SCHEMA_VERSION,
    UnknownSchema,
    read_effective,
    upgrade_provenance,
    write_effective,
)
from runyard.domain.effective_spec import EffectiveSpec
from runyard.domain.resolution import resolve
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.problems import Refused
from runyard.spec.volumes import Volume
from tests.adversary.generator import draw_case, draw_world
from tests.adversary.trial import make_stage, read_case

SAMPLES = Path(__file__).parents[2] / "data" / "effective"


def _list_samples(version: int) -> list[Path]:
    return sorted((SAMPLES / str(version)).glob("*.json"))


def _load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_there_are_samples_when_a_version_was_ever_stored(version: int) -> None:
    assert [path.stem for path in _list_samples(version)] == ["full-job", "python-job", "service", "small-job"]


@pytest.mark.parametrize(
    "path", [*_list_samples(1), *_list_samples(2)], ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_document_of_an_older_version_is_upgraded_when_it_is_read(path: Path) -> None:
    newest = _load(SAMPLES / str(SCHEMA_VERSION) / path.name)
    assert write_effective(read_effective(_load(path))) == newest


@pytest.mark.parametrize("path", _list_samples(SCHEMA_VERSION), ids=lambda path: path.stem)
def test_document_is_the_same_when_it_is_read_and_written_again(path: Path) -> None:
    document = _load(path)
    assert write_effective(read_effective(document)) == document


def test_values_have_their_types_when_a_document_is_read() -> None:
    spec = read_effective(_load(SAMPLES / "1" / "full-job.json"))
    assert (spec.gpu, spec.gpu_resource, spec.timeout_seconds) == (2, "nvidia.com/gpu", 7200)
    assert spec.resources["cpu"].limits == Quantity.parse("8")
    assert spec.disk is not None
    assert spec.disk.size == Quantity.parse("100Gi")
    assert spec.volumes[0] == Volume(
        name="data",
        type="persistent_volume_claim",
        mount_path="/data",
        size=Quantity.parse("10Gi"),
        storage_class="fast",
        sub_path="a/b",
        lifetime=604800,
    )
    assert [use.name for use in spec.secrets] == ["token", "kaggle"]
    assert spec.command == ("python", "train.py")


OLD_LEAVES = ({"path": "resources.cpu.request"}, {"path": "resources[a.b/c].limit"}, {"path": "envs.limit"})


@pytest.mark.parametrize("document", [{}, {"schema_version": 2}])
def test_paths_of_provenance_are_upgraded_when_the_document_is_older(document: dict[str, Any]) -> None:
    assert [leaf["path"] for leaf in upgrade_provenance(OLD_LEAVES, document)] == [
        "resources.cpu.requests",
        "resources[a.b/c].limits",
        "envs.limit",
    ]


@pytest.mark.parametrize("document", [None, {"schema_version": SCHEMA_VERSION}])
def test_provenance_is_unchanged_when_the_document_is_current_or_missing(document: dict[str, Any] | None) -> None:
    assert upgrade_provenance(OLD_LEAVES, document) == OLD_LEAVES


def test_spec_says_that_no_gpu_is_wanted_when_it_was_stored_so() -> None:
    assert (read_effective(_load(SAMPLES / "1" / "service.json"))).gpu == 0


@pytest.mark.parametrize("count", [1, 1000, 2**31 - 1])
def test_gpus_are_the_same_when_their_count_is_stored_with_a_suffix(count: int) -> None:
    spec = EffectiveSpec(kind="container", action="job", gpu=count, gpu_resource="nvidia.com/gpu")
    assert read_effective(write_effective(spec)) == spec


def test_no_gpu_is_told_from_no_word_when_it_is_written() -> None:
    for gpu, written in ((0, {"gpu": {"limits": "0"}}), (None, None)):
        spec = EffectiveSpec(kind="container", action="job", gpu=gpu)
        assert spec.to_dict().get("resources") == written
        assert read_effective(write_effective(spec)) == spec


def test_config_map_is_the_same_when_its_version_and_files_are_stored() -> None:
    volume = Volume(
        name="conf",
        type="config_map",
        mount_path="/conf",
        config_map="settings",
        config_map_version="v1",
        data={"a.toml": "x = 1\n"},
    )
    spec = EffectiveSpec(kind="container", action="job", volumes=(volume,))
    assert read_effective(json.loads(json.dumps(write_effective(spec)))) == spec


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1, "2", None, 1.5])
def test_document_is_refused_when_its_version_is_not_known(version: object) -> None:
    document = {"kind": "container", "action": "job", "schema_version": version}
    with pytest.raises(
        UnknownSchema, match=r"^the stored effective spec has schema version .*, and this release reads up"
    ):
        read_effective(document)


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "container"},
        {"kind": "container", "action": "job", "colour": "red"},
        {"kind": "container", "action": "job", "resources": {"gpu": {}}},
        {"kind": "container", "action": "job", "resources": {"gpu": {"limits": "many"}}},
        {"kind": "container", "action": "job", "resources": 7},
        {"kind": "container", "action": "job", "volumes": [None]},
    ],
)
def test_document_is_refused_when_its_fields_are_not_the_types(document: dict[str, Any]) -> None:
    with pytest.raises(UnknownSchema, match=r"^the stored effective spec cannot be read: "):
        read_effective(document)


@pytest.mark.parametrize("number", range(4))
def test_spec_is_the_same_when_it_is_stored_and_read(number: int) -> None:
    world = draw_world(10, number)
    stage = make_stage(world)
    count = 0
    for case in (draw_case(10, number * 100 + index, world) for index in range(100)):
        try:
            request = read_case(case)
        except Refused:
            continue
        resolution = resolve(request, stage.admin_rules, stage.inventory)
        if resolution.refusals:
            continue
        stored = json.loads(json.dumps(write_effective(resolution.spec)))
        assert read_effective(stored) == resolution.spec
        assert write_effective(read_effective(stored)) == stored
        count += 1
    assert count >= 20
