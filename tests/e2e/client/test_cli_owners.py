"""Config maps and volumes of a project, against a real server with the local engine."""

import json
from pathlib import Path

import pytest

import runyard as ry
from tests.e2e.client.conftest import SECONDS
from tests.unit.cli.conftest import Call


@pytest.fixture(autouse=True)
def project(server: str) -> ry.Project:
    return ry.get_or_create_project("demo")


def test_version_is_stored_when_the_files_differ(call: Call, tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text("epochs = 3\n")
    done = call(
        "config-map", "set", "settings", "--from-file", "train.toml", "--from-literal", "mode=fast", "--id", "v1"
    )
    assert (done.code, done.out) == (0, "stored: settings:v1\n"), done.err
    assert "spec: {name: settings}" in done.err
    same = call("config-map", "set", "settings", "--from-file", "train.toml", "--from-literal", "mode=fast")
    assert same.out == "unchanged: settings:v1\n"
    assert (
        call("config-map", "set", "settings", "--from-file", "train.toml=-", "--id", "v2", stdin="epochs = 4\n").code
        == 0
    )
    assert call("config-map", "show", "settings", "--file", "train.toml").out == "epochs = 4\n"
    shown = json.loads(call("config-map", "show", "settings", "--id", "v1", "-o", "json").out)
    assert shown["spec"]["data"] == {"train.toml": "epochs = 3\n", "mode": "fast"}
    listed = call("config-map", "ls", "--columns", "name,files,version,names").out.splitlines()
    assert [line.split() for line in listed] == [
        ["NAME", "FILES", "VERSION", "NAMES"],
        ["settings", "1", "v2", "train.toml"],
    ]
    assert [line.split()[-1] for line in call("config-map", "ls", "settings").out.splitlines()] == [
        "VERSION",
        "v2",
        "v1",
    ]
    assert call("config-map", "rm", "settings", "--id", "v2", "--yes").out == "deleted: settings:v2\n"
    assert "with 1 version?" in call("config-map", "rm", "settings", stdin="n\n").err
    assert call("config-map", "rm", "settings", "--yes").out == "deleted: settings\n"
    assert call("config-map", "ls", "-o", "json").out == "[]\n"


def test_nothing_is_stored_when_files_or_names_are_wrong(call: Call, tmp_path: Path) -> None:
    assert call("config-map", "set", "modes", "--from-literal", "mode=fast", "--id", "v1").code == 0
    taken = call("config-map", "set", "modes", "--from-literal", "mode=slow", "--id", "v1")
    assert (taken.code, taken.err) == (1, "error: there is a version v1 already\n")
    assert "did you mean modes?" in call("config-map", "show", "mods").err
    assert "did you mean modes?" in call("config-map", "ls", "mods").err
    assert "did you mean modes?" in call("config-map", "rm", "mods", "--yes").err
    assert "has no file mod; did you mean mode?" in call("config-map", "show", "modes", "--file", "mod").err
    assert call("config-map", "set", "modes").code == 2
    assert "given twice" in call("config-map", "set", "m", "--from-literal", "a=1", "--from-literal", "a=2").err
    assert "allowed: NAME=TEXT" in call("config-map", "set", "m", "--from-literal", "a").err
    assert "no name" in call("config-map", "set", "m", "--from-file", "-").err
    wrong = call("config-map", "set", "m", "--from-literal", "a b=1", "--from-literal", "c=\x01")
    assert (wrong.code, wrong.err.count("error: ")) == (1, 2), wrong.err
    (tmp_path / "image.png").write_bytes(b"\xff\xfe")
    assert "image.png: error:" in call("config-map", "set", "m", "--from-file", "image.png").err
    assert "no-such-file" in call("config-map", "set", "m", "--from-file", "no-such-file").err


def test_volume_is_listed_with_its_users_until_it_is_deleted(call: Call) -> None:
    assert call("volume", "create", "datasets", "--size", "1Gi").out == "created: datasets\n"
    assert call("volume", "create", "datasets").err == "error: there is a volume datasets already\n"
    func = ry.get_project("demo").new_function("sleep", code_src="program.py", handler="sleep")
    volume: ry.Volume = {
        "volume_type": "shared_volume",
        "name": "data",
        "mount_path": "/data",
        "spec": {"claim_name": "datasets"},
    }
    run = func.run(volumes=[volume])
    (listed,) = json.loads(call("volume", "ls", "-o", "json").out)
    assert (listed["name"], listed["status"]["in_use_count"]) == ("datasets", 1)
    row = call("volume", "ls", "--columns", "name,size,used-by,expires").out.splitlines()[1]
    assert row.split() == ["datasets", "1Gi", run.id, "never"]
    refused = call("volume", "rm", "datasets", "--yes")
    assert (refused.code, f"used by runs that have not ended or can be resumed: {run.id}" in refused.err) == (1, True)
    assert "did you mean datasets?" in call("volume", "rm", "dataset", "--yes").err
    run.stop()
    run.wait(timeout=SECONDS)
    gone = call("volume", "rm", "datasets", "--yes")
    assert (gone.code, gone.out.split(":")[0] in ("deleted", "deleting")) == (0, True), gone.err
