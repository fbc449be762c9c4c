"""Triggers: start, stop and fire them. The loops decide when they fire. May import `runs` and below."""

from runyard.app.triggers.firings import (
    CHAIN,
    SINCE,
    Fired,
    Occasion,
    change_trigger,
    find_start,
    fire,
    is_active,
    run_trigger,
    stop_trigger,
    use_occasion,
)

__all__ = [
    "CHAIN",
    "SINCE",
    "Fired",
    "Occasion",
    "change_trigger",
    "find_start",
    "fire",
    "is_active",
    "run_trigger",
    "stop_trigger",
    "use_occasion",
]
