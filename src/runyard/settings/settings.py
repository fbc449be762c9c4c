"""The parsed and checked settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The server's settings, made by `read_settings`. `repr` hides secrets and fields that may contain one."""

    host: str
    port: int
    """0: any free port."""
    endpoint: str | None
    """The URL that clients and pods use, and that tokens name as issuer. None: the listening address."""
    data: Path
    database: str = field(repr=False)
    engine: Literal["none", "local", "kubernetes"]
    kubeconfig: Path | None
    """None: as kubectl finds it, or the pod that the server runs in."""
    context: str | None
    namespace: str | None
    """Of all runs. None: that of the kubeconfig's context, or of the server's own pod."""
    namespace_per_project: bool
    launcher_image: str
    package_index: str | None
    project_quota: Mapping[str, str] | None
    """`spec.hard` of a ResourceQuota in each project's namespace."""
    project_default_requests: Mapping[str, str] | None
    project_default_limits: Mapping[str, str] | None
    """Of a LimitRange in each project's namespace."""
    project_networks: tuple[str, ...] | None
    """Private networks that pods of projects may reach; `all`: no NetworkPolicy is made."""
    profiles: Path | None
    policy: Path | None
    auth: Literal["open", "accounts"] | None
    """None: accounts if the database has any, else open."""
    open_to_everyone_on_this_machine: bool
    """Open mode even if the database has accounts."""
    tls_certificate: Path | None
    tls_key: Path | None
    behind_proxy: bool
    trusted_proxies: tuple[str, ...]
    """Addresses and networks whose `X-Forwarded-*` headers are trusted. Has no effect without `behind_proxy`."""
    key_file: Path
    key: str | None = field(repr=False)
    """The text of the key, instead of a file."""
    access_token_life: timedelta
    refresh_token_life: timedelta
    personal_token_life: timedelta
    """Maximum and default lifetime of a personal access token."""
    logs: str
    """`database:PATH`, `folder:PATH` or `s3://bucket/prefix`; paths are absolute."""
    s3_endpoint: str | None
    s3_region: str
    s3_access_key: str | None = field(repr=False)
    s3_secret_key: str | None = field(repr=False)
    files: str
    """Where the server stores files: an absolute path, or `s3://bucket/prefix`."""
    files_store: str | None
    s3_credentials_for_clients: bool
    """Whether everybody who signs in gets the client's keys."""
    s3_client_access_key: str | None = field(repr=False)
    s3_client_secret_key: str | None = field(repr=False)
    keep_runs: timedelta | None
    """Whole days. None: forever."""
    keep_logs: timedelta | None
    keep_audit: timedelta | None
    max_body_bytes: int
    max_body_time: timedelta
    """Time for a whole request body, besides the time that its size allows."""
    max_connections: int
    """Also limited by the file descriptors that the process may open."""
    max_list: int
    max_page_bytes: int
    max_streams: int
    max_log_bytes: int
    """Of all containers of one run together."""
    max_file_bytes: int
    max_entity_bytes: int
    """Of all files of one artifact, data item or model together."""
    max_project_bytes: int
    max_requests: float
    """Rate limit per principal, in requests per second."""
    drain: timedelta
    log_level: Literal["debug", "info", "warning", "error"]
    log_format: Literal["json", "text"]

    @property
    def has_tls(self) -> bool:
        """Whether this process terminates TLS."""
        return self.tls_certificate is not None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address: `localhost`, 127.0.0.0/8 or ::1. Other names are not resolved."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
