"""What the engine tells the launcher by environment variables."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from .failures import NotPrepared

TERMINATION_LOG = "/dev/termination-log"
"""Kubernetes' default path of the termination message."""
INSTALL_OPTION = "--install-requirements"
"""The argument by which an engine asks the launcher to install the function's requirements."""
COMMAND_OPTION = "--"
"""The argument behind which the run's own command stands: it is executed once its requirements are installed."""
DEFAULT_PORT = 8080
DEFAULT_CONCURRENCY = 16
"""Requests that a service handles at a time, unless `RUNYARD_CONCURRENCY` says otherwise."""


@dataclass(frozen=True)
class LaunchSettings:
    """The run to launch, and where."""

    endpoint: str
    token: str | None
    project: str
    run_id: str
    run_uid: str | None
    host: str
    port: int
    concurrency: int
    work: Path | None
    termination_log: Path | None


def read_settings(environment: Mapping[str, str]) -> LaunchSettings:
    """Read the variables; raises `NotPrepared` with the name of a missing or unusable one."""
    names = ("RUNYARD_ENDPOINT", "RUNYARD_PROJECT", "RUNYARD_RUN_ID")
    missing = [name for name in names if not environment.get(name)]
    if missing:
        raise NotPrepared(f"the environment lacks {', '.join(missing)}; the engine sets them")
    endpoint = environment["RUNYARD_ENDPOINT"].rstrip("/")
    if urlsplit(endpoint).scheme not in ("http", "https") or not urlsplit(endpoint).hostname:
        raise NotPrepared("RUNYARD_ENDPOINT must be an http:// or https:// address")
    return LaunchSettings(
        endpoint=endpoint,
        token=environment.get("RUNYARD_TOKEN") or None,
        project=environment["RUNYARD_PROJECT"],
        run_id=environment["RUNYARD_RUN_ID"],
        run_uid=environment.get("RUNYARD_RUN_UID") or None,
        host=environment.get("RUNYARD_HOST") or "0.0.0.0",  # noqa: S104 - a pod is reached by its own address
        port=_read_number(environment, "RUNYARD_PORT", DEFAULT_PORT, most=65535),
        concurrency=_read_number(environment, "RUNYARD_CONCURRENCY", DEFAULT_CONCURRENCY, most=10_000),
        work=Path(environment["RUNYARD_WORK"]) if environment.get("RUNYARD_WORK") else None,
        termination_log=find_termination_log(environment),
    )


def find_termination_log(environment: Mapping[str, str]) -> Path | None:
    """Where the end of the run is noted; None if the engine reads no such file."""
    if named := environment.get("RUNYARD_TERMINATION_LOG"):
        return Path(named)
    return Path(TERMINATION_LOG) if Path(TERMINATION_LOG).is_file() else None


def _read_number(environment: Mapping[str, str], name: str, default: int, *, most: int) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:10]) <= most:
        raise NotPrepared(f"{name} must be a number from 1 to {most}")
    return int(text)
