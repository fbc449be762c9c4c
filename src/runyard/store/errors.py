"""What can go wrong with a database; messages never carry a password.

StoreError
├── StoreUnavailable   the database does not answer, is full or is busy; nothing is known to be written; try again
│   └── StoreConflict  two units of work stood in each other's way; nothing was written; try again
├── StoreLocked        another process has this SQLite database
├── WrongUrl           a database URL that cannot be used
├── WrongSchema        the tables are not what this release works with
│   ├── OldSchema      an older release's: `upgrade` first
│   ├── FutureSchema   a newer release's: left untouched
│   └── ForeignSchema  not Runyard's
├── BackupFailed       a backup or a restore that was not made
└── ReadOnly           a write in a unit of work that was begun for reading
"""

from sqlalchemy.exc import DontWrapMixin

from runyard.app.ports import Unavailable, Unstorable


class StoreError(Exception):
    """Something is wrong with the database."""


class StoreUnavailable(StoreError, Unavailable):
    """The database does not answer, is full or is busy."""


class StoreConflict(StoreUnavailable):
    """Two units of work stood in each other's way; nothing was written, and trying again may help."""


class StoreLocked(StoreError):
    """Another process has this SQLite database."""


class WrongUrl(StoreError):
    """A database URL that cannot be used."""


class WrongSchema(StoreError):
    """The tables are not what this release works with."""


class OldSchema(WrongSchema):
    """An older release made them."""


class FutureSchema(WrongSchema):
    """A newer release made them; they were not touched."""


class ForeignSchema(WrongSchema):
    """Something else made them; they were not touched."""


class BackupFailed(StoreError):
    """A backup or a restore that was not made."""


class ReadOnly(StoreError):
    """A write in a unit of work that was begun for reading."""


class NaiveTime(ValueError, DontWrapMixin):
    """A time without a time zone: a mistake in the caller."""


class UnstorableText(ValueError, Unstorable, DontWrapMixin):
    """A text that not every database can keep in an indexed column: a NUL, half a surrogate pair, or too long."""
