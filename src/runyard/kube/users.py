"""Turns the user section of a kubeconfig into credentials."""

import base64
from typing import Any

from runyard.kube.credentials import Credential, Credentials, StaticCredentials, TokenFileCredentials, bearer
from runyard.kube.errors import ConfigError
from runyard.kube.exec_plugin import API_VERSIONS, ExecCredentials, ExecPlugin
from runyard.kube.kubeconfig import Section
from runyard.kube.tls import ClientCertificate

_USER_FIELDS = (
    "token",
    "tokenFile",
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "username",
    "password",
    "exec",
)
_EXEC_FIELDS = (
    "apiVersion",
    "command",
    "args",
    "env",
    "installHint",
    "provideClusterInfo",
    "interactiveMode",
)


def credentials_of(user: Section, *, cluster: Section) -> Credentials:
    """The credentials that a user section describes; `cluster` is what an exec plug-in may be told of."""
    user.allow_only(_USER_FIELDS)
    methods = [name for name in ("token", "tokenFile", "username", "exec") if user.values.get(name)]
    if len(methods) > 1 and methods != ["token", "tokenFile"]:
        raise user.refuse(f"more than one way to authenticate: {', '.join(methods)}")
    certificate = _client_certificate(user)
    token_file = user.path("tokenFile")
    if token_file is not None:
        return TokenFileCredentials(token_file, certificate=certificate)
    if (token := user.text("token")) is not None:
        try:
            return StaticCredentials(bearer(token, certificate=certificate))
        except ConfigError as error:
            raise user.refuse(error.message) from error
    if (name := user.text("username")) is not None:
        pair = f"{name}:{user.text('password') or ''}".encode()
        return StaticCredentials(Credential(f"Basic {base64.b64encode(pair).decode()}", certificate))
    if user.values.get("exec"):
        if certificate is not None:
            raise user.refuse("more than one way to authenticate: exec, client-certificate")
        return ExecCredentials(_exec_plugin(user, cluster))
    return StaticCredentials(Credential(certificate=certificate))


def _client_certificate(user: Section) -> ClientCertificate | None:
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if (certificate is None) != (key is None):
        missing = "client-certificate" if certificate is None else "client-key"
        raise user.refuse(f"{missing} is missing: certificate and key come together")
    return ClientCertificate(certificate, key) if certificate and key else None


def _exec_plugin(user: Section, cluster: Section) -> ExecPlugin:
    values = user.values["exec"]
    if not isinstance(values, dict):
        raise user.refuse("exec must be a mapping")
    plugin = Section("exec of user", user.name, user.file, values)
    plugin.allow_only(_EXEC_FIELDS)
    api_version = plugin.required("apiVersion")
    if api_version not in API_VERSIONS:
        raise plugin.refuse(f"apiVersion `{api_version}` is not one of {', '.join(API_VERSIONS)}")
    default_mode = None if api_version == API_VERSIONS[0] else "IfAvailable"
    mode = plugin.text("interactiveMode") or default_mode
    if mode not in ("Never", "IfAvailable"):
        # «Always» needs a terminal, and this library runs where there is none.
        raise plugin.refuse(f"interactiveMode is {mode or 'missing'}, supported are Never and IfAvailable")
    command = plugin.required("command")
    return ExecPlugin(
        command=str(plugin.path("command")) if "/" in command else command,
        arguments=_exec_arguments(plugin),
        environment=_exec_environment(plugin),
        api_version=api_version,
        cluster=_exec_cluster(cluster) if plugin.flag("provideClusterInfo") else None,
        install_hint=(plugin.text("installHint") or "").strip(),
        where=f"exec plug-in of user `{user.name}` in {user.file}",
    )


def _exec_arguments(plugin: Section) -> tuple[str, ...]:
    arguments = plugin.values.get("args") or []
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        raise plugin.refuse("args must be a list of strings")
    return tuple(arguments)


def _exec_environment(plugin: Section) -> dict[str, str]:
    environment = {}
    for entry in plugin.values.get("env") or []:
        name, value = (entry.get("name"), entry.get("value", "")) if isinstance(entry, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(value, str):
            raise plugin.refuse("env must be a list of name and value, both strings")
        environment[name] = value
    return environment


def _exec_cluster(cluster: Section) -> dict[str, Any]:
    """The cluster part of KUBERNETES_EXEC_INFO; `config` is the extension reserved for plug-ins."""
    ca = cluster.content("certificate-authority")
    configs = [
        extension.get("extension")
        for extension in cluster.values.get("extensions") or []
        if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec"
    ]
    info = {
        "server": cluster.text("server"),
        "tls-server-name": cluster.text("tls-server-name"),
        "insecure-skip-tls-verify": cluster.flag("insecure-skip-tls-verify") or None,
        "certificate-authority-data": base64.b64encode(ca).decode() if ca else None,
        "proxy-url": cluster.text("proxy-url"),
        "config": configs[0] if configs else None,
    }
    return {key: value for key, value in info.items() if value is not None}
