"""Background loops: `reconcile` (runs), `log_collection`, `sweep`, `triggers`, `retention`, `deletion`, `volume`,
`registry` loops.

`supervise` restarts them. Each loop is a coroutine that runs until it is cancelled; tests call single passes. Every
replica may run all loops: leases, used occasions and idempotent calls prevent double work.
"""

from runyard.app.loops.deletion_loop import DeletionLoop
from runyard.app.loops.log_collection import LogCollector
from runyard.app.loops.reconcile import Reconciler
from runyard.app.loops.registry_loop import RegistryLoop
from runyard.app.loops.retention_loop import RetentionLoop
from runyard.app.loops.sweep import Sweeper
from runyard.app.loops.trigger_loop import TriggerLoop
from runyard.app.loops.volume_loop import VolumeLoop
from runyard.telemetry.loop_supervision import Loop, supervise

__all__ = [
    "DeletionLoop",
    "LogCollector",
    "Loop",
    "Reconciler",
    "RegistryLoop",
    "RetentionLoop",
    "Sweeper",
    "TriggerLoop",
    "VolumeLoop",
    "supervise",
]
