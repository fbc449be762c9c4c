"""What goes on without being asked: `reconcile` (runs), `triggers`, `retention`; `supervise` keeps them going.

Each is a coroutine that ends only by being cancelled, and each pass of it can be called alone. Loops may run in every
replica at once: leases and used occasions keep them apart.
"""

from runyard.app.loops.project_deletion import DeletionLoop
from runyard.app.loops.reconcile import Reconciler
from runyard.app.loops.retention_loop import RetentionLoop
from runyard.app.loops.supervisor import Loop, supervise
from runyard.app.loops.trigger_loop import TriggerLoop

__all__ = [
    "DeletionLoop",
    "Loop",
    "Reconciler",
    "RetentionLoop",
    "TriggerLoop",
    "supervise",
]
