from pathlib import Path

import pytest

from runyard.bootstrap import AddressUnusable
from runyard.settings import SETTINGS, Settings
from runyard.settings.table import SETTINGS_FILE
from runyard.store.errors import StoreLocked
from tests.unit.cli.conftest import Call


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RUNYARD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings that were to be served."""
    taken: list[Settings] = []
    monkeypatch.setattr("runyard.bootstrap.serve", taken.append)
    return taken


def test_every_setting_is_documented_when_help_is_asked(call: Call) -> None:
    text = " ".join(call("server", "--help").out.split())
    for setting in (*SETTINGS, SETTINGS_FILE):
        assert f"{setting.variable}" in text
        assert (f"{setting.flag} " in text) is not setting.is_secret, setting.flag
    assert "~/.local/state/runyard" in text


def test_server_is_served_with_the_settings_when_they_are_right(
    call: Call, served: list[Settings], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNYARD_MAX_LIST", "7")
    called = call("server", "--port", "0", "--behind-proxy", "--log-format", "json")
    assert (called.code, called.err) == (0, "")
    (settings,) = served
    assert (settings.port, settings.behind_proxy, settings.auth) == (0, True, "accounts")
    assert (settings.log_format, settings.max_list, settings.data) == ("json", 7, data)


def test_switch_is_off_when_its_flag_says_so(
    call: Call, served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNYARD_BEHIND_PROXY", "true")
    assert call("server", "--no-behind-proxy").code == 0
    assert served[0].behind_proxy is False


def test_every_problem_has_one_line_when_settings_are_wrong(
    call: Call, served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNYARD_LOG_LEVEL", "verbose\x1b[31m")
    called = call("server", "--port", "http", "--host", "0.0.0.0")
    assert called.code == 2
    assert served == []
    lines = called.err.splitlines()
    assert [line.split()[1] for line in lines] == ["--port:", "RUNYARD_LOG_LEVEL:", "--host:"]
    assert "\x1b" not in called.err


def test_failure_is_one_line_when_the_server_cannot_start(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (StoreLocked("the database is in use by process 7"), AddressUnusable("cannot listen on x:1: in use")):

        def fail(_settings: Settings, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("runyard.bootstrap.serve", fail)
        called = call("server")
        assert (called.code, called.err) == (1, f"error: {error}\n")


def test_settings_are_shown_with_their_sources_when_checked(
    call: Call, served: list[Settings], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNYARD_KEY", "a-secret-key-text")
    called = call("server", "--check", "--port", "9000", "--keep-runs", "2w")
    assert (called.code, called.err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in called.out.splitlines()[1:-1]}
    assert rows["port"] == ["9000", "--port"]
    assert rows["keep_runs"] == ["14d", "--keep-runs"]
    assert rows["keep_audit"] == ["forever", "default"]
    assert rows["max_body_bytes"] == ["4Mi", "default"]
    assert rows["max_entity_bytes"] == ["100Gi", "default"]
    assert rows["max_project_bytes"] == ["1Ti", "default"]
    assert rows["max_requests"] == ["200", "default"]
    assert rows["key"] == ["(set)", "RUNYARD_KEY"]
    assert rows["data"] == [str(data), "RUNYARD_DATA"]
    assert "a-secret-key-text" not in called.out
    assert called.out.endswith("settings: ok; database: empty\n")
    assert served == []
    assert not data.exists()


def test_files_are_looked_at_when_checked(call: Call, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("resources.mem: {max: lots}\n")
    called = call("server", "--check", "--policy", tmp_path / "policy.yaml")
    assert called.code == 1
    assert f"{tmp_path}/policy.yaml:1:" in called.err


def test_certificate_and_key_are_a_pair_when_checked(call: Call, tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("not a certificate")
    called = call("server", "--check", "--tls-certificate", tmp_path / "tls.crt", "--tls-key", tmp_path / "tls.key")
    assert called.code == 1
    assert "do not match" in called.err


def test_wrong_settings_are_coloured_like_other_errors_when_on_a_terminal(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.cli.output.has_colour", lambda _stream: True)
    for arguments in (["--port", "y"], ["--prot", "9"]):
        called = call("server", *arguments)
        assert called.code == 2
        assert "\x1b[31m\x1b[1merror:\x1b[0m " in called.err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--namespace-per-project", "--port", "99999999"], "`--port`, `--namespace-per-project`"),
        (["--no-behind-proxy"], "`--behind-proxy`"),
        (["--check"], "`--check`"),
        (["--settings", "/etc/runyard.yaml"], "`--settings`"),
    ],
)
def test_options_are_refused_when_they_are_before_a_subcommand(call: Call, options: list[str], named: str) -> None:
    called = call("server", *options, "rbac", "--namespace", "x")
    assert (called.code, called.out) == (2, "")
    advice = "write the options of `rbac` after it; `runyard server rbac --help` lists them"
    assert f"error: {named} before `rbac` would have no effect: {advice}\n" in called.err


def test_settings_of_the_environment_are_no_options_when_rights_are_printed(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNYARD_PORT", "9000")
    called = call("server", "rbac", "--namespace", "x")
    assert (called.code, called.err) == (0, "")
    assert "kind: Role" in called.out


LABEL = "must consist of lower-case letters, digits and `-`, and begin and end with a letter or digit"


@pytest.mark.parametrize(
    ("options", "errors"),
    [
        (["--namespace", "Bad Name"], [f"--namespace: `Bad Name` {LABEL}"]),
        (["--namespace", ""], ["--namespace: `` must not be empty"]),
        (["--namespace", "a.b"], ["--namespace: `a.b` must not contain dots"]),
        (["--namespace", "x" * 64], ["must have at most 63 characters, not 64"]),
        (["--namespace", "x\x1b[31m"], ["--namespace: `x\\x1b[31m` "]),
        (["--namespace", "x", "--service-account", "a/b/c"], [f"--service-account, the name: `b/c` {LABEL}"]),
        (["--namespace", "x", "--service-account", "a/b.c"], ["--service-account, the name: `b.c` must not contain"]),
        (["--namespace-per-project", "--service-account", "/b"], ["the namespace: `` must not be empty"]),
        (["--namespace-per-project", "--service-account", "a"], ["--service-account: `a` must be NS/NAME, like"]),
        (["--namespace", "A", "--service-account", "B/C"], ["--namespace: `A`", "namespace: `B`", "name: `C`"]),
    ],
)
def test_rights_are_not_printed_when_no_apiserver_would_take_the_names(
    call: Call, options: list[str], errors: list[str]
) -> None:
    called = call("server", "rbac", *options)
    assert (called.code, called.out) == (2, "")
    assert [error for error in errors if error not in called.err] == []
