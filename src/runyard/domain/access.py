"""Role-based access control. A route requires a permission; a role in a project grants permissions. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Permission(StrEnum):
    """What a request needs. Each route declares one; `GRANTS` is the only place that grants them."""

    PUBLIC = "public"
    """Anybody, without an account: health, discovery, the token endpoint."""
    SIGNED_IN = "signed_in"
    """Anybody with an account: profiles, schemas, the list of the projects they belong to."""
    OWN_TOKENS = "own_tokens"
    """Somebody's own personal tokens: for people, not for runs."""
    OWN_USAGE = "own_usage"
    """What somebody's own runs use: for people, not for runs."""
    CREATE_PROJECT = "create_project"
    READ = "read"
    """Read everything in a project except values of secrets."""
    WRITE = "write"
    """Change entities of a project, and submit runs."""
    PRODUCE = "produce"
    """Store what runs produce: artifacts, data items, models, container images, their files and metrics."""
    REPORT = "report"
    """Write results, messages and metrics of a run."""
    INTERACT = "interact"
    """Open sessions in the containers of runs: exec, attach, port-forward."""
    READ_SECRETS = "read_secrets"
    MANAGE = "manage"
    """Change, share and delete the project itself."""
    ADMINISTER = "administer"
    """Profiles, policy, accounts, audit: the platform."""


class Role(StrEnum):
    """A role in a project or on the platform."""

    STRANGER = "stranger"
    VIEWER = "viewer"
    EDITOR = "editor"
    OWNER = "owner"
    RUN = "run"
    """The token of a run, in its own project. Use cases restrict it further: its own run, the secrets it names."""
    ADMIN = "admin"


_OWN = frozenset({Permission.OWN_TOKENS, Permission.OWN_USAGE})
_STRANGER = frozenset({Permission.PUBLIC, Permission.SIGNED_IN, *_OWN, Permission.CREATE_PROJECT})
_VIEWER = _STRANGER | {Permission.READ}
_EDITOR = _VIEWER | {
    Permission.WRITE,
    Permission.PRODUCE,
    Permission.REPORT,
    Permission.INTERACT,
    Permission.READ_SECRETS,
}
GRANTS: Mapping[Role, frozenset[Permission]] = MappingProxyType(
    {
        Role.STRANGER: _STRANGER,
        Role.VIEWER: _VIEWER,
        Role.EDITOR: _EDITOR,
        Role.OWNER: _EDITOR | {Permission.MANAGE},
        Role.RUN: frozenset(
            {
                Permission.PUBLIC,
                Permission.SIGNED_IN,
                Permission.READ,
                Permission.PRODUCE,
                Permission.REPORT,
                Permission.READ_SECRETS,
            }
        ),
        Role.ADMIN: frozenset(Permission),
    }
)

_READING = frozenset({Permission.PUBLIC, Permission.SIGNED_IN, *_OWN, Permission.READ})
SCOPES: Mapping[str, frozenset[Permission]] = MappingProxyType(
    {
        "read": _READING,
        "write": frozenset(Permission) - {Permission.ADMINISTER},
        "admin": frozenset(Permission),
    }
)
"""What a personal token may be limited to. DigitalHub's scopes (`openid`, `profile` …) limit nothing."""


def allows(role: Role, permission: Permission, *, scopes: frozenset[str] | None = None) -> bool:
    """Whether the role grants the permission, and the token's scopes do not exclude it."""
    limits = [SCOPES[scope] for scope in scopes or () if scope in SCOPES]
    return permission in GRANTS[role] and (not limits or any(permission in limit for limit in limits))
