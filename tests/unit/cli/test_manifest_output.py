import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from runyard.cli import manifest_output
from runyard.cli.options import RunOptions
from runyard.manifests.render import render_run
from tests.unit.cli.conftest import Call


def render(call: Call, *arguments: str, stdin: str = "") -> list[dict[str, Any]]:
    called = call("render", *arguments, stdin=stdin)
    assert called.code == 0, called.err
    return list(yaml.safe_load_all(called.out))


def test_contract_examples_render_when_taken_as_they_stand(call: Call, folder: Path) -> None:
    (job,) = render(call, "-f", "run.yaml", "--profiles", "profiles", "--policy", "policy.yaml")
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"memory": "32Gi", "nvidia.com/gpu": "1"}
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"gpu": "a100"}


def test_values_that_lose_are_told_on_standard_error_when_rendered(call: Call, folder: Path) -> None:
    called = call("render", "-f", "run.yaml", "--profiles", "profiles")
    assert "run.yaml:2:18: warning: resources.mem.requests: profile 1xa100 sets 32Gi" in called.err
    assert "warning" not in called.out


def test_values_that_lose_are_refused_when_strict(call: Call, folder: Path) -> None:
    called = call("render", "-f", "run.yaml", "--profiles", "profiles", "--strict")
    assert (called.code, called.out) == (1, "")
    assert "run.yaml:2:18: error: resources.mem.requests:" in called.err


def test_output_is_the_same_when_rendered_twice(call: Call, folder: Path) -> None:
    first, second = (call("render", "-f", "run.yaml", "--profiles", "profiles") for _ in range(2))
    assert first == second
    assert "derived from its content" in first.err


def test_id_differs_when_the_run_or_an_option_of_it_differs(call: Call, folder: Path) -> None:
    base = ["--profiles", "profiles", "-f"]
    (folder / "other.yaml").write_text((folder / "run.yaml").read_text() + "# another\n")
    variants = (
        ["run.yaml"],
        ["other.yaml"],
        ["run.yaml", "--image", "busybox:1.37"],
        ["run.yaml", "--action", "deploy"],
        ["run.yaml", "--project", "vision"],
    )
    names = [render(call, *base, *variant)[-1]["metadata"]["name"] for variant in variants]
    assert len(set(names)) == len(names)


def test_id_is_the_option_or_the_files_when_one_is_said(call: Call) -> None:
    (job,) = render(call, "-f", "-", stdin="{id: mine, image: 'busybox:1'}")
    assert job["metadata"]["name"].startswith("run-mine-")
    assert job["metadata"]["labels"]["runyard.io/run"] == "mine"
    called = call("render", "-f", "-", "--id", "yours", stdin="{id: mine, image: 'busybox:1'}")
    assert yaml.safe_load(called.out)["metadata"]["name"].startswith("run-yours-")
    assert "--id yours is used; `mine` is not" in called.err
    assert "derived from its content" not in called.err


def test_names_are_of_project_and_id_when_no_uid_is_said(call: Call) -> None:
    def name(*words: str) -> str:
        (job,) = render(call, "-f", "-", "--id", "mine", *words, stdin="{image: 'busybox:1'}")
        uid: str = job["metadata"]["labels"]["runyard.io/run-uid"]
        found: str = job["metadata"]["name"]
        assert found == f"run-mine-{hashlib.sha256(uid.encode()).hexdigest()[:15]}"
        return found

    assert name() == name() == name("--project", "default")
    assert name("--project", "other") != name()
    assert name("--uid", "u1") == name("--uid", "u1", "--project", "other") == "run-mine-bb82030dbc2bcab"


def test_list_is_printed_when_json_is_asked(call: Call) -> None:
    called = call("render", "-f", "-", "-o", "json", "--id", "a", stdin="{image: 'é:1', secrets: [S]}")
    assert called.code == 1
    called = call("render", "-f", "-", "-o", "json", "--secret", "S", stdin="{image: 'busybox:1', secrets: [S]}")
    shown = json.loads(called.out)
    assert (shown["apiVersion"], shown["kind"]) == ("v1", "List")
    assert [item["kind"] for item in shown["items"]] == ["Secret", "Job"]


def test_documents_are_separated_when_there_are_several(call: Call) -> None:
    called = call("render", "-f", "-", "--action", "serve", stdin="{image: 'busybox:1', service_ports: [80]}")
    assert called.code == 0, called.err
    assert [item["kind"] for item in yaml.safe_load_all(called.out)] == ["Deployment", "Service"]
    assert called.out.count("\n---\n") == 1
    assert not called.out.startswith("---")


