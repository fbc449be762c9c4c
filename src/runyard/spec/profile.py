"""Profiles: an admin's named shapes. A run names one; what it sets wins over what users set."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from runyard.spec.run_fields import AdminFields

BaseKind = Literal["Job", "Deployment", "Service"]

DEFAULT_PROFILE = "default"
"""The profile that applies to runs that name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One profile. `base` is what DigitalHub's base objects become: weaker than anything a user sets."""

    id: str
    name: str | None = None
    description: str | None = None
    fields: AdminFields = field(default_factory=AdminFields)
    base: Mapping[BaseKind, AdminFields] = field(default_factory=lambda: MappingProxyType({}))
