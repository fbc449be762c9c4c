"""Errors of the store. Messages never contain a password.

StoreError
├── StoreUnavailable   the database does not respond, is full or is busy; it may or may not have written
│   └── StoreConflict  two transactions conflicted; nothing was written; retry
├── StoreLocked        another process uses this SQLite database
├── WrongUrl           the database URL is invalid
├── WrongSchema        the schema does not fit this release
│   ├── OldSchema      of an older release: run `upgrade` first
│   ├── FutureSchema   of a newer release; not changed
│   └── ForeignSchema  not of Runyard; not changed
├── BackupFailed       a backup or restore failed
└── ReadOnly           a write in a read-only unit of work
"""

from sqlalchemy.exc import DontWrapMixin

from runyard.app.ports import Unavailable, Unstorable


class StoreError(Exception):
    """The database cannot be used."""


class StoreUnavailable(StoreError, Unavailable):
    """The database does not respond, is full or is busy."""


class StoreConflict(StoreUnavailable):
    """Two transactions conflicted; nothing was written. Retrying may help."""


class StoreLocked(StoreError):
    """Another process uses this SQLite database."""


class WrongUrl(StoreError):
    """A database URL that cannot be used."""


class WrongSchema(StoreError):
    """The schema does not fit this release."""


class OldSchema(WrongSchema):
    """Created by an older release."""


class FutureSchema(WrongSchema):
    """Created by a newer release; not changed."""


class ForeignSchema(WrongSchema):
    """Not created by Runyard; not changed."""


class BackupFailed(StoreError):
    """A backup or restore failed."""


class ReadOnly(StoreError):
    """A write in a read-only unit of work."""


class NaiveTime(ValueError, DontWrapMixin):
    """A time without a time zone, which is a bug in the caller."""


class UnstorableText(ValueError, Unstorable, DontWrapMixin):
    """A text that not every database can store in an indexed column: a NUL, an unpaired surrogate, or too long."""
