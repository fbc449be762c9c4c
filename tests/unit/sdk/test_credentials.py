import stat
from pathlib import Path

import pytest

from runyard.sdk.contexts import Context, Contexts, find_path, load_contexts, save_contexts
from runyard.sdk.credentials import find_credentials
from runyard.sdk.errors import ConfigurationError

INI = """[DEFAULT]
current_environment = lab

[lab]
dhcore_endpoint = https://dh.example.org/
dhcore_access_token = old
dhcore_refresh_token = refresh
dhcore_client_id = c1
db_host = unrelated
"""


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def store(home: dict[str, str], **contexts: Context) -> Path:
    path = find_path(home)
    save_contexts(path, Contexts(next(iter(contexts)), contexts))
    return path


def test_server_of_this_machine_is_used_when_nothing_is_configured(home: dict[str, str]) -> None:
    found = find_credentials(environ=home)
    assert (found.endpoint, found.source, found.authorization) == ("http://localhost:8080", "default", None)


def test_first_source_is_used_alone_when_several_name_a_server(home: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".dhcore.ini").write_text(INI)
    assert find_credentials(environ=home).endpoint == "https://dh.example.org"
    store(
        home, lab=Context(endpoint="http://lab", token="t1"), other=Context(endpoint="http://other", project="vision")
    )
    assert find_credentials(environ=home).authorization == "Bearer t1"
    variables = {**home, "DHCORE_ENDPOINT": "http://dh", "DHCORE_USER": "ada", "DHCORE_PASSWORD": "pw"}
    assert find_credentials(environ=variables).authorization == "Basic YWRhOnB3"
    variables["RUNYARD_ENDPOINT"] = "http://ry"
    ours = find_credentials(environ=variables)
    assert (ours.endpoint, ours.authorization) == ("http://ry", None), "the password of another server is not sent"
    named = find_credentials(environ={**variables, "RUNYARD_CONTEXT": "other"})
    assert (named.endpoint, named.project, named.authorization) == ("http://other", "vision", None)
    assert find_credentials(endpoint="http://arg/", environ=variables).endpoint == "http://arg"


def test_project_of_the_environment_wins_when_a_context_has_one(home: dict[str, str]) -> None:
    store(home, lab=Context(endpoint="http://lab", project="vision"))
    assert find_credentials(environ=home).project == "vision"
    assert find_credentials(environ={**home, "RUNYARD_PROJECT": "speech"}).project == "speech"


def test_personal_token_is_used_when_dhcore_names_one(home: dict[str, str]) -> None:
    variables = {"DHCORE_ENDPOINT": "http://dh", "DHCORE_PERSONAL_ACCESS_TOKEN": "pat", "DHCORE_ACCESS_TOKEN": "old"}
    found = find_credentials(environ={**home, **variables, "DHCORE_REFRESH_TOKEN": "r"})
    assert (found.authorization, found.refresh_token) == ("Bearer pat", None)


def test_refreshed_tokens_are_written_back_when_they_came_from_the_ini_file(
    home: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / ".dhcore.ini"
    path.write_text(INI)
    found = find_credentials(environ=home)
    assert (found.token, found.refresh_token, found.client_id) == ("old", "refresh", "c1")
    assert found.refreshed("new", "refresh-2").token == "new"
    again = find_credentials(environ=home)
    assert (again.token, again.refresh_token) == ("new", "refresh-2")
    assert "db_host = unrelated" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_file_is_for_its_owner_alone_when_contexts_are_saved(home: dict[str, str]) -> None:
    path = store(home, lab=Context(endpoint="http://lab", token="secret"))
    path.chmod(0o644)
    save_contexts(path, load_contexts(path).put("new", Context(endpoint="http://new")))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]
    loaded = load_contexts(path)
    assert (loaded.current, sorted(loaded.by_name)) == ("new", ["lab", "new"])
    assert "secret" not in repr(loaded)
    assert loaded.drop("new").current is None


def test_nearest_context_is_named_when_it_is_unknown(home: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="sign in with `runyard login`"):
        find_credentials(context="lab", environ=home)
    store(home, production=Context(endpoint="http://p"))
    with pytest.raises(ConfigurationError, match="unknown context prodution; did you mean production"):
        find_credentials(context="prodution", environ=home)
    with pytest.raises(ConfigurationError, match="known: production"):
        find_credentials(context="zzz", environ=home)


@pytest.mark.parametrize(
    "endpoint",
    ["localhost:8080", "ftp://x", "http://", "http://ada:pw@host", "http://h?x=1", "http://h:99999", "http://a..b"],
)
def test_endpoint_is_refused_when_it_is_not_an_address(home: dict[str, str], endpoint: str) -> None:
    with pytest.raises(ConfigurationError, match="http or https address") as raised:
        find_credentials(endpoint=endpoint, environ=home)
    assert "pw" not in str(raised.value)


@pytest.mark.parametrize("content", ["{", "[]", '{"contexts": {"a": {}}}', '{"contexts": {"a": 1}}'])
def test_file_is_named_when_it_is_not_one_of_contexts(home: dict[str, str], content: str) -> None:
    path = find_path(home)
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"contexts\.json: is not a file of contexts"):
        find_credentials(environ=home)
