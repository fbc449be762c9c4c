"""How to reach one cluster: `ClusterConfig`, from a kubeconfig or from inside a pod. Loading reads files."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from runyard.kube.credentials import Credentials, StaticCredentials, TokenFileCredentials
from runyard.kube.errors import ConfigError
from runyard.kube.kubeconfig import Section, default_kubeconfig_files, read_kubeconfig
from runyard.kube.resources import is_namespace_name
from runyard.kube.users import credentials_of

SERVICE_ACCOUNT_DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_CLUSTER_FIELDS = (
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "proxy-url",
    "disable-compression",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Address, trusted CA and identity of one cluster. Made by the loaders, or by hand in tests."""

    server: str
    credentials: Credentials = field(default_factory=StaticCredentials)
    ca: bytes | None = field(default=None, repr=False)
    skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = field(default=None, repr=False)
    namespace: str = "default"
    is_in_cluster: bool = False
    """Whether this process is a pod of the cluster: `namespace` is then that of the pod."""


def load_config(
    *, environ: Mapping[str, str] | None = None, directory: Path = SERVICE_ACCOUNT_DIRECTORY
) -> ClusterConfig:
    """Where a program finds its cluster: KUBECONFIG if set, else the pod it runs in, else ~/.kube/config.

    A pod without a service-account token, as notebooks run in, has no identity of its own and reads the last.
    """
    environ = os.environ if environ is None else environ
    has_identity = bool(environ.get("KUBERNETES_SERVICE_HOST")) and (directory / "token").exists()
    if has_identity and not environ.get("KUBECONFIG"):
        return load_in_cluster(environ=environ, directory=directory)
    return load_kubeconfig(environ=environ)


def load_in_cluster(
    *, environ: Mapping[str, str] | None = None, directory: Path = SERVICE_ACCOUNT_DIRECTORY
) -> ClusterConfig:
    """The identity of the pod we run in; its token file is re-read as the kubelet rotates it."""
    environ = os.environ if environ is None else environ
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("not in a pod: KUBERNETES_SERVICE_HOST is not set")
    try:
        ca = (directory / "ca.crt").read_bytes()
        namespace = (directory / "namespace").read_text().strip()
        (directory / "token").read_bytes()
    except OSError as error:
        raise ConfigError(f"service account: {error.filename}: {error.strerror}") from error
    if not is_namespace_name(namespace):
        raise ConfigError(f"service account: {directory / 'namespace'}: `{namespace}` is not a DNS label")
    if not port.isascii() or not port.isdigit():
        raise ConfigError(f"KUBERNETES_SERVICE_PORT is `{port}`, not a port")
    return ClusterConfig(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        credentials=TokenFileCredentials(directory / "token"),
        ca=ca,
        namespace=namespace,
        is_in_cluster=True,
    )


def load_kubeconfig(
    path: Path | None = None, *, context: str | None = None, environ: Mapping[str, str] | None = None
) -> ClusterConfig:
    """The cluster that `context`, or the current context, names in `path` or in kubectl's own files.

    Certificates are read now and once; token files and exec plug-ins are asked again as they expire.
    """
    files = [path] if path else default_kubeconfig_files(os.environ if environ is None else environ)
    kubeconfig = read_kubeconfig(files)
    chosen = kubeconfig.context(context)
    chosen.allow_only(("cluster", "user", "namespace"))
    namespace = chosen.text("namespace") or "default"
    if not is_namespace_name(namespace):
        raise chosen.refuse(f"namespace `{namespace}` is not a DNS label")
    cluster = kubeconfig.section("cluster", chosen.required("cluster"))
    cluster.allow_only(_CLUSTER_FIELDS)
    user_name = chosen.text("user")
    user = kubeconfig.section("user", user_name) if user_name else None
    server = _server(cluster)
    if user is not None and user.values and server.scheme == "http" and not _is_loopback(server.hostname):
        raise cluster.refuse(f"server {server.geturl()} would carry the credentials of `{user_name}` in the clear")
    return ClusterConfig(
        server=server.geturl(),
        credentials=credentials_of(user, cluster=cluster) if user is not None else StaticCredentials(),
        ca=_certificate_authority(cluster),
        skip_tls_verify=cluster.flag("insecure-skip-tls-verify"),
        tls_server_name=cluster.text("tls-server-name"),
        proxy_url=_proxy(cluster),
        namespace=namespace,
    )


def _server(cluster: Section) -> SplitResult:
    value = cluster.required("server")
    url = _split(value, cluster, "server")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise cluster.refuse(f"server `{value}` must be http://… or https://… with a host")
    if url.username or url.query or url.fragment:
        raise cluster.refuse("server must carry no user, query or fragment")
    return url


def _proxy(cluster: Section) -> str | None:
    value = cluster.text("proxy-url")
    if value is None:
        return None
    url = _split(value, cluster, "proxy-url")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise cluster.refuse(f"proxy-url of scheme `{url.scheme}` must be http://… or https://… with a host")
    return value


def _split(value: str, section: Section, field_name: str) -> SplitResult:
    try:
        url = urlsplit(value)
        _ = url.port
    except ValueError as error:
        raise section.refuse(f"{field_name} is not an address: {error}") from error
    return url


def _is_loopback(host: str | None) -> bool:
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"


def _certificate_authority(cluster: Section) -> bytes | None:
    ca = cluster.pem("certificate-authority")
    if ca is not None and cluster.flag("insecure-skip-tls-verify"):
        raise cluster.refuse("certificate-authority and insecure-skip-tls-verify exclude each other")
    return ca
