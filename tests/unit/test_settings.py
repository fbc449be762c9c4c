import os
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

from runyard.settings import SETTINGS, Loaded, Settings, read_settings
from runyard.settings.settings import is_loopback
from runyard.spec.problems import Refused

HOME = {"HOME": "/home/ada"}
PASSWORD = "hunter2-and-more"


def read(environment: Mapping[str, str] | None = None, **flags: str | bool | None) -> Loaded:
    return read_settings(flags, environment={**HOME, **(environment or {})})


def refuse(environment: Mapping[str, str] | None = None, **flags: str | bool | None) -> list[str]:
    with pytest.raises(Refused) as refused:
        read(environment, **flags)
    return str(refused.value).splitlines()


def test_defaults_are_a_laptops_when_nothing_is_given() -> None:
    settings = read().settings
    assert (settings.host, settings.port, settings.auth, settings.engine) == ("127.0.0.1", 8080, None, "none")
    assert settings.data == Path("/home/ada/.local/state/runyard")
    assert settings.database == "sqlite:////home/ada/.local/state/runyard/runyard.db"
    assert settings.logs == "database:/home/ada/.local/state/runyard/logs.db"
    assert settings.key_file == Path("/home/ada/.local/state/runyard/key")
    assert settings.keep_runs is None
    assert set(read().sources.values()) == {"default"}


def test_every_setting_has_a_row_when_the_table_is_compared() -> None:
    names = [setting.name for setting in SETTINGS]
    assert sorted(names) == sorted(field.name for field in fields(Settings))
    assert len({setting.variable for setting in SETTINGS}) == len(names)
    assert all(setting.help.endswith(".") for setting in SETTINGS)


def test_stronger_layer_wins_when_several_name_a_setting(tmp_path: Path) -> None:
    file = tmp_path / "runyard.yaml"
    file.write_text("port: 1000\nmax_list: 7\nhost: localhost\n")
    loaded = read({"RUNYARD_SETTINGS": str(file), "RUNYARD_PORT": "2000", "RUNYARD_MAX_LIST": "8"}, port="3000")
    assert (loaded.settings.port, loaded.settings.max_list, loaded.settings.host) == (3000, 8, "localhost")
    assert loaded.sources["port"] == "--port"
    assert loaded.sources["max_list"] == "RUNYARD_MAX_LIST"
    assert loaded.sources["host"] == f"{file}:3"


def test_relative_paths_begin_at_the_file_when_it_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/runyard.yaml").write_text("data: ../state\nlogs: folder:logs\n")
    monkeypatch.chdir(tmp_path)
    settings = read(settings="etc/runyard.yaml").settings
    assert settings.data == tmp_path / "state"
    assert settings.logs == f"folder:{tmp_path}/etc/logs"
    assert read(data="state").settings.data == tmp_path / "state"


def test_database_can_be_opened_when_the_folder_has_odd_characters() -> None:
    assert read(data="/srv/100% ours?").settings.database == "sqlite:////srv/100%25%20ours%3F/runyard.db"


def test_state_folder_is_xdgs_when_it_is_absolute() -> None:
    assert read({"XDG_STATE_HOME": "/state"}).settings.data == Path("/state/runyard")
    assert read({"XDG_STATE_HOME": "state"}).settings.data == Path("/home/ada/.local/state/runyard")


def test_folder_is_asked_for_when_no_home_is_known() -> None:
    with pytest.raises(Refused, match="--data"):
        read_settings({}, environment={})


def test_log_may_be_larger_than_what_fits_into_memory_when_an_operator_says_so() -> None:
    assert read(max_log_bytes="20Gi").settings.max_log_bytes == 20 << 30
    assert refuse({}, max_log_bytes="2Ti") == [
        "--max-log-bytes: `2Ti` is out of range; allowed: 1Ki to 1Ti; did you mean: 1Ti"
    ]


def test_variable_is_not_given_when_it_is_empty() -> None:
    assert read({"RUNYARD_POLICY": "", "RUNYARD_PORT": ""}).settings.port == 8080


