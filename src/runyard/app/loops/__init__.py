"""Background loops: `reconcile` (runs), `log_collection`, `trigger_loop`, `retention_loop`, `deletion_loop`.

`supervise` restarts them. Each loop is a coroutine that runs until it is cancelled; tests call single passes. Every
replica may run all loops: leases and used occasions prevent double work.
"""

from runyard.app.loops.deletion_loop import DeletionLoop
from runyard.app.loops.log_collection import LogCollector
from runyard.app.loops.reconcile import Reconciler
from runyard.app.loops.retention_loop import RetentionLoop
from runyard.app.loops.supervisor import Loop, supervise
from runyard.app.loops.trigger_loop import TriggerLoop

__all__ = [
    "DeletionLoop",
    "LogCollector",
    "Loop",
    "Reconciler",
    "RetentionLoop",
    "TriggerLoop",
    "supervise",
]
