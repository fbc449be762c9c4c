"""What the generator draws: worlds, prepared by an admin, and cases, asked by users. All raw, as JSON has it."""

from dataclasses import dataclass, field
from typing import Any, Literal

Raw = dict[str, Any]
Form = Literal["fields", "file", "document"]

CONTAINER, PYTHON = "container", "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the admin prepared, and what projects own. `profiles` holds files: lists of documents."""

    policy: Raw = field(default_factory=dict)
    profiles: list[list[Raw]] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    """The project's secrets and their values."""
    volumes: dict[str, str] = field(default_factory=dict)
    claims: list[str] = field(default_factory=list)
    config_maps: list[str] = field(default_factory=list)

    def find_profile(self, name: str) -> list[Raw] | None:
        """The file of a profile."""
        return next((file for file in self.profiles if any(document.get("id") == name for document in file)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What users ask. `form` says how `run` is written: bare fields, a run file, or a DigitalHub document."""

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
    extras: dict[str, Any] = field(default_factory=dict)
    """What a run file or document says beside the run's fields, however wrong."""

    def iter_layers(self) -> list[Any]:
        """What users wrote, weakest first."""
        return [layer for layer in (self.function, self.task, self.run) if layer is not None]
