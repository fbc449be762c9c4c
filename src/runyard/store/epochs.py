"""The statements by which a restored database becomes another than the one it was copied from."""

from uuid import uuid4

# The sweeper deletes what the database does not know, and a restored one knows less than it did: an admin turns it on
# again. A process that still holds a lease must find that it has passed on.
STATEMENTS = (
    "UPDATE meta SET value = :epoch WHERE name = 'epoch'",
    "INSERT INTO meta (name, value) VALUES ('sweeper', 'off') ON CONFLICT (name) DO UPDATE SET value = 'off'",
    "UPDATE runs SET lease_owner = NULL, lease_token = NULL, lease_until = NULL WHERE lease_token IS NOT NULL",
)


def make_epoch() -> str:
    """An id that no other epoch has."""
    return uuid4().hex
