"""What admins and owners of things read: tokens, revisions of rules, rehearsals, audit entries. Pure.

Each is the server's JSON, with typed fields. Fields that may be absent are read with `get`.
"""

from typing import Any, Literal

from runyard.sdk.documents import EntityView, Section
from runyard.sdk.errors import Problem, read_problems

Role = Literal["viewer", "editor", "owner"]


class Token(Section):
    """A personal access token."""

    id: str
    name: str
    scopes: list[str]
    """`read`, `write` and `admin`; none: everything that its user may do."""
    user: str
    expires_at: str


class Share(Section):
    """A membership of a project."""

    id: str
    user: str
    """`*` is everyone."""
    role: str
    """`viewer`, `editor` or `owner`."""


class CreatedToken(Token):
    """A personal access token that was just created."""

    value: str
    """Its text, which the server does not keep."""


class AuditEntry(Section):
    """One act, and who did it."""

    sequence: int
    time: str
    actor: str
    action: str
    result: str
    details: dict[str, Any]


class Revision(Section):
    """A revision of a profile or of the policy."""

    revision: int
    user: str
    time: str
    is_deleted: bool

    @property
    def document(self) -> dict[str, Any]:
        """The document as it was written; empty for a deletion."""
        return dict(self.get("document") or {})


class _Rules(Revision):
    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is doubtful about it."""
        return read_problems(self.get("warnings"))


class StoredProfile(_Rules):
    """A profile of the server, in its newest revision."""

    name: str
    title: str
    description: str


class StoredPolicy(_Rules):
    """The policy of the server. Its `revision` is 0 if there never was one."""

    is_built_in: bool
    """Whether only the built-in rules apply."""


class Rehearsal(Section):
    """What other rules would change in runs of the past."""

    counts: dict[str, int]
    runs: list[dict[str, Any]]
    refused_by_both: list[dict[str, Any]]
    left_out: int
    total: int


class ConfigMap(EntityView):
    """A version of a config map: text files that runs mount."""

    _type = "config map"

    @property
    def data(self) -> dict[str, str]:
        """The files: their texts by name."""
        return {str(name): str(text) for name, text in (self.spec.get("data") or {}).items()}

    @property
    def reference(self) -> str:
        """How runs name this version: `settings:v1`."""
        return f"{self.name}:{self.id}"


class KeptVolume(EntityView):
    """A volume of a project, or a claim that outlives its run."""

    _type = "volume"

    @property
    def state(self) -> str:
        """Its state, such as READY."""
        return str(self.status.get("state", "CREATED"))