def test_namespace_and_project_are_written_when_said(call: Call) -> None:
    (job,) = render(call, "-f", "-", "--namespace", "ml", "--project", "vision", stdin="image: busybox:1")
    assert job["metadata"]["namespace"] == "ml"
    assert job["metadata"]["labels"]["runyard.io/project"] == "vision"
    (job,) = render(call, "-f", "-", stdin="image: busybox:1")
    assert "namespace" not in job["metadata"]


def test_secret_is_empty_with_a_warning_when_it_is_known(call: Call) -> None:
    called = call("render", "-f", "-", "--secret", "HF_TOKEN", stdin="image: busybox:1\nsecrets: [HF_TOKEN]\n")
    secret, _ = yaml.safe_load_all(called.out)
    assert secret["data"] == {"HF_TOKEN": ""}
    assert "<stdin>:2:11: warning: secrets.HF_TOKEN: is rendered empty" in called.err


def test_secret_is_refused_with_the_nearest_when_it_is_not_known(call: Call) -> None:
    called = call("render", "-f", "-", "--secret", "HF_TOKEN", stdin="image: busybox:1\nsecrets: [HF_TOKN]\n")
    assert (called.code, called.out) == (1, "")
    assert "<stdin>:2:11: error: secrets.HF_TOKN: secret `HF_TOKN` is not declared" in called.err
    assert "allowed: HF_TOKEN\n    try: HF_TOKEN, or --secret HF_TOKN\n" in called.err


def test_nearest_profile_is_named_when_it_is_unknown(call: Call, folder: Path) -> None:
    called = call("render", "-f", "-", "--profiles", "profiles", stdin="image: busybox:1\nprofile: 1xa10\n")
    assert called.code == 1
    assert "<stdin>:2:10: error: profile: there is no profile `1xa10`" in called.err
    assert "try: 1xa100, or --profiles DIR, with the directory of its file" in called.err
    called = call("render", "-f", "run.yaml", "--profiles", "profiles", "--profile", "2xa100")
    assert "--profile: error: profile: there is no profile `2xa100`" in called.err


def test_option_is_named_when_an_image_is_missing(call: Call) -> None:
    called = call("render", "-f", "-", stdin="resources: {cpu: 1}\n")
    assert called.code == 1
    assert "<stdin>: error: image: a run needs an `image`" in called.err
    assert "--image IMAGE" in called.err


def test_everything_wrong_is_told_at_once_when_several_files_are_wrong(call: Call, folder: Path) -> None:
    (folder / "run.yaml").write_text("resources:\n  mem: 6Gb\nnope: 1\nrun_as_user: 0\n")
    (folder / "policy.yaml").write_text("timeout: {max: soon}\n")
    (folder / "profiles/a100.yaml").write_text("id: a\nfs_group: 0\n")
    called = call("render", "-f", "run.yaml", "--policy", "policy.yaml", "--profiles", "profiles")
    assert (called.code, called.out) == (1, "")
    places = [line.split(": error:")[0] for line in called.err.splitlines() if ": error:" in line]
    assert places == ["run.yaml:2:8", "run.yaml:3:7", "run.yaml:4:14", "profiles/a100.yaml:2:11", "policy.yaml:1:16"]


