"""Config maps of a project over HTTP, and runs that mount them."""

from typing import Any

import httpx2
import pytest

from runyard.spec.config_maps import MOST_CONFIG_MAP_BYTES, MOST_CONFIG_MAPS

URL = "/api/v1/-/demo/configmaps"
RUNS = "/api/v1/-/demo/runs"


async def _create(client: httpx2.AsyncClient, name: str, version: str, **files: Any) -> httpx2.Response:
    document = {"kind": "configmap", "name": name, "id": version, "spec": {"data": files}}
    return await client.post(URL, json=document)


def _make_run(*references: str, run_id: str = "r1", **more: Any) -> dict[str, Any]:
    volumes = [
        {"volume_type": "config_map", "name": f"v{n}", "mount_path": f"/v{n}", "spec": {"name": reference}}
        for n, reference in enumerate(references)
    ]
    spec = {"task": "container+job://demo/t1", "volumes": volumes, **more}
    return {"kind": "container+job:run", "id": run_id, "spec": spec}


async def _load_volumes(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    answer = (await client.get(f"{RUNS}/r1/effective")).json()
    volumes: list[dict[str, Any]] = answer["effective"]["volumes"]
    return volumes


async def test_versions_are_kept_when_a_config_map_is_created_again(demo: httpx2.AsyncClient) -> None:
    first = await _create(demo, "settings", "a1", **{"train.toml": "epochs = 3\n"})
    await _create(demo, "settings", "a2", **{"train.toml": "epochs = 5\n"})

    assert first.status_code == 200
    assert first.json()["key"] == "store://demo/configmap/configmap/settings:a1"
    newest = (await demo.get(URL, params={"name": "settings"})).json()
    assert [item["id"] for item in newest["content"]] == ["a2"]
    every = (await demo.get(URL, params={"name": "settings", "versions": "all"})).json()
    assert [item["id"] for item in every["content"]] == ["a2", "a1"]
    assert (await demo.get(f"{URL}/a1")).json()["spec"] == {"data": {"train.toml": "epochs = 3\n"}}


async def test_files_stay_when_a_version_is_updated(demo: httpx2.AsyncClient) -> None:
    await _create(demo, "settings", "a1", a="1")
    document = {"kind": "configmap", "name": "settings", "metadata": {"labels": ["x"]}, "spec": {"data": {"a": "2"}}}
    answer = (await demo.put(f"{URL}/a1", json=document)).json()

    assert (answer["spec"], answer["metadata"]["labels"]) == ({"data": {"a": "1"}}, ["x"])
    assert [warning["path"] for warning in answer["status"]["warnings"]] == ["spec.data"]


@pytest.mark.parametrize(
    ("document", "problems"),
    [
        ({"name": "Settings", "spec": {"data": {}}}, {"name": "name.invalid"}),
        ({"spec": {"data": {}}}, {"name": "field.missing"}),
        ({"name": "s", "spec": {}}, {"spec.data": "field.missing"}),
        ({"name": "s", "kind": "other", "spec": {"data": {}}}, {"kind": "value.option"}),
        ({"name": "s", "spec": {"data": {"../a": "x"}}}, {"spec.data[../a]": "volumes.data_key"}),
        ({"name": "s", "spec": {"data": {"a": {}}}}, {"spec.data.a": "type.text"}),
        ({"name": "s", "spec": {"data": {}, "binary_data": {}}}, {"spec.binary_data": "field.unknown"}),
        ({"name": "s", "spec": {"data": {"a": "x" * MOST_CONFIG_MAP_BYTES}}}, {"spec.data": "size.bytes"}),
        ({"name": "s", "spec": {"data": {f"f{n}": "" for n in range(257)}}}, {"spec.data": "size.entries"}),
    ],
)
async def test_config_map_is_refused_when_kubernetes_could_not_take_it(
    demo: httpx2.AsyncClient, document: dict[str, Any], problems: dict[str, str]
) -> None:
    answer = await demo.post(URL, json={"kind": "configmap", **document})

    assert answer.status_code == 400
    assert {problem["path"]: problem["code"] for problem in answer.json()["errors"]} == problems


async def test_run_keeps_its_files_when_the_config_map_changes_and_goes(
    demo: httpx2.AsyncClient,
) -> None:
    await _create(demo, "settings", "a1", a="1")
    await _create(demo, "settings", "a2", a="2")
    assert (await demo.post(RUNS, json=_make_run("settings", "settings:a1"))).status_code == 200
    await _create(demo, "settings", "a3", a="3")
    assert (await demo.delete(URL, params={"name": "settings"})).json() == {"deleted": 3}

    newest, pinned = await _load_volumes(demo)
    assert (newest["config_map"], newest["config_map_version"], newest["data"]) == ("settings", "a2", {"a": "2"})
    assert (pinned["config_map"], pinned["config_map_version"], pinned["data"]) == ("settings", "a1", {"a": "1"})
    again = await demo.post(RUNS, json=_make_run("settings", "settings:a1"))
    assert again.status_code == 200


async def test_version_has_an_owner_when_a_run_is_explained(demo: httpx2.AsyncClient) -> None:
    await _create(demo, "settings", "a1", n=3)
    key = "store://demo/configmap/configmap/settings:a1"
    answer = (await demo.post(f"{RUNS}/explain", json=_make_run("settings", key))).json()

    assert answer["refusals"] == []
    leaves = {leaf["path"]: leaf for leaf in answer["provenance"]}
    assert leaves["volumes.v0.data"]["value"] == {"n": "3"}
    found = [leaves[f"volumes.{name}.config_map_version"] for name in ("v0", "v1")]
    assert [(leaf["value"], leaf["set_by"], leaf["rule"]) for leaf in found] == [
        ("a1", "you", "the newest version"),
        ("a1", "you", None),
    ]


@pytest.mark.parametrize(
    ("reference", "message", "suggestion"),
    [
        ("setings", "the project has no config map `setings`", "settings"),
        ("settings:a9", "the config map `settings` has no version `a9`", None),
        ("other:a1", "the project has no config map `other`", None),
        ("store://speech/configmap/configmap/settings:a1", "invalid project: must be in project `demo`", None),
    ],
)
async def test_run_is_refused_when_the_project_has_no_such_config_map(
    demo: httpx2.AsyncClient, reference: str, message: str, suggestion: str | None
) -> None:
    await _create(demo, "settings", "a1", a="1")
    answer = await demo.post(RUNS, json=_make_run(reference))

    assert answer.status_code == 400
    (problem,) = answer.json()["errors"]
    assert (problem["path"], problem["message"]) == ("spec.volumes.v0.name", message)
    assert problem.get("suggestion") == suggestion


async def test_config_map_of_another_project_is_unknown_when_a_run_names_its_version(
    demo: httpx2.AsyncClient,
) -> None:
    await demo.post("/api/v1/projects", json={"kind": "project", "name": "speech"})
    document = {"kind": "configmap", "name": "theirs", "id": "b1", "spec": {"data": {"a": "1"}}}
    assert (await demo.post("/api/v1/-/speech/configmaps", json=document)).status_code == 200
    answer = await demo.post(RUNS, json=_make_run("theirs:b1", "theirs"))

    assert [problem["code"] for problem in answer.json()["errors"]] == ["config_map.unknown"] * 2
    assert "theirs" not in str([problem.get("allowed") for problem in answer.json()["errors"]])


async def test_way_to_create_one_is_named_when_the_project_has_none(demo: httpx2.AsyncClient) -> None:
    (problem,) = (await demo.post(RUNS, json=_make_run("settings"))).json()["errors"]

    assert problem["allowed"] == (
        "the project has no config maps; create it with POST /api/v1/-/demo/configmaps, or write the files in `data`"
    )


async def test_run_is_refused_when_it_names_too_many_config_maps(demo: httpx2.AsyncClient) -> None:
    answer = await demo.post(RUNS, json=_make_run(*(f"c{n}" for n in range(MOST_CONFIG_MAPS + 1))))

    assert [(each["code"], each["path"]) for each in answer.json()["errors"]] == [("size.entries", "spec.volumes")]


async def test_run_is_refused_when_its_config_maps_are_too_large_together(demo: httpx2.AsyncClient) -> None:
    for number in range(3):
        await _create(demo, f"c{number}", f"c{number}", f="x" * (MOST_CONFIG_MAP_BYTES - 1))
    fitting = await demo.post(RUNS, json=_make_run(*(f"c{n}" for n in range(2))))
    answer = await demo.post(RUNS, json=_make_run(*(f"c{n}" for n in range(3)), run_id="r2"))

    assert fitting.status_code == 200
    assert [(each["code"], each["path"]) for each in answer.json()["errors"]] == [("size.bytes", "spec.volumes")]
    explained = await demo.post(f"{RUNS}/explain", json=_make_run(*(f"c{n}" for n in range(3)), run_id="r2"))
    assert len(explained.content) < 10_000


async def test_config_map_of_the_runs_project_is_mounted_when_a_profile_names_it(
    demo: httpx2.AsyncClient,
) -> None:
    for name in ("settings", "unused"):
        volume = {"volume_type": "config_map", "name": "team", "mount_path": "/team", "spec": {"name": name}}
        made = await demo.put(f"/api/v1/profiles/with-{name}", json={"volumes": [volume]})
        assert made.status_code == 200, made.text
    refused = await demo.post(RUNS, json=_make_run(profile="with-settings"))
    assert [problem["code"] for problem in refused.json()["errors"]] == ["config_map.unknown"]
    await _create(demo, "settings", "a1", a="1")
    assert (await demo.post(RUNS, json=_make_run(profile="with-settings"))).status_code == 200

    (volume,) = await _load_volumes(demo)
    assert (volume["name"], volume["config_map_version"], volume["data"]) == ("team", "a1", {"a": "1"})


async def test_run_is_shown_without_the_volume_when_sdks_cannot_read_it(demo: httpx2.AsyncClient) -> None:
    await _create(demo, "settings", "a1", a="1")
    await demo.post(RUNS, json=_make_run("settings"))

    assert "volumes" not in (await demo.get(f"{RUNS}/r1")).json()["spec"]


async def test_search_finds_config_maps_when_their_type_is_named(demo: httpx2.AsyncClient) -> None:
    await _create(demo, "settings", "a1", a="1")
    url = "/api/v1/-/demo/solr/search/item"
    named = (await demo.get(url, params={"fq": "type:(configmap)"})).json()
    every = (await demo.get(url)).json()

    assert [item["key"] for item in named["content"]] == ["store://demo/configmap/configmap/settings:a1"]
    # SDKs fail on a type that they do not know.
    assert "configmap" not in {item["type"] for item in every["content"]}


async def test_project_counts_config_maps_when_it_is_not_empty(demo: httpx2.AsyncClient) -> None:
    await demo.post("/api/v1/projects", json={"kind": "project", "name": "maps"})
    document = {"kind": "configmap", "name": "settings", "id": "m1", "spec": {"data": {"a": "1"}}}
    await demo.post("/api/v1/-/maps/configmaps", json=document)
    refused = await demo.delete("/api/v1/projects/maps")

    assert "it has 1 configmaps" in refused.json()["message"]
    assert (await demo.delete("/api/v1/projects/maps", params={"cascade": "true"})).status_code == 200
    assert (await demo.post("/api/v1/projects", json={"kind": "project", "name": "maps"})).status_code == 200
    assert (await demo.get("/api/v1/-/maps/configmaps")).json()["totalElements"] == 0
