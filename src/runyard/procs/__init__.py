"""Supervision of processes on this machine: one small supervisor per folder, which outlives the one who started it.

Start in `plan.py` (what is run) and `supervision.py` (`start`, `is_supervised`, `request_stop`). `state.py` reads what
a supervisor wrote, `listener.py` hears of changes, `leftovers.py` clears up after a supervisor that was killed.
`supervisor/` is the program itself. Knows nothing of runs. Imports nothing of ours but `telemetry`. Linux only.
"""

from runyard.procs.leftovers import end_leftovers
from runyard.procs.listener import Listener
from runyard.procs.plan import Command, Hooks, Identity, InvalidPlan, Limits, Mount, Plan, Readiness
from runyard.procs.state import Failure, Instance, Phase, State, log_path, read_state
from runyard.procs.supervision import AlreadySupervised, is_supervised, request_stop, start

__all__ = [
    "AlreadySupervised",
    "Command",
    "Failure",
    "Hooks",
    "Identity",
    "Instance",
    "InvalidPlan",
    "Limits",
    "Listener",
    "Mount",
    "Phase",
    "Plan",
    "Readiness",
    "State",
    "end_leftovers",
    "is_supervised",
    "log_path",
    "read_state",
    "request_stop",
    "start",
]
