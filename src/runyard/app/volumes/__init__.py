"""The volume ledger: volumes that a project keeps, and claims that outlive their runs. May import `runs` and below.

Start in `kept_volumes.py`. `ensure_run_volumes` is called before a run is released; `app.loops.volume_loop` does the
rest.
"""

from runyard.app.volumes.kept_volumes import create_volume, delete_volume
from runyard.app.volumes.ledger import Orphans, get_volume, list_orphans, list_volumes
from runyard.app.volumes.run_claims import ensure_run_volumes
from runyard.app.volumes.volume_expiry import expire_volumes, list_volumes_in_state
from runyard.app.volumes.volume_lifecycle import change_volume, ensure_claim, note_found, note_waiting, remove_claim

__all__ = [
    "Orphans",
    "change_volume",
    "create_volume",
    "delete_volume",
    "ensure_claim",
    "ensure_run_volumes",
    "expire_volumes",
    "get_volume",
    "list_orphans",
    "list_volumes",
    "list_volumes_in_state",
    "note_found",
    "note_waiting",
    "remove_claim",
]
