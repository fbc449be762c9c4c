"""Kubeconfig and in-cluster configuration: read as kubectl reads them, refused where kubectl would guess."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from runyard.kube.config import ClusterConfig, load_config, load_in_cluster, load_kubeconfig
from runyard.kube.credentials import StaticCredentials, TokenFileCredentials
from runyard.kube.errors import ConfigError
from runyard.kube.exec_plugin import ExecCredentials
from runyard.kube.tls import ClientCertificate

CA = b"-----BEGIN CERTIFICATE-----\nca\n-----END CERTIFICATE-----\n"
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login", "interactiveMode": "Never"}
KEY = b"-----BEGIN PRIVATE KEY-----\nkey\n-----END PRIVATE KEY-----\n"


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def kubeconfig(
    *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **context: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u", **context}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://example:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }


def write(path: Path, content: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


def load(folder: Path, **parts: Any) -> ClusterConfig:
    return load_kubeconfig(write(folder / "config", kubeconfig(**parts)))


async def authorization(config: ClusterConfig) -> str | None:
    return (await config.credentials.get()).authorization


async def test_first_file_wins_when_several_define_a_name(tmp_path: Path) -> None:
    first = {
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "first"}}],
        "users": [{"name": "u", "user": {"token": "first"}}],
    }
    second = kubeconfig(user={"token": "second", "username": "must not be merged in"}, namespace="second")
    files = [write(tmp_path / "a", first), tmp_path / "missing", write(tmp_path / "b", second)]
    config = load_kubeconfig(environ={"KUBECONFIG": ":".join(["", *map(str, files)])})
    assert config.server == "https://example:6443"
    assert config.namespace == "first"
    assert await authorization(config) == "Bearer first"


def test_home_is_read_when_no_variable_says_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / ".kube" / "config", kubeconfig())
    assert load_kubeconfig(environ={}).server == "https://example:6443"


def test_namespace_is_default_when_the_context_says_none(tmp_path: Path) -> None:
    assert load(tmp_path).namespace == "default"


def test_context_is_chosen_when_it_is_named(tmp_path: Path) -> None:
    content = kubeconfig()
    content["contexts"].append({"name": "two", "context": {"cluster": "c", "namespace": "other"}})
    config = load_kubeconfig(write(tmp_path / "config", content), context="two")
    assert config.namespace == "other"
    assert config.credentials == StaticCredentials()


def test_files_are_relative_to_the_kubeconfig_when_paths_are_relative(tmp_path: Path) -> None:
    for name, content in (("ca.pem", CA), ("me.pem", CA), ("key.pem", KEY)):
        (tmp_path / name).write_bytes(content)
    user = {"client-certificate": "../me.pem", "client-key": "../key.pem"}
    config = load(tmp_path / "sub", cluster={"certificate-authority": "../ca.pem"}, user=user)
    assert config.ca == CA
    assert isinstance(config.credentials, StaticCredentials)
    assert config.credentials.credential.certificate == ClientCertificate(CA, KEY)


def test_data_wins_when_a_file_is_named_too(tmp_path: Path) -> None:
    cluster = {"certificate-authority": "missing.pem", "certificate-authority-data": encoded(CA)}
    assert load(tmp_path, cluster=cluster).ca == CA


def test_cluster_options_are_taken_over_when_they_are_said(tmp_path: Path) -> None:
    cluster = {
        "server": "https://[::1]:6443/k8s/clusters/c-1",
        "tls-server-name": "kubernetes",
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://proxy:3128",
        "extensions": [{"name": "minikube.sigs.k8s.io", "extension": {"version": "1"}}],
    }
    config = load(tmp_path, cluster=cluster)
    assert config.server == "https://[::1]:6443/k8s/clusters/c-1"
    assert config.tls_server_name == "kubernetes"
    assert config.skip_tls_verify
    assert config.proxy_url == "http://proxy:3128"


async def test_user_is_taken_over_when_it_has_a_token_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    config = load(tmp_path, user={"tokenFile": "token", "token": "initial"})
    assert isinstance(config.credentials, TokenFileCredentials)
    assert await authorization(config) == "Bearer from-file"


async def test_user_is_taken_over_when_it_has_a_password(tmp_path: Path) -> None:
    config = load(tmp_path, user={"username": "me", "password": "päss:word"})
    assert await authorization(config) == f"Basic {encoded('me:päss:word'.encode())}"


def test_plugin_is_taken_over_when_the_user_has_one(tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/login",
        "args": ["--cluster", "x"],
        "env": [{"name": "A", "value": "1"}],
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": True,
        "installHint": "apt install login",
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}
    cluster = {"certificate-authority-data": encoded(CA), "extensions": [extension]}
    config = load(tmp_path, cluster=cluster, user={"exec": plugin})
    assert isinstance(config.credentials, ExecCredentials)
    loaded = config.credentials.plugin
    assert loaded.command == str(tmp_path / "bin/login")
    assert loaded.arguments == ("--cluster", "x")
    assert loaded.environment == {"A": "1"}
    assert loaded.install_hint == "apt install login"
    assert loaded.cluster == {
        "server": "https://example:6443",
        "certificate-authority-data": encoded(CA),
        "config": {"audience": "me"},
    }


def test_plugin_is_not_looked_up_when_kubeconfig_and_command_are_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("config"), kubeconfig(user={"exec": {**EXEC, "command": "./login"}}))
    config = load_kubeconfig(Path("config"))
    assert isinstance(config.credentials, ExecCredentials)
    assert config.credentials.plugin.command == str(tmp_path / "login")


def test_plugin_is_looked_up_in_the_path_when_its_command_is_bare(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login"}
    config = load(tmp_path, user={"exec": plugin})
    assert isinstance(config.credentials, ExecCredentials)
    assert config.credentials.plugin.command == "login"
    assert config.credentials.plugin.cluster is None


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"cluster": {"server": ""}}, "server is missing"),
        ({"cluster": {"server": "example:6443"}}, "must be http"),
        ({"cluster": {"server": "ftp://example"}}, "must be http"),
        ({"cluster": {"server": "https://me@example"}}, "no user, query or fragment"),
        ({"cluster": {"server": "https://example:99999"}}, "server is not an address"),
        ({"cluster": {"server": "http://example"}, "user": {"token": "t"}}, "in the clear"),
        ({"cluster": {"certificate-authority-data": "%%%"}}, "certificate-authority-data is not base64"),
        ({"cluster": {"certificate-authority-data": encoded(b"text")}}, "certificate-authority is not PEM"),
        ({"cluster": {"certificate-authority": "missing.pem"}}, r"missing\.pem: No such file"),
        (
            {"cluster": {"certificate-authority-data": encoded(CA), "insecure-skip-tls-verify": True}},
            "exclude each other",
        ),
        ({"cluster": {"insecure-skip-tls-verify": "yes"}}, "must be true or false, is `yes`"),
        ({"cluster": {"proxy-url": "socks5://proxy"}}, "proxy-url of scheme `socks5`"),
        ({"cluster": {"sever": "https://x"}}, "field `sever` is not supported; known are certificate-authority"),
        ({"user": {"token": 12345}}, "token must be a string, is int"),
        ({"user": {"token": "two\nlines"}}, "characters that no header can carry"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "field `auth-provider` is not supported"),
        ({"user": {"as": "root"}}, "field `as` is not supported"),
        ({"user": {"token": "t", "username": "me"}}, "more than one way to authenticate: token, username"),
        ({"user": {"token": "t", "exec": EXEC}}, "more than one way to authenticate: token, exec"),
        ({"user": {"client-certificate-data": encoded(CA)}}, "client-key is missing"),
        (
            {"user": {"client-certificate-data": encoded(CA), "client-key-data": encoded(KEY), "exec": EXEC}},
            "more than one way to authenticate: exec, client-certificate",
        ),
        ({"user": {"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}}}, "apiVersion"),
        ({"user": {"exec": {**EXEC, "interactiveMode": "Always"}}}, "supported are Never and IfAvailable"),
        ({"user": {"exec": {**EXEC, "interactiveMode": None}}}, "interactiveMode is missing"),
        ({"user": {"exec": {**EXEC, "command": ""}}}, "command is missing"),
        ({"user": {"exec": {**EXEC, "args": "x"}}}, "args must be a list of strings"),
        ({"user": {"exec": {**EXEC, "env": [{"value": "x"}]}}}, "env must be a list"),
        ({"user": {"exec": {**EXEC, "env": {"A": "x"}}}}, "env must be a list"),
        ({"user": {"exec": {**EXEC, "cmd": "x"}}}, "field `cmd` is not supported"),
        ({"user": {"exec": ["login"]}}, "exec must be a mapping"),
        ({"namespace": "Not A Label"}, "namespace `Not A Label` is not a DNS label"),
        ({"cluster_name": "x"}, "field `cluster_name` is not supported"),
    ],
)
def test_section_is_refused_when_it_cannot_be_used(tmp_path: Path, parts: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        load(tmp_path, **parts)
    assert str(tmp_path / "config") in str(caught.value)


@pytest.mark.parametrize(
    "parts", [{"cluster": {"server": "http://127.0.0.1:8001"}}, {"cluster": {"server": "http://localhost:8001"}}]
)
async def test_plain_http_is_taken_when_it_stays_on_this_machine(tmp_path: Path, parts: dict[str, Any]) -> None:
    assert await authorization(load(tmp_path, user={"token": "t"}, **parts)) == "Bearer t"


def test_nearest_names_are_said_when_a_context_is_unknown(tmp_path: Path) -> None:
    content = kubeconfig()
    content["contexts"] = [{"name": name, "context": {"cluster": "c"}} for name in ("production", "staging")]
    path = write(tmp_path / "config", content)
    with pytest.raises(ConfigError, match=r"no context `prodution` in .*config: did you mean `production`\?"):
        load_kubeconfig(path, context="prodution")
    with pytest.raises(ConfigError, match="there are 'production', 'staging'"):
        load_kubeconfig(path, context="x")


def test_names_are_listed_when_a_section_is_missing(tmp_path: Path) -> None:
    content = kubeconfig()
    content["users"] = []
    with pytest.raises(ConfigError, match=r"no user `u` in .*: there is none"):
        load_kubeconfig(write(tmp_path / "config", content))
    del content["current-context"]
    with pytest.raises(ConfigError, match=r"no current-context in .*: there are 'one'"):
        load_kubeconfig(write(tmp_path / "config", content))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("users:\n- name: u\n  user: {token: sesame\n", "is not YAML in line"),
        ("- a list", "not a mapping of kind Config"),
        ("kind: Pod", "not a mapping of kind Config"),
        ("users: {}\nclusters: text", "clusters must be a list"),
        ("users: [{user: {}}]", r"users\[0\] has no name"),
        ("users: [{name: u, user: text}]", r"users\[0\].user must be a mapping"),
        ("current-context: 5", "current-context must be a string, is int"),
        ("", "no current-context"),
    ],
)
def test_file_is_refused_when_it_is_no_kubeconfig(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigError, match=complaint) as caught:
        load_kubeconfig(tmp_path / "config")
    assert str(tmp_path / "config") in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_places_are_named_when_no_file_exists(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no kubeconfig: .*/a, .*/b"):
        load_kubeconfig(environ={"KUBECONFIG": f"{tmp_path}/a:{tmp_path}/b"})
    with pytest.raises(ConfigError, match="Is a directory"):
        load_kubeconfig(tmp_path)


def service_account(folder: Path) -> Path:
    for name, content in (("ca.crt", CA), ("token", b"pod-token"), ("namespace", b"runs\n")):
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("environ", "server"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}, "https://10.0.0.1:6443"),
        ({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}, "https://[fd00::1]:443"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "https://10.0.0.1:443"),
    ],
)
async def test_service_account_is_used_when_in_a_pod(tmp_path: Path, environ: dict[str, str], server: str) -> None:
    config = load_in_cluster(environ=environ, directory=service_account(tmp_path))
    assert config.server == server
    assert config.ca == CA
    assert (config.namespace, config.is_in_cluster) == ("runs", True)
    assert await authorization(config) == "Bearer pod-token"


def test_what_is_missing_is_said_when_not_in_a_pod(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST is not set"):
        load_in_cluster(environ={}, directory=tmp_path)
    service_account(tmp_path)
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigError, match=r"token: No such file"):
        load_in_cluster(environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, directory=tmp_path)


@pytest.mark.parametrize(
    ("namespace", "port", "complaint"),
    [("Not a label", "443", "is not a DNS label"), ("runs", "tcp://10.0.0.1:443", "KUBERNETES_SERVICE_PORT is `tcp")],
)
def test_pod_is_refused_when_its_files_or_variables_are_odd(
    tmp_path: Path, namespace: str, port: str, complaint: str
) -> None:
    (service_account(tmp_path) / "namespace").write_text(namespace)
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": port}
    with pytest.raises(ConfigError, match=complaint):
        load_in_cluster(environ=environ, directory=tmp_path)


def test_kubeconfig_wins_when_a_pod_sets_the_variable(tmp_path: Path) -> None:
    path = write(tmp_path / "config", kubeconfig())
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": str(path)}
    config = load_config(environ=environ)
    assert (config.server, config.is_in_cluster) == ("https://example:6443", False)


def test_pod_is_used_when_it_has_an_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / ".kube" / "config", kubeconfig())
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert load_config(environ=environ, directory=tmp_path).server == "https://example:6443"
    assert load_config(environ=environ, directory=service_account(tmp_path)).server == "https://10.0.0.1:443"


def test_secrets_are_hidden_when_a_config_is_printed(tmp_path: Path) -> None:
    user = {"token": "sesame", "client-certificate-data": encoded(CA), "client-key-data": encoded(KEY)}
    config = load(tmp_path, cluster={"proxy-url": "http://me:sesame@proxy:1"}, user=user)
    assert "sesame" not in repr(config)
    assert "PRIVATE" not in repr(config)
