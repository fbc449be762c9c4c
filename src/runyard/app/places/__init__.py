"""Places: what is left at one that no run knows, and places that are gone for good.

`sweep_findings` keeps what a sweep found and whether it may remove anything; `forgotten_places` ends the runs of a
place that does not exist anymore. The sweep itself is a loop (`app.loops`).
"""

from runyard.app.places.forgotten_places import Forgotten, forget_place, list_places
from runyard.app.places.sweep_findings import (
    MOST_ORPHANS,
    Orphan,
    SweepFindings,
    Verdict,
    confirm_epoch,
    is_sweeper_on,
    read_findings,
    write_findings,
)

__all__ = [
    "MOST_ORPHANS",
    "Forgotten",
    "Orphan",
    "SweepFindings",
    "Verdict",
    "confirm_epoch",
    "forget_place",
    "is_sweeper_on",
    "list_places",
    "read_findings",
    "write_findings",
]