def test_every_problem_is_told_when_several_settings_are_wrong(tmp_path: Path) -> None:
    file = tmp_path / "runyard.yaml"
    file.write_text("prot: 1\nkeep_runs: 36h\nkey: abc\nmax_list: [1]\n")
    lines = refuse(
        {"RUNYARD_PORT": "70000", "RUNYARD_AUTH": "acounts", "RUNYARD_DRAIN": "20 sec"},
        settings=str(file),
        policy="/no/such/file",
        max_body_bytes="4 MB",
    )
    durations = "1s to 10m, such as 90s, 15m, 8h, 30d"
    assert sorted(lines) == sorted(
        [
            f"{file}:1: unknown setting `prot`; did you mean: port",
            f"{file}:2: `keep_runs` `36h` is not a number of whole days; allowed: such as 30d; did you mean: 2d",
            f"{file}:3: `key` is a secret: set the variable RUNYARD_KEY instead",
            f"{file}:4: `max_list` takes one value, not a list or a mapping",
            "RUNYARD_PORT: `70000` is out of range; allowed: 0 to 65535; did you mean: 65535",
            "RUNYARD_AUTH: `acounts` is not allowed; allowed: open, accounts; did you mean: accounts",
            f"RUNYARD_DRAIN: `20 sec` is not a valid duration; allowed: {durations}; did you mean: 20s",
            "--policy: `/no/such/file` cannot be read; allowed: a file",
            "--max-body-bytes: `4 MB` is not a valid size; allowed: 1Ki to 1Gi; did you mean: 4Mi",
        ]
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [("- a\n", "mapping"), ("port: [\n", "line"), ("", "empty"), ("a: 1\n---\nb: 2\n", "second document")],
)
def test_file_is_named_when_it_is_not_a_mapping(tmp_path: Path, text: str, word: str) -> None:
    file = tmp_path / "runyard.yaml"
    file.write_text(text)
    (line,) = refuse(settings=str(file))
    assert line.startswith(str(file))
    assert word in line


@pytest.mark.parametrize(
    ("text", "meant"), [("0d", "1d"), ("90", "90d"), ("0", "1d"), ("1h", "1d"), ("9000d", "3650d"), ("30 days", "30d")]
)
def test_suggestion_is_allowed_itself_when_a_duration_is_not(text: str, meant: str) -> None:
    (line,) = refuse({"RUNYARD_KEEP_RUNS": text})
    assert line.endswith(f"did you mean: {meant}")


def test_file_is_refused_when_it_is_not_there() -> None:
    (line,) = refuse({"RUNYARD_SETTINGS": "/no/such.yaml"})
    assert line.startswith("RUNYARD_SETTINGS: `/no/such.yaml`")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("host", "http://localhost"),
        ("host", "a b"),
        ("port", "http"),
        ("port", "-1"),
        ("endpoint", "runyard.example.org"),
        ("endpoint", "ftp://runyard.example.org"),
        ("endpoint", "http://a/?b=c"),
        ("endpoint", "http://[::1"),
        ("database", "mysql://db/name"),
        ("database", "runyard.db"),
        ("engine", "kubernets"),
        ("kubeconfig", "/no/such/file"),
        ("namespace", "Not_A_Namespace"),
        ("profiles", "/no/such/folder"),
        ("auth", "none"),
        ("behind_proxy", "maybe"),
        ("trusted_proxies", "10.0.0.0/8,proxy"),
        ("trusted_proxies", ","),
        ("access_token_life", "1s"),
        ("logs", "s3://A"),
        ("logs", "floppy"),
        ("logs", "folder:"),
        ("files_store", "bucket"),
        ("keep_logs", "never"),
        ("keep_logs", "0"),
        ("max_body_bytes", "1"),
        ("max_list", "0"),
        ("max_streams", "many"),
        ("max_requests", "0"),
        ("max_requests", "-3"),
        ("log_level", "verbose"),
        ("data", ""),
        ("s3_region", " "),
        ("data", "~nobody-of-that-name/x"),
    ],
)
def test_value_is_refused_with_its_flag_when_it_cannot_be(name: str, text: str) -> None:
    (line,) = refuse(None, **{name: text})
    assert line.startswith(f"--{name.replace('_', '-')}: ")


