"""Whose objects are rendered, and which object owns them."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """What the objects say about the run beside its spec. Without a namespace they go wherever they are applied."""

    run_id: str
    project: str
    namespace: str | None = None
    installation: str = "local"
    user: str | None = None
    function: str | None = None
    """The function's name."""
    run_name: str | None = None
    """What people call the run; need not be unique."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The anchor as the apiserver made it."""

    kind: Literal["Job", "Deployment"]
    name: str
    uid: str
