"""The run that objects are rendered for, what the platform gives it, and the object that owns them."""

from dataclasses import dataclass, field
from typing import Literal

from runyard.spec.launcher import Launcher


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformInputs:
    """What the installation gives every run. `runyard render` has none of it."""

    endpoint: str | None = None
    """URL of the server, as pods reach it."""
    has_token: bool = False
    """Whether the run's Secret holds a token of the run."""
    launcher: Launcher | None = None
    """Starts functions that have no command of their own."""
    package_index: str | None = None
    """URL of the index from which pip and uv install packages; None: their own default."""
    has_registry_secret: bool = False
    """Whether a project may have a Secret with registry credentials; see `project_objects.py`."""


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
    generation: int = 1
    """Counts changes of the run's desired state; only an anchor and its Secret state it."""
    platform: PlatformInputs = field(default_factory=PlatformInputs)


@dataclass(frozen=True, slots=True)
class Owner:
    """The anchor as the apiserver created it."""

    kind: Literal["Job", "Deployment"]
    name: str
    uid: str
