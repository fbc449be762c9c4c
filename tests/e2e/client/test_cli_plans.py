"""`explain` and `render` asked of a real server, and answered offline; either way the user is told which."""

import json
from pathlib import Path

import pytest
import yaml

import runyard as ry
from tests.e2e.client.test_cli_runs import HELLO
from tests.unit.cli.conftest import BUILT_IN_NOTE, Call

SERVICE = "image: busybox:1.36\naction: serve\nreplicas: 2\nresources: {mem: 64Mi}\n"


def list_versions() -> set[str]:
    """Every function and task that the server has."""
    with ry.Client() as client:
        listed = [client.request("GET", f"/api/v1/-/demo/{plural}", size=500) for plural in ("functions", "tasks")]
    return {str(document["id"]) for page in listed for document in page["content"]}


@pytest.fixture
def folder(server: str, tmp_path: Path) -> Path:
    """The user's, with run files; the server has the project."""
    (tmp_path / "run.yaml").write_text(HELLO)
    (tmp_path / "service.yaml").write_text(SERVICE)
    with ry.Client() as client:
        client.get_or_create_project("demo")
    return tmp_path


def test_server_answers_and_stores_nothing_when_one_is_configured(call: Call, server: str, folder: Path) -> None:
    before = list_versions()
    table = call("explain", "-f", "run.yaml")
    assert table.code == 0, table.err
    assert table.err == f"note: answered by {server} (RUNYARD_ENDPOINT)\n"
    assert table.out.startswith("hello, job, project demo\n")
    assert table.out.endswith("would start, 1 warning\n")
    assert "run.yaml:5:8: warning: resources.mem.requests: profile small sets 256Mi" in table.out
    data = json.loads(call("explain", "-f", "run.yaml", "-o", "json").out)
    assert data["answered_by"] == server
    assert data["run"] == {"id": None, "project": "demo"}
    assert data["profile_revision"] == 1
    assert yaml.safe_load(call("explain", "-f", "run.yaml", "-o", "yaml").out) == data
    rendered = call("render", "-f", "service.yaml", "-o", "json")
    assert rendered.code == 0, rendered.err
    assert f"note: answered by {server} (RUNYARD_ENDPOINT)\n" in rendered.err
    assert server in json.loads(rendered.out)["metadata"]["annotations"].values()
    assert rendered.out == call("render", "-f", "service.yaml", "-o", "json").out
    documents = list(yaml.safe_load_all(call("render", "-f", "service.yaml").out))
    assert documents == json.loads(rendered.out)["items"]
    assert "Deployment" in {document["kind"] for document in documents}
    launched = call("render", "-f", "run.yaml")  # offline it is refused: only an engine has a launcher
    assert (launched.code, "kind: Job" in launched.out) == (0, True), launched.err
    assert list_versions() == before


def test_problems_have_the_lines_of_the_file_when_the_server_refuses(call: Call, server: str, folder: Path) -> None:
    (folder / "bad.yaml").write_text("image: busybox:1.36\nprofile: smal\nresources: {mem: 6Gb}\n")
    refused = call("explain", "-f", "bad.yaml")
    assert refused.code == 1
    assert "bad.yaml:3:18: error: resources.mem" in refused.err
    data = json.loads(call("explain", "-f", "bad.yaml", "-o", "json").out)
    assert (data["answered_by"], data["effective"]) == (None, None)  # the file cannot be read: nobody was asked
    assert {(problem["line"], problem["path"]) for problem in data["refusals"]} >= {(3, "resources.mem")}
    (folder / "unknown.yaml").write_text("image: busybox:1.36\nprofile: smal\n")
    unknown = call("explain", "-f", "unknown.yaml")
    assert (unknown.code, unknown.err) == (1, f"note: answered by {server} (RUNYARD_ENDPOINT)\n")
    assert "unknown.yaml:2:10: error: profile: there is no profile" in unknown.out
    rendered = call("render", "-f", "unknown.yaml")
    assert (rendered.code, rendered.out) == (1, "")
    assert "unknown.yaml:2:10: error: profile: there is no profile `smal`" in rendered.err
    assert f"note: answered by {server} (RUNYARD_ENDPOINT)\n" in rendered.err
    source = "source: {source: program.py}\n"
    (folder / "draft.yaml").write_text(source)
    drafted = call("explain", "-f", "draft.yaml")
    assert (drafted.code, "draft.yaml:1:" in drafted.err, "handler" in drafted.err) == (1, True, True), drafted.err


def test_functions_of_the_project_are_planned_when_the_file_names_one(call: Call, server: str, folder: Path) -> None:
    with ry.Client() as client:
        client.get_project("demo").new_function("box", "container", image="busybox:1.36")
    (folder / "named.yaml").write_text("function: box\nimage: busybox:1.36\n")
    before = list_versions()
    assert call("explain", "-f", "named.yaml").code == 0
    assert list_versions() == before


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--offline",), "by the built-in policy alone"),
        (("--policy", "policy.yaml"), "by --policy"),
        (("--profiles", "profiles", "--namespace", "ml"), "by --profiles, --namespace"),
    ],
)
def test_program_answers_by_itself_when_it_is_told_to(
    call: Call, server: str, folder: Path, options: tuple[str, ...], why: str
) -> None:
    (folder / "policy.yaml").write_text("resources.mem: {default: 256Mi}\n")
    (folder / "profiles").mkdir()
    (folder / "profiles/small.yaml").write_text("id: small\nresources: {requests: {memory: 32Mi}}\n")
    explained = call("explain", "-f", "service.yaml", *options, "-o", "json")
    assert (explained.code, explained.err) == (0, f"note: answered offline, {why}\n")
    assert json.loads(explained.out)["answered_by"] == "offline"
    rendered = call("render", "-f", "service.yaml", *options, "-o", "json")
    assert f"note: answered offline, {why}\n" in rendered.err
    assert "offline" in json.loads(rendered.out)["metadata"]["annotations"].values()
    both = call("render", "-f", "service.yaml", *options, "--endpoint", server)
    assert both.code == 2
    assert f"--endpoint names a server, and {options[0]} answers without one: use one of them" in both.err


def test_default_address_is_no_server_when_nothing_is_configured(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RUNYARD_ENDPOINT")
    explained = call("explain", "-f", "service.yaml")
    assert explained.code == 0
    assert explained.err == BUILT_IN_NOTE


def test_context_is_a_server_when_somebody_signed_in(
    call: Call, server: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("login", server, "--name", "lab", "--project", "demo").code == 0
    monkeypatch.delenv("RUNYARD_ENDPOINT")
    explained = call("explain", "-f", "service.yaml")
    assert (explained.code, f"note: answered by {server} (context lab in " in explained.err) == (0, True), explained.err


def test_nobody_answers_when_the_server_is_away(call: Call, folder: Path) -> None:
    for command in ("explain", "render"):
        away = call(command, "-f", "service.yaml", "--endpoint", "http://127.0.0.1:9")
        assert (away.code, away.out) == (1, "")
        told = "connection refused; is the server running? (--offline answers without a server)"
        assert away.err == f"error: http://127.0.0.1:9: {told}\n"
