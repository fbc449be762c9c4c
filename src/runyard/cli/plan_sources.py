"""Who answers `explain` and `render`: the server that is configured, or this program by the files it is given."""

from collections.abc import Mapping
from typing import Any

import click

from runyard.cli.options import RunOptions
from runyard.sdk.credentials import DEFAULT_ENDPOINT, find_credentials
from runyard.sdk.errors import ConfigurationError

OFFLINE = "offline"
"""In the output for programs, where otherwise the address of the server is."""
_OFFLINE_OPTIONS = {
    "profiles": "--profiles",
    "policy": "--policy",
    "secrets": "--secret",
    "volumes": "--volume",
    "claims": "--claim",
    "config_maps": "--config-map",
    "run_uid": "--uid",
    "namespace": "--namespace",
}
"""Options that say what a server knows by itself."""
Flags = Mapping[str, Any]


def find_offline_reason(flags: Flags, options: RunOptions) -> str | None:
    """Why and by what to answer without a server; None if a server answers. The default address counts as none.

    Raises a usage error for a server that is named beside options that would be ignored.
    """
    given = [option for name, option in _OFFLINE_OPTIONS.items() if getattr(options, name)]
    named = [f"--{name}" for name in ("context", "endpoint") if flags.get(name) is not None]
    reasons = ["--offline"] if flags["offline"] else given
    if reasons and named:
        raise click.UsageError(f"{named[0]} names a server, and {reasons[0]} answers without one: use one of them")
    if given:
        return f"by {', '.join(given)}"
    if flags["offline"]:
        return "by the built-in policy alone"
    if not named and not _has_server():
        advice = f"--endpoint {DEFAULT_ENDPOINT} asks that of this machine"
        return f"by the built-in policy alone: no server is configured; {advice}"
    return None


def _has_server() -> bool:
    """Whether environment or contexts name a server."""
    try:
        return find_credentials().source != "default"
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from None
