"""Profiles and policy: stored by revision, and checked against each other before they are applied.

Start in `current_rules.py`: `load_current` returns the current profiles and policy. Imports no other room.
"""

from runyard.app.rules.contradictions import assume_recorded
from runyard.app.rules.current_rules import CurrentRules, load_current
from runyard.app.rules.profiles_and_policy import (
    StoredPolicy,
    StoredProfile,
    delete_policy,
    delete_profile,
    get_policy,
    get_profile,
    list_profiles,
    put_policy,
    put_profile,
    read_profile,
)
from runyard.app.rules.recorded_rules import RecordedRules
from runyard.app.rules.revisions import get_revision, list_revisions
from runyard.app.rules.rule_files import import_policy, import_profiles

__all__ = [
    "CurrentRules",
    "RecordedRules",
    "StoredPolicy",
    "StoredProfile",
    "assume_recorded",
    "delete_policy",
    "delete_profile",
    "get_policy",
    "get_profile",
    "get_revision",
    "import_policy",
    "import_profiles",
    "list_profiles",
    "list_revisions",
    "load_current",
    "put_policy",
    "put_profile",
    "read_profile",
]
