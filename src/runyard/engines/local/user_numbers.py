"""Numbers of users and groups: those of projects, and those that this machine has given to people and services."""

from pathlib import Path

FIRST_USER = 600_000_000
"""The lowest number of a project's user; no distribution gives such numbers to people."""
USERS_PER_PLACE = 100_000
"""How many numbers a place has; two places of one machine have different ones, but for bad luck."""
PLACES = 10_000
NOBODY = 65534
"""Belongs to nobody: no file should be its own."""
LARGEST_ACCOUNTS_BYTES = 1 << 20
"""How much of `/etc/passwd` and `/etc/group` is read."""


def is_project_user(number: int) -> bool:
    """Whether a project of some place may have this number."""
    return FIRST_USER <= number < FIRST_USER + PLACES * USERS_PER_PLACE


def read_accounts(path: Path = Path("/etc/passwd")) -> dict[int, str]:
    """The names in `/etc/passwd` or `/etc/group` by number, without `NOBODY`. Directories (LDAP) are not asked."""
    try:
        with path.open("rb") as file:
            lines = file.read(LARGEST_ACCOUNTS_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return {}
    found = [line.split(":") for line in lines]
    return {
        int(fields[2]): fields[0]
        for fields in found
        if len(fields) > 2 and fields[2].isdecimal() and int(fields[2]) != NOBODY
    }
