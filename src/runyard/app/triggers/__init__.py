"""Triggers: start, stop and fire them. The loops decide when they fire. May import `runs` and below."""

from runyard.app.triggers.chains import find_chain, find_chain_problem
from runyard.app.triggers.firings import (
    SINCE,
    Fired,
    Occasion,
    change_trigger,
    find_start,
    fire,
    is_active,
    note_refusal,
    run_trigger,
    stop_trigger,
    use_occasion,
)

__all__ = [
    "SINCE",
    "Fired",
    "Occasion",
    "change_trigger",
    "find_chain",
    "find_chain_problem",
    "find_start",
    "fire",
    "is_active",
    "note_refusal",
    "run_trigger",
    "stop_trigger",
    "use_occasion",
]
