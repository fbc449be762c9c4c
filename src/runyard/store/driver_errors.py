"""Translates the drivers' exceptions into ours. The only module that knows them."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from runyard.app.ports import Duplicate
from runyard.store.errors import StoreConflict, StoreError, StoreUnavailable

# The message of PostgreSQL's driver contains the value that it could not send, which may be a secret.
_VALUE_FOLLOWS = "query argument"

# SQLSTATE: serialization_failure, deadlock_detected, lock_not_available
_CONFLICTS = frozenset({"40001", "40P01", "55P03"})
# Classes: connection exception, invalid authorization, unknown database, insufficient resources, operator
# intervention, system error.
_AWAY = ("08", "28", "3D", "53", "57", "58")


@contextmanager
def translate_errors(shown_url: str) -> Iterator[None]:
    """Translate exceptions of driver and network; the cause is kept."""
    try:
        yield
    except exc.IntegrityError as error:
        raise Duplicate("that id or name already exists") from error
    except exc.TimeoutError as error:
        raise StoreUnavailable(f"{shown_url}: all connections have been busy for too long") from error
    except exc.PendingRollbackError as error:
        raise StoreUnavailable(f"{shown_url}: the connection was lost earlier in this unit of work") from error
    except exc.DBAPIError as error:
        ours = _translate_driver_error(error, shown_url=shown_url)
        raise ours from (None if _VALUE_FOLLOWS in str(error.orig) else error)
    except OSError as error:
        raise StoreUnavailable(f"{shown_url} cannot be reached: {str(error) or 'it did not answer in time'}") from error


def _translate_driver_error(error: exc.DBAPIError, *, shown_url: str) -> Exception:
    state = getattr(error.orig, "sqlstate", None) or ""
    words = str(error.orig).rpartition(">: ")[2].partition(_VALUE_FOLLOWS)[0].strip() or type(error.orig).__name__
    if state == "25006" or "readonly database" in words:
        # Units of work for reading are checked before; this is a standby, or a file system mounted read-only.
        return StoreUnavailable(f"{shown_url} is read-only: {words}")
    if state in _CONFLICTS or "database is locked" in words:
        return StoreConflict(f"{shown_url}: conflict with another transaction, nothing was written ({words})")
    is_away = error.connection_invalidated or state.startswith(_AWAY)
    if is_away or isinstance(error, exc.OperationalError | exc.InterfaceError):
        return StoreUnavailable(f"{shown_url} is not available: {words}")
    return StoreError(f"{shown_url} refused a statement: {words}")
