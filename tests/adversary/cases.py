"""What the generator draws: worlds (an admin's inputs) and cases (users' requests), both as raw JSON."""

from dataclasses import dataclass, field
from typing import Any, Literal

Raw = dict[str, Any]
Form = Literal["fields", "file", "document"]

CONTAINER, PYTHON = "container", "python"
ANCHOR_UID = "0b6f6a4e-0d0f-4a53-8a4f-3a5c3a6f2f10"
"""The UID that the apiserver gave an anchor; its dependents must name it as their owner."""
NAMESPACES = {"vision": "runyard-vision", "speech": "team-speech", "audio": "audio"}
"""The namespace of each project, as an admin assigned it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An admin's inputs and the projects' inventory. `profiles` holds files: lists of documents."""

    policy: Raw = field(default_factory=dict)
    profiles: list[list[Raw]] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    """The project's secrets and their values."""
    volumes: dict[str, str] = field(default_factory=dict)
    claims: list[str] = field(default_factory=list)
    config_maps: dict[str, dict[str, str]] = field(default_factory=dict)
    """The project's config maps: the files of the newest version by `NAME`, and of each by `NAME:VERSION`."""
    namespaces: dict[str, str] = field(default_factory=lambda: dict(NAMESPACES))
    kubernetes_version: str = "latest"

    def find_profile(self, name: str) -> list[Raw] | None:
        """The file of a profile."""
        return next((file for file in self.profiles if any(document.get("id") == name for document in file)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request. `form` says how `run` is written: bare fields, a run file, or a DigitalHub document.

    `is_anchor` says what is sent: the anchor with its dependents, as an engine does it, or everything as it runs.
    """

    project: str = "vision"
    action: str = "job"
    kind: str = CONTAINER
    run_id: str = "r1"
    form: Form = "fields"
    run: Any = field(default_factory=dict)
    task: Any = None
    function: Any = None
    function_name: str | None = None
    user: str | None = None
    is_anchor: bool = False
    extras: dict[str, Any] = field(default_factory=dict)
    """Further keys of a run file or document, possibly invalid."""

    def iter_layers(self) -> list[Any]:
        """The user's layers, weakest first."""
        return [layer for layer in (self.function, self.task, self.run) if layer is not None]
