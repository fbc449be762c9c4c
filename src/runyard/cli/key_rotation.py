"""Implements `runyard keys`: rotation of the key that encrypts secrets (envelope encryption)."""

from collections.abc import Mapping
from typing import Any

import click

from runyard.app.entities import Rotation, rewrap_values, rotate_keys
from runyard.app.model import Principal
from runyard.cli.lazy_commands import load
from runyard.cli.setting_options import DATABASE, load_settings, run_async
from runyard.cli.users import open_core

WHO = Principal(name="system", is_admin=True, via="system", address="command line")


def rotate(flags: Mapping[str, Any]) -> None:
    """Create a new key and rewrap every secret with it."""
    _work(flags, rotate_keys)


def rewrap(flags: Mapping[str, Any]) -> None:
    """Rewrap every secret with the current key."""
    _work(flags, rewrap_values)


def _work(flags: Mapping[str, Any], act: Any) -> None:
    settings = load_settings(flags, only=(*DATABASE, "key_file", "key")).settings

    async def work() -> Rotation:
        vault = load("runyard.vault:open_vault")(settings.key_file, text=settings.key, is_created=False)
        async with open_core(settings) as core:
            done: Rotation = await act(core, WHO, vault)
            return done

    done = run_async(work())
    click.echo(f"current key: {done.key_id}; values rewrapped: {done.rewrapped}")
    if done.failed:
        for project, name, version in done.failed:
            click.echo(f"error: secret {name} of project {project}, version {version}: cannot be decrypted", err=True)
        raise click.exceptions.Exit(1)
