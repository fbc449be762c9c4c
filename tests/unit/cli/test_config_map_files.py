"""`--config-map NAME=PATH`."""

import json
from pathlib import Path

import pytest

from runyard.cli.config_map_files import load_config_maps
from runyard.cli.files import Unreadable
from runyard.cli.findings import Failed
from runyard.spec.config_maps import MOST_CONFIG_MAP_BYTES
from runyard.spec.readers import MOST_ENTRIES
from tests.unit.cli.conftest import Call

RUN = """
image: busybox:1
volumes:
  - {volume_type: config_map, name: conf, mount_path: /conf, spec: {name: settings}}
"""


def test_file_keeps_its_name_when_the_path_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text("epochs = 3\n")
    (config_map,) = load_config_maps([("settings:v1", str(tmp_path / "train.toml"))]).values()
    assert (config_map.name, config_map.version) == ("settings", "v1")
    assert config_map.data == {"train.toml": "epochs = 3\n"}


def test_every_file_is_read_when_the_path_is_a_directory(tmp_path: Path) -> None:
    for name in ("b", "a.toml", ".hidden"):
        (tmp_path / name).write_text(name)
    config_map = load_config_maps([("settings", str(tmp_path))])["settings"]
    assert config_map.data == {"a.toml": "a.toml", "b": "b", ".hidden": ".hidden"}


@pytest.mark.parametrize(
    ("name", "content", "path", "code"),
    [
        ("a", b"\xff", "a", "type.text"),
        ("a", b"\x00", "a", "text.control"),
        ("a b", b"x", "[a b]", "volumes.data_key"),
        ("a", b"x" * MOST_CONFIG_MAP_BYTES, "", "size.bytes"),
    ],
)
def test_config_map_is_refused_when_the_server_would_refuse_its_files(
    tmp_path: Path, name: str, content: bytes, path: str, code: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Failed) as caught:
        load_config_maps([("settings", str(tmp_path))])
    (finding,) = caught.value.errors
    assert (finding.problem.where, finding.problem.code, finding.file) == (path, code, str(tmp_path))


def test_files_are_refused_when_they_are_too_large_together(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x" * (MOST_CONFIG_MAP_BYTES // 2 + 1))
    with pytest.raises(Failed) as caught:
        load_config_maps([("settings", str(tmp_path))])
    assert [finding.problem.code for finding in caught.value.errors] == ["size.bytes"]


def test_directory_cannot_be_read_when_it_contains_a_directory(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    with pytest.raises(Unreadable, match="contains `inner`, which is not a file"):
        load_config_maps([("settings", str(tmp_path))])


def test_directory_cannot_be_read_when_it_contains_too_many_files(tmp_path: Path) -> None:
    for number in range(MOST_ENTRIES + 1):
        (tmp_path / f"f{number}").touch()
    with pytest.raises(Unreadable, match="contains 257 files; a config map has at most 256"):
        load_config_maps([("settings", str(tmp_path))])


@pytest.mark.parametrize("given", ["settings", "settings="])
def test_form_is_named_when_the_path_is_missing(call: Call, folder: Path, given: str) -> None:
    called = call("explain", "-f", "run.yaml", "--config-map", given)
    assert called.code == 2
    assert f"`{given}` has no path after the name; allowed: NAME=PATH or NAME:VERSION=PATH" in " ".join(
        called.err.split()
    )


def test_files_have_an_owner_when_a_run_is_explained(call: Call, folder: Path) -> None:
    (folder / "train.toml").write_text("epochs = 3\n")
    called = call("explain", "-f", "-", "-o", "json", "--config-map", "settings=train.toml", stdin=RUN)
    explained = json.loads(called.out)
    (volume,) = explained["effective"]["volumes"]
    assert (volume["config_map"], volume["data"]) == ("settings", {"train.toml": "epochs = 3\n"})
    leaves = {leaf["path"]: leaf for leaf in explained["provenance"]}
    assert leaves["volumes.conf.data"]["rule"] == "the files of the config map settings"


def test_version_is_asked_for_when_only_the_name_is_given(call: Call, folder: Path) -> None:
    (folder / "train.toml").write_text("epochs = 3\n")
    run = RUN.replace("{name: settings}", '{name: "settings:v1"}')
    refused = call("render", "-f", "-", "--config-map", "settings=train.toml", stdin=run)
    assert refused.code == 1
    assert "try: --config-map settings:v1=PATH, or the files in `data`" in refused.err
    assert call("render", "-f", "-", "--config-map", "settings:v1=train.toml", stdin=run).code == 0
