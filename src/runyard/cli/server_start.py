"""Implements `runyard server` and `runyard server --check`."""

import ssl
from collections.abc import Mapping
from typing import Any

import click

from runyard.cli.findings import Finding, print_warnings
from runyard.cli.lazy_commands import load
from runyard.cli.output import clean
from runyard.cli.policies import load_policy
from runyard.cli.profile_files import load_profiles
from runyard.cli.setting_options import load_settings, run_async, run_sync
from runyard.cli.tables import print_table
from runyard.settings import SETTINGS, Loaded, Settings
from runyard.settings.value_readers import read_disk_size, read_files_size, read_size
from runyard.spec.duration import format_duration
from runyard.spec.kubernetes.quantity import Quantity


def serve(flags: Mapping[str, Any]) -> None:
    """Start the server; returns when it has stopped."""
    settings = load_settings(flags).settings
    _check_files(settings)
    work = load("runyard.bootstrap:serve")
    try:
        run_sync(lambda: work(settings))
    except load("runyard.bootstrap:CannotStart") as error:
        raise click.ClickException(clean(str(error))) from None


def check(flags: Mapping[str, Any]) -> None:
    """Print every setting with its source; raises if a setting, or a file that it names, is wrong."""
    loaded = load_settings(flags)
    settings = loaded.settings
    print_table(("setting", "value", "from"), _list_rows(loaded))
    print_warnings(_check_files(settings))
    status = run_async(load("runyard.store:read_status")(settings.database))
    run_sync(status.check_usable)
    click.echo(f"settings: ok; database: {status.state}")


def _check_files(settings: Settings) -> list[Finding]:
    """Check the files that the settings name. Returns warnings; raises errors with file and line."""
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
    setting = next(setting for setting in SETTINGS if setting.name == name)
    if name == "database":
        return str(run_sync(lambda: load("runyard.store:show_url")(value)))
    if name == "auth" and value is None:
        return "accounts if the database has any, else open"
    if value is None:
        return "forever" if name.startswith("keep_") else "-"
    if setting.is_secret:
        return "(set)"
    if hasattr(value, "total_seconds"):
        return format_duration(int(value.total_seconds()))
    if setting.read in (read_size, read_disk_size, read_files_size):
        return Quantity.from_bytes(value).text
    if isinstance(value, float):
        return str(value).removesuffix(".0")
    if isinstance(value, dict):
        return ", ".join(f"{key}={amount}" for key, amount in value.items())
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
            f"--tls-certificate {settings.tls_certificate} and --tls-key {settings.tls_key} do not match: {reason}"
        ) from None
