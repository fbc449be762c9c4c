"""`runyard keys`."""

from typing import Any

import click

from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.setting_options import DATABASE, add_settings, require_server

ENTRIES = {
    "rotate": Entry("runyard.cli.commands.keys:rotate", "Make a new key, and wrap every secret with it."),
    "rewrap": Entry("runyard.cli.commands.keys:rewrap", "Wrap every secret with the current key."),
}
EXAMPLES = """\b
Examples:
  runyard keys rotate
  RUNYARD_KEY="$(cat old.key new.key)" runyard keys rewrap

\b
Exit codes:
  0 done    1 some secrets could not be wrapped anew, or nothing could be done    2 wrong use
"""


@click.group(cls=LazyGroup, entries=ENTRIES, epilog=EXAMPLES)
def keys() -> None:
    """The key that the values of secrets are sealed with.

    It lies in a file of its own, outside the database and its backups: without it no secret can be opened. Works on the
    database itself. With SQLite the server must not be running; a server on PostgreSQL may, and follows the key file.
    """


@click.command()
@add_settings((*DATABASE, "key_file"))
def rotate(**flags: Any) -> None:
    """Make a new key, and wrap every secret with it; the old keys stay in the file, for old backups.

    A key that is given by RUNYARD_KEY is made by who gives it: add a line to it, then use `runyard keys rewrap`.
    """
    require_server()
    load("runyard.cli.key_rotation:rotate")(flags)


@click.command()
@add_settings((*DATABASE, "key_file"))
def rewrap(**flags: Any) -> None:
    """Wrap every secret with the current key: ends a rotation that was broken off."""
    require_server()
    load("runyard.cli.key_rotation:rewrap")(flags)
