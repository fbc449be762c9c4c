"""The run that objects are rendered for, and the object that owns them."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """What objects state about the run besides its spec. Without `namespace`, `kubectl` chooses it."""

    run_id: str
    run_uid: str
    """Tells it from other runs of the same id: in other projects, and earlier or later ones."""
    project: str
    namespace: str | None = None
    installation: str = "local"
    user: str | None = None
    function: str | None = None
    """The function's name."""
    run_name: str | None = None
    """The run's name for people; not unique."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The anchor as the apiserver created it."""

    kind: Literal["Job", "Deployment"]
    name: str
    uid: str