def test_cause_is_told_when_kubernetes_has_set_the_port() -> None:
    (line,) = refuse({"RUNYARD_PORT": "tcp://10.96.0.7:8080"})
    assert "enableServiceLinks" in line


def test_values_are_read_when_they_are_right(tmp_path: Path) -> None:
    settings = read(
        {"RUNYARD_BEHIND_PROXY": "yes", "RUNYARD_MAX_REQUESTS": "2.5"},
        keep_runs="2w",
        keep_logs="forever",
        endpoint="https://runyard.example.org/",
        trusted_proxies="10.1.0.0/16, ::1",
        max_body_bytes="1Mi",
        drain="1m",
        host="[::1]",
        profiles=str(tmp_path),
        files_store="s3://bucket/",
    ).settings
    assert settings.keep_runs == timedelta(days=14)
    assert settings.keep_logs is None
    assert settings.endpoint == "https://runyard.example.org"
    assert settings.trusted_proxies == ("10.1.0.0/16", "::1")
    assert (settings.max_body_bytes, settings.max_requests, settings.host) == (1 << 20, 2.5, "::1")
    assert (settings.profiles, settings.files_store) == (tmp_path, "s3://bucket")
    assert settings.auth == "accounts"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.1", False),
        ("localhost.example.org", False),
        ("127.0.0.1.example.org", False),
    ],
)
def test_loopback_is_known_when_a_host_is_given(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def make_pair(folder: Path) -> dict[str, str]:
    for name in ("cert.pem", "key.pem"):
        (folder / name).write_text("x")
    return {"tls_certificate": str(folder / "cert.pem"), "tls_key": str(folder / "key.pem")}


def test_other_hosts_have_accounts_when_they_are_guarded(tmp_path: Path) -> None:
    assert read(None, host="0.0.0.0", **make_pair(tmp_path)).settings.auth == "accounts"
    assert read(host="0.0.0.0", behind_proxy=True).settings.auth == "accounts"
    assert read(None, host="0.0.0.0", **make_pair(tmp_path)).settings.has_tls


def test_other_hosts_are_refused_when_nothing_guards_them() -> None:
    (line,) = refuse(host="0.0.0.0")
    assert line == (
        "--host: `0.0.0.0` is reachable from other machines, and passwords would be sent in clear: "
        "set --tls-certificate and --tls-key, or --behind-proxy"
    )


def test_open_mode_is_refused_when_others_can_reach_it(tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    (line,) = refuse({"RUNYARD_AUTH": "open"}, host="10.0.0.1", **pair)
    assert line == (
        "RUNYARD_AUTH: `open` needs no sign-in, and --host `10.0.0.1` makes the server reachable from other machines; "
        "allowed: open on loopback, without a proxy; did you mean: accounts"
    )
    (line,) = refuse(auth="open", behind_proxy=True)
    assert line.startswith(
        "--auth: `open` needs no sign-in, and --behind-proxy makes the server reachable from other machines"
    )


def test_flag_that_opens_is_refused_when_others_can_reach_the_server_or_accounts_are_asked_for(tmp_path: Path) -> None:
    flag = "--open-to-everyone-on-this-machine"
    (line,) = refuse(None, open_to_everyone_on_this_machine=True, host="10.0.0.1", **make_pair(tmp_path))
    assert line == f"{flag}: works on loopback only, and --host `10.0.0.1` lets other machines in"
    (line,) = refuse(None, open_to_everyone_on_this_machine=True, behind_proxy=True)
    assert line == f"{flag}: works on loopback only, and --behind-proxy lets other machines in"
    (line,) = refuse(None, open_to_everyone_on_this_machine=True, auth="accounts")
    assert line == f"{flag}: contradicts --auth `accounts`; set only one"
    assert read(None, open_to_everyone_on_this_machine=True, auth="open").settings.open_to_everyone_on_this_machine


def test_half_of_a_pair_is_refused_when_the_other_is_missing(tmp_path: Path) -> None:
    for name, path in make_pair(tmp_path).items():
        (line,) = refuse(None, **{name: path})
        assert "has no effect without --tls-" in line


def test_one_key_is_enough_when_two_are_given() -> None:
    (line,) = refuse({"RUNYARD_KEY": PASSWORD}, key_file="/etc/key")
    assert line == "--key-file: conflicts with RUNYARD_KEY, which holds the key itself; set only one"


def test_credentials_are_asked_for_when_logs_go_to_s3() -> None:
    lines = refuse({"RUNYARD_S3_ACCESS_KEY": "AKID"}, logs="s3://bucket/logs")
    assert lines == ["--logs: `s3://bucket/logs` requires the variable RUNYARD_S3_SECRET_KEY"]


def test_credentials_are_asked_for_when_files_go_to_s3(tmp_path: Path) -> None:
    lines = refuse({"RUNYARD_S3_SECRET_KEY": PASSWORD}, files="s3://bucket/files")
    assert lines == ["--files: `s3://bucket/files` requires the variable RUNYARD_S3_ACCESS_KEY"]
    assert read({"RUNYARD_FILES": str(tmp_path / "a/../b")}).settings.files == str(tmp_path / "b")
    for wrong in ("s3://A", "folder:/tmp"):
        assert "is not " in refuse({}, files=wrong)[0]


@pytest.mark.parametrize("store", ["s3://bucket", "s3://bucket/files", "s3://bucket/files/clients"])
def test_files_store_is_refused_when_clients_could_reach_what_the_server_stores(store: str) -> None:
    keys = {"RUNYARD_S3_ACCESS_KEY": "AKID", "RUNYARD_S3_SECRET_KEY": PASSWORD}
    (line,) = refuse(keys, files="s3://bucket/files", files_store=store)
    assert line.startswith(f"--files-store: `{store}` overlaps --files `s3://bucket/files`")
    read({**keys, "RUNYARD_FILES": "s3://bucket/files", "RUNYARD_FILES_STORE": "s3://bucket/filestore"})


def test_client_credentials_are_asked_for_when_clients_are_to_get_them() -> None:
    lines = refuse({"RUNYARD_S3_CLIENT_ACCESS_KEY": "AKID"}, s3_credentials_for_clients=True)
    assert lines == [
        "--s3-credentials-for-clients: has no effect without --files-store",
        "--s3-credentials-for-clients: requires the variable RUNYARD_S3_CLIENT_SECRET_KEY",
    ]
    same = {
        **{f"RUNYARD_S3_{name}": "AKID" for name in ("ACCESS_KEY", "CLIENT_ACCESS_KEY", "CLIENT_SECRET_KEY")},
        "RUNYARD_FILES_STORE": "s3://bucket",
    }
    (line,) = refuse(same, s3_credentials_for_clients=True)
    assert "is the key of the server itself" in line


def test_secrets_are_not_shown_when_settings_are_printed() -> None:
    environment = {
        "RUNYARD_KEY": PASSWORD,
        "RUNYARD_DATABASE": f"postgresql://ada:{PASSWORD}@db/runyard",
        "RUNYARD_S3_ACCESS_KEY": PASSWORD,
        "RUNYARD_S3_SECRET_KEY": PASSWORD,
        "RUNYARD_S3_CLIENT_SECRET_KEY": PASSWORD,
    }
    loaded = read(environment)
    assert loaded.settings.key == PASSWORD
    assert PASSWORD not in repr(loaded)


@pytest.mark.parametrize(
    ("name", "text"),
    [("database", f"postgress://ada:{PASSWORD}@db/x"), ("database", PASSWORD), ("endpoint", f"http://a:{PASSWORD}@b")],
)
def test_secrets_are_not_repeated_when_they_are_refused(name: str, text: str) -> None:
    (line,) = refuse(None, **{name: text})
    assert PASSWORD not in line


def test_warnings_are_given_when_settings_look_mistaken() -> None:
    loaded = read(
        {"RUNYARD_DATABSE": "x", "RUNYARD_SERVICE_HOST": "10.0.0.1", "RUNYARD_KILL_SEED": "1"},
        database=f"postgresql://ada:{PASSWORD}@db/runyard",
        host="0.0.0.0",
        behind_proxy=True,
    )
    assert [warning.partition(":")[0] for warning in loaded.warnings] == [
        "RUNYARD_DATABSE",
        "--database",
        "--endpoint",
        "--trusted-proxies",
        "--logs",
    ]
    assert PASSWORD not in str(loaded.warnings)
    (warning,) = read(trusted_proxies="::1").warnings
    assert warning == "--trusted-proxies: has no effect without --behind-proxy"


def test_one_namespace_is_refused_when_each_project_has_its_own() -> None:
    (line,) = refuse(None, engine="kubernetes", namespace="runs", namespace_per_project=True)
    assert line == "--namespace: contradicts --namespace-per-project; set only one"


def test_warnings_are_given_when_cluster_settings_cannot_work() -> None:
    (warning,) = read(engine="kubernetes").warnings
    assert warning.startswith("--endpoint: not set; pods cannot reach the server at its loopback address")
    assert read(engine="kubernetes", endpoint="https://runyard.example.org").warnings == ()
    warnings = read(context="c", namespace="runs").warnings
    assert warnings == (
        "--context: has no effect without --engine kubernetes",
        "--namespace: has no effect without --engine kubernetes",
    )


def test_limits_of_projects_are_read_when_each_has_a_namespace() -> None:
    loaded = read(
        engine="kubernetes",
        endpoint="https://runyard.example.org",
        namespace_per_project=True,
        project_quota="requests.cpu=20, count/jobs.batch=500",
        project_default_limits="memory=1Gi",
        project_networks="10.1.0.0/16",
    )
    assert loaded.warnings == ()
    assert loaded.settings.project_quota == {"requests.cpu": "20", "count/jobs.batch": "500"}
    assert loaded.settings.project_default_limits == {"memory": "1Gi"}
    assert loaded.settings.project_networks == ("10.1.0.0/16",)
    (warning,) = read(engine="kubernetes", endpoint="https://runyard.example.org", project_networks="all").warnings
    assert warning == "--project-networks: has no effect without --namespace-per-project"


@pytest.mark.parametrize("text", ["cpu", "cpu=", "=1", "cpu=x", "cpu=-1", "cpu=1,cpu=2", ","])
def test_amounts_are_refused_when_one_is_wrong(text: str) -> None:
    (line,) = refuse(None, project_quota=text)
    assert line.startswith("--project-quota: ")


def test_others_are_not_looked_at_when_only_some_are_needed() -> None:
    environment = {**HOME, "RUNYARD_PORT": "nonsense", "RUNYARD_HOST": "0.0.0.0", "RUNYARD_DATA": "/srv"}
    loaded = read_settings({}, environment=environment, only={"data", "database"})
    assert loaded.settings.database == "sqlite:////srv/runyard.db"


def test_environment_of_the_process_is_read_when_none_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("RUNYARD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RUNYARD_PORT", "4711")
    assert read_settings({}).settings.port == 4711


def test_only_a_proxy_on_this_machine_is_believed_when_no_other_is_named() -> None:
    assert read(behind_proxy=True).settings.trusted_proxies == ("127.0.0.0/8", "::1/128")
    named = read(behind_proxy=True, host="0.0.0.0", endpoint="https://runyard.example", trusted_proxies="10.1.2.3")
    assert named.warnings == ()


def test_own_logs_of_each_server_are_told_when_the_database_can_be_shared() -> None:
    shared = {"RUNYARD_DATABASE": "postgresql://db/runyard"}
    (warning,) = read(shared).warnings
    assert warning.startswith("--logs: run logs are stored in a file that only this server can read")
    assert read(shared, logs="folder:/srv/logs").warnings == ()
    assert read().warnings == ()


def test_no_warning_is_given_when_a_setting_was_not_read() -> None:
    environment = {
        **HOME,
        "RUNYARD_DATABASE": "postgresql://db/runyard",
        "RUNYARD_BEHIND_PROXY": "yes",
        "RUNYARD_TRUSTED_PROXIES": "10.1.2.3",
    }
    assert read_settings({}, environment=environment, only={"data", "database"}).warnings == ()
