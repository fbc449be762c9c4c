"""Starts a new epoch in a restored database."""

from uuid import uuid4

# A restored database does not know newer objects, so the sweeper stays off until an admin turns it on. Leases of the
# old database must be stale.
STATEMENTS = (
    "UPDATE meta SET value = :epoch WHERE name = 'epoch'",
    "INSERT INTO meta (name, value) VALUES ('sweeper', 'off') ON CONFLICT (name) DO UPDATE SET value = 'off'",
    "UPDATE runs SET lease_owner = NULL, lease_token = NULL, lease_until = NULL WHERE lease_token IS NOT NULL",
)


def make_epoch() -> str:
    """A new unique id."""
    return uuid4().hex
