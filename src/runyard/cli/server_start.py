"""What `runyard server` does before it serves, and instead of it."""

import ssl
from collections.abc import Mapping
from typing import Any

import click

from runyard.cli.findings import Finding, print_findings
from runyard.cli.lazy_commands import load
from runyard.cli.output import clean
from runyard.cli.policies import load_policy
from runyard.cli.profile_files import load_profiles
from runyard.cli.setting_options import call_quietly, load_settings, run_async
from runyard.cli.tables import print_table
from runyard.settings import SETTINGS, Loaded, Settings
from runyard.spec.duration import format_duration


def serve(flags: Mapping[str, Any]) -> None:
    """Until it is told to stop."""
    settings = load_settings(flags).settings
    _check_files(settings)
    work = load("runyard.bootstrap:serve")
    try:
        call_quietly(lambda: work(settings))
    except load("runyard.bootstrap:AddressUnusable") as error:
        raise click.ClickException(clean(str(error))) from None


def check(flags: Mapping[str, Any]) -> None:
    """Print the settings and where each comes from; raises what is wrong with them or with what they name."""
    loaded = load_settings(flags)
    settings = loaded.settings
    print_table(("setting", "value", "from"), _list_rows(loaded))
    print_findings(_check_files(settings), "warning")
    status = run_async(load("runyard.store:read_status")(settings.database))
    call_quietly(status.check_usable)
    click.echo(f"settings: ok; database: {status.state}")


def _check_files(settings: Settings) -> list[Finding]:
    """What is doubtful in the files that the settings name; raises what is wrong, with file and line."""
    warnings: list[Finding] = []
    if settings.policy is not None:
        warnings += load_policy(str(settings.policy)).warnings
    if settings.profiles is not None:
        warnings += load_profiles([str(settings.profiles)])[1]
    if settings.tls_certificate is not None:
        _check_pair(settings)
    return warnings


def _list_rows(loaded: Loaded) -> list[tuple[str, str, str]]:
    return [
        (setting.name, clean(_show(loaded.settings, setting.name)), loaded.sources[setting.name])
        for setting in SETTINGS
    ]


def _show(settings: Settings, name: str) -> str:
    value = getattr(settings, name)
    if name == "database":
        return str(call_quietly(lambda: load("runyard.store:show_url")(value)))
    if value is None:
        return "forever" if name.startswith("keep_") else "-"
    if next(setting for setting in SETTINGS if setting.name == name).is_secret:
        return "(set)"
    if hasattr(value, "total_seconds"):
        return format_duration(int(value.total_seconds()))
    if isinstance(value, tuple):
        return ", ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_pair(settings: Settings) -> None:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(settings.tls_certificate), str(settings.tls_key))
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "reason", None) or error
        raise click.ClickException(
            f"--tls-certificate {settings.tls_certificate} and --tls-key {settings.tls_key} are no pair: {reason}"
        ) from None
