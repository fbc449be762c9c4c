"""What `runyard doctor` looks at, judged. Pure, but for the mode of the file of contexts."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urlsplit

from runyard import __version__
from runyard.sdk.connections import find_proxy, is_loopback
from runyard.sdk.contexts import find_path, load_contexts
from runyard.sdk.credentials import Credentials

Level = Literal["ok", "warning", "error"]
CERTIFICATE_LEFT = timedelta(days=14)
"""A certificate that ends earlier is a warning."""
SIGN_IN_LEFT = timedelta(days=7)
CLOCK_SKEW = timedelta(seconds=60)
_OTHERS_MAY_READ = 0o077


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    level: Level
    message: str
    cure: str | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" + (f"; {self.cure}" if self.cure else "")


def read_clock() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


def iter_configuration(credentials: Credentials, environ: Mapping[str, str], *, project: str) -> Iterator[Check]:
    """Where endpoint and credentials come from, and what is set and not used."""
    name = "configuration"
    message = f"{credentials.endpoint} from {credentials.source}, project {project}"
    if credentials.source == "default":
        yield Check(name=name, level="ok", message=f"{message}: no server is configured", cure=_SIGN_IN)
    else:
        yield Check(name=name, level="ok", message=message)
    if environ.get("RUNYARD_TOKEN") and credentials.source != "RUNYARD_ENDPOINT":
        cure = "set RUNYARD_ENDPOINT too, or unset it"
        yield Check(name=name, level="warning", message="RUNYARD_TOKEN is not used without RUNYARD_ENDPOINT", cure=cure)
    path = find_path(environ)
    current = load_contexts(path).current
    if current is not None and credentials.context != current:
        yield Check(name=name, level="ok", message=f"the current context {current} is not used")
    if path.exists() and path.stat().st_mode & _OTHERS_MAY_READ:
        message = f"others may read {path}, which has your tokens"
        yield Check(name=name, level="warning", message=message, cure=f"run `chmod 600 {path}`")


def describe_client() -> Check:
    """The versions here."""
    python = ".".join(map(str, sys.version_info[:3]))
    return Check(name="client", level="ok", message=f"runyard {__version__}, Python {python}")


def judge_proxy(endpoint: str) -> Check:
    """The proxy that the environment names for this server."""
    proxy = find_proxy(endpoint)
    if proxy is None:
        return Check(name="proxy", level="ok", message="none")
    return Check(name="proxy", level="ok", message=proxy)


def judge_transport(endpoint: str, certificate: Mapping[str, Any] | None, *, now: datetime) -> Check:
    """Whether the connection is encrypted, and for how long the certificate is valid."""
    name = "certificate"
    if urlsplit(endpoint).scheme != "https":
        if is_loopback(endpoint):
            return Check(name=name, level="ok", message="none: the server is on this machine")
        return Check(name=name, level="warning", message="none: others can read your token", cure="use https://")
    ends = _read_certificate_time((certificate or {}).get("notAfter"))
    if ends is None:
        return Check(name=name, level="ok", message="trusted")
    message = f"trusted, valid until {ends:%Y-%m-%d}"
    if ends - now < CERTIFICATE_LEFT:
        return Check(name=name, level="warning", message=message, cure="ask the operator to renew it")
    return Check(name=name, level="ok", message=message)


def judge_clock(date: str | None, *, now: datetime) -> Check:
    """The difference between the clocks, by the server's `Date` header."""
    try:
        there = parsedate_to_datetime(date or "")
        skew = there.astimezone(UTC) - now
    except (ValueError, OverflowError):
        return Check(name="clock", level="warning", message="the server does not say its time")
    if abs(skew) <= CLOCK_SKEW:
        return Check(name="clock", level="ok", message="agrees with the server's")
    behind = "behind" if skew > timedelta(0) else "ahead of"
    message = f"this machine says {now:%Y-%m-%d %H:%M:%S} UTC, {_show_duration(abs(skew))} {behind} the server"
    return Check(name="clock", level="warning", message=message, cure="let both take their time from NTP")


def judge_server(given: Any) -> Check:
    """What answers there, by its public configuration, and whether it is of this release."""
    name = "server"
    configuration = given if isinstance(given, Mapping) else {}
    if configuration.get("dhcore_name") != "runyard":
        told = str(configuration.get("dhcore_name") or "something else")[:100]
        return Check(name=name, level="error", message=f"{told} answers there, not Runyard", cure="check the address")
    version = str(configuration.get("dhcore_version", "unknown"))[:50]
    if version.split(".")[:2] == __version__.split(".")[:2]:
        return Check(name=name, level="ok", message=f"runyard {version}")
    message = f"runyard {version}, and this client is {__version__}"
    return Check(name=name, level="warning", message=message, cure=f"install runyard {version} here")


def judge_sign_in(who: Mapping[str, Any], *, has_accounts: bool, now: datetime) -> Check:
    """Who the server takes the user for, and until when."""
    name, user = "sign-in", str(who.get("username"))
    if not has_accounts:
        return Check(name=name, level="ok", message="not needed: the server has no accounts")
    ends = _read_time(who.get("expires_at"))
    if ends is None:
        return Check(name=name, level="ok", message=f"as {user}")
    message = f"as {user}, until {ends:%Y-%m-%d %H:%M} UTC"
    if ends - now < SIGN_IN_LEFT:
        return Check(name=name, level="warning", message=message, cure=_SIGN_IN)
    return Check(name=name, level="ok", message=message)


def judge_engine(found: Mapping[str, Any]) -> Check:
    """What executes runs, and what it can do."""
    name = "engine"
    if found.get("engine") is None:
        cure = "start the server with --engine"
        return Check(name=name, level="warning", message="none: runs are stored and not started", cure=cure)
    shown = f"{found['engine']} ({', '.join(map(str, found.get('capabilities') or ())) or 'jobs only'})"
    if isinstance(error := found.get("error"), Mapping):
        message = f"{shown}: {error.get('message')}"
        return Check(name=name, level="error", message=message, cure="see the server's log")
    return Check(name=name, level="ok", message=shown)


def _read_certificate_time(given: object) -> datetime | None:
    """As Python's `ssl` writes it: `Nov 18 19:00:00 2026 GMT`."""
    try:
        return datetime.strptime(str(given), "%b %d %H:%M:%S %Y %Z").replace(tzinfo=UTC)
    except ValueError:
        return None


def _read_time(given: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(given)).astimezone(UTC)
    except ValueError:
        return None


def _show_duration(duration: timedelta) -> str:
    seconds = int(duration.total_seconds())
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} seconds"


_SIGN_IN = "sign in with `runyard login`"
