"""The settings themselves, read and checked."""

from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the server works with. Made by `read_settings`; secrets, and what may hold one, are not shown by `repr`."""

    host: str
    port: int
    """0: any that is free."""
    endpoint: str | None
    """Where pods and tokens find this server; None: where it listens."""
    data: Path
    database: str = field(repr=False)
    engine: Literal["none"]
    profiles: Path | None
    policy: Path | None
    auth: Literal["open", "accounts"]
    tls_certificate: Path | None
    tls_key: Path | None
    behind_proxy: bool
    trusted_proxies: tuple[str, ...]
    """Addresses and networks whose `X-Forwarded-*` headers count; only with `behind_proxy`."""
    key_file: Path
    key: str | None = field(repr=False)
    """The text of the key instead of a file."""
    access_token_life: timedelta
    refresh_token_life: timedelta
    personal_token_life: timedelta
    """The longest that a personal access token may live, and its life where none is asked for."""
    logs: str
    """`database:PATH`, `folder:PATH` or `s3://bucket/prefix`; paths are absolute."""
    s3_endpoint: str | None
    s3_region: str
    s3_access_key: str | None = field(repr=False)
    s3_secret_key: str | None = field(repr=False)
    files_store: str | None
    keep_runs: timedelta | None
    """Whole days; None: for ever."""
    keep_logs: timedelta | None
    keep_audit: timedelta | None
    max_body_bytes: int
    max_list: int
    max_streams: int
    max_requests: float
    """Of one principal, per second."""
    drain: timedelta
    log_level: Literal["debug", "info", "warning", "error"]
    log_format: Literal["json", "text"]

    @property
    def has_tls(self) -> bool:
        """Whether we speak TLS ourselves."""
        return self.tls_certificate is not None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach us."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine's own: `localhost`, 127.0.0.0/8, ::1. Any other name may be anything."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
