"""Profiles: named sets of fields that an admin prepares. A profile's values override those of users."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from runyard.spec.run_fields import AdminFields

BaseKind = Literal["Job", "Deployment", "Service"]

DEFAULT_PROFILE = "default"
"""The profile of runs that name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One profile. `base` has the fields of DigitalHub's base objects, which any value of a user overrides."""

    id: str
    name: str | None = None
    description: str | None = None
    fields: AdminFields = field(default_factory=AdminFields)
    base: Mapping[BaseKind, AdminFields] = field(default_factory=lambda: MappingProxyType({}))