def test_kept_volumes_claims_and_config_maps_are_used_when_they_are_named(call: Call, folder: Path) -> None:
    run = """
image: busybox:1
volumes:
  - {volume_type: shared_volume, name: data, mount_path: /data}
  - {volume_type: persistent_volume_claim, name: old, mount_path: /old, spec: {claim_name: old-claim}}
  - {volume_type: config_map, name: conf, mount_path: /conf, spec: {name: conf}}
"""
    (folder / "policy.yaml").write_text("volumes.claim_name: {allowed: [old-*]}\n")
    inventory = ("--volume", "data=kept-1", "--claim", "old-claim", "--config-map", "conf=conf")
    (folder / "conf").mkdir()
    (folder / "conf/a.toml").write_text("x = 1\n")
    config_map, job = render(call, "-f", "-", "--policy", "policy.yaml", *inventory, stdin=run)
    sources = job["spec"]["template"]["spec"]["volumes"]
    assert [source.get("persistentVolumeClaim", {}).get("claimName") for source in sources] == [
        "kept-1",
        "old-claim",
        None,
    ]
    assert sources[2]["configMap"]["name"] == config_map["metadata"]["name"]
    assert config_map["data"] == {"a.toml": "x = 1\n"}
    refused = call("render", "-f", "-", "--policy", "policy.yaml", stdin=run)
    assert refused.code == 1
    assert "try: --config-map conf=PATH, or the files in `data`" in refused.err
    assert refused.err.count("error: volumes") == 3


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-f", "none.yaml"],
        ["-f", "profiles"],
        ["-f", "run.yaml", "--policy", "none.yaml"],
        ["-f", "run.yaml", "--profiles", "none"],
        ["-f", "run.yaml", "--profiles", "."],
        ["-f", "run.yaml", "-o", "table"],
        ["-f", "run.yaml", "--action", "build"],
        ["-f", "run.yaml", "--id", "a/b"],
        ["-f", "run.yaml", "--project", "X"],
        ["-f", "run.yaml", "--namespace", "a.b"],
        ["-f", "run.yaml", "--image", ""],
        ["-f", "run.yaml", "--profile", "a/b"],
        ["-f", "run.yaml", "--volume", "data="],
        ["-f", "run.yaml", "--volume", "=claim"],
        ["-f", "run.yaml", "--claim", "A"],
        ["-f", "run.yaml", "--config-map", "A=run.yaml"],
        ["-f", "run.yaml", "--config-map", "conf"],
        ["-f", "run.yaml", "--config-map", "conf="],
        ["-f", "run.yaml", "--config-map", "conf=none.toml"],
        ["-f", "run.yaml", "--config-map", "conf:a b=run.yaml"],
        ["-f", "run.yaml", "--config-map", "conf=profiles"],
        ["-f", "run.yaml", "--bogus"],
        ["run.yaml"],
    ],
)
def test_exit_code_is_2_when_used_wrongly(call: Call, folder: Path, arguments: list[str]) -> None:
    (folder / "profiles/only").mkdir()
    (folder / "run.yaml").rename(folder / "profiles/only/run.yaml")
    (folder / "policy.yaml").unlink()
    arguments = ["profiles/only/run.yaml" if word == "run.yaml" else word for word in arguments]
    called = call("render", *arguments)
    assert (called.code, called.out) == (2, ""), called.err
    assert "error: " in called.err


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x01\x02" * 100,
        b"\xff\xfe",
        b"[" * 100_000,
        b"a: &a [x]\n" + b"".join(b"b%d: &b%d [%s]\n" % (i, i, b"*a," * 9) for i in range(9)),
        b"{" * 50,
        b"- 1\n",
        b"7",
        b"null",
        b"? [a]\n: b\n",
        b"!!python/object:os.system x",
        b"resources: {cpu: 1e999999999, mem: 99999999999999999999999999999999Ei}",
        b"__proto__: {}\nconstructor: 1\n",
        b"kind: container+job:run\nspec: []\n",
        b"kind: container+job:run\nspec: {task: 7}\n",
        b"id: a\n---\nid: b\n",
    ],
)
def test_bad_input_is_refused_in_words_when_it_is_hostile(call: Call, content: bytes) -> None:
    called = call("render", "-f", "-", "--image", "busybox:1", stdin=content)
    assert called.code in (1, 2), called.out
    assert called.out == ""
    assert "error" in called.err
    assert "internal error" not in called.err
    assert "Traceback" not in called.err


def test_rendered_objects_are_withheld_when_they_break_a_rule(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def render_badly(*given: Any, **more: Any) -> list[dict[str, Any]]:
        objects = render_run(*given, **more)
        objects[-1]["spec"]["template"]["spec"]["containers"][0]["securityContext"]["privileged"] = True
        return objects

    monkeypatch.setattr(manifest_output, "render_run", render_badly)
    called = call("render", "-f", "run.yaml", "--profiles", "profiles")
    assert (called.code, called.out) == (1, "")
    assert "internal error" in called.err
    assert "containers[0].securityContext.privileged" in called.err
    assert "please report it" in called.err


def test_options_of_a_run_are_all_given_when_a_command_is_called(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[RunOptions] = []
    monkeypatch.setattr(manifest_output, "print_manifests", lambda options, **_: seen.append(options))
    assert call("render", "-f", "-", "--secret", "A", "--secret", "B", "--volume", "a=b", "--strict").code == 0
    assert seen == [RunOptions(file="-", secrets=("A", "B"), volumes=(("a", "b"),), strict=True)]
