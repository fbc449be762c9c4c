"""`runyard keys`."""

from typing import Any

import click

from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.setting_options import DATABASE, add_settings, require_server

ENTRIES = {
    "rotate": Entry("runyard.cli.commands.keys:rotate", "Create a new key and rewrap every secret with it."),
    "rewrap": Entry("runyard.cli.commands.keys:rewrap", "Rewrap every secret with the current key."),
}
EXAMPLES = """\b
Examples:
  runyard keys rotate
  RUNYARD_KEY="$(cat old.key new.key)" runyard keys rewrap

\b
Exit codes:
  0 success    1 failed, or some secrets could not be rewrapped    2 usage error
"""


@click.group(cls=LazyGroup, entries=ENTRIES, epilog=EXAMPLES)
def keys() -> None:
    """Rotate the key that encrypts secrets.

    The key is in a file of its own, outside the database and its backups. Without it no secret can be decrypted.

    These commands work on the database directly. With SQLite, stop the server first. A server on PostgreSQL may keep
    running; it reloads the key file.
    """


@click.command(
    epilog=format_epilog(
        "runyard keys rotate",
        exit_codes="0 success    1 failed, or some secrets could not be rewrapped    2 usage error",
    )
)
@add_settings((*DATABASE, "key_file"))
def rotate(**flags: Any) -> None:
    """Create a new key and rewrap every secret with it. Old keys stay in the file, for old backups.

    If the key comes from RUNYARD_KEY, add a line with a new key to it and use `runyard keys rewrap` instead.
    """
    require_server()
    load("runyard.cli.key_rotation:rotate")(flags)


@click.command(
    epilog=format_epilog(
        "runyard keys rewrap",
        'RUNYARD_KEY="$(cat old.key new.key)" runyard keys rewrap',
        exit_codes="0 success    1 failed, or some secrets could not be rewrapped    2 usage error",
    )
)
@add_settings((*DATABASE, "key_file"))
def rewrap(**flags: Any) -> None:
    """Rewrap every secret with the current key, for instance after an interrupted rotation."""
    require_server()
    load("runyard.cli.key_rotation:rewrap")(flags)
