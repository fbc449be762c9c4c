"""Supervision of processes on this machine: one small supervisor per folder, which outlives the one who started it.

Start in `plan.py` (what is run) and `supervision.py` (`start`, `is_supervised`, `request_stop`). `state.py` reads what
a supervisor wrote, `listener.py` hears of changes, `leftovers.py` clears up after a supervisor that was killed, and
`orphans.py` finds supervisors without a folder. `supervisor/` is the program itself. Knows nothing of runs, and imports
nothing of ours. Linux only.
"""

from runyard.procs.leftovers import end_leftovers
from runyard.procs.listener import Listener, tell_listeners
from runyard.procs.orphans import iter_orphans
from runyard.procs.plan import Command, Hooks, Identity, InvalidPlan, Limits, Mount, Plan, Readiness
from runyard.procs.state import LOG_FOLDER, STATE_FILE, Failure, Instance, Phase, State, log_path, read_state
from runyard.procs.supervision import AlreadySupervised, is_supervised, request_stop, start
from runyard.procs.supervisor.process_tree import MOST_PROCESSES, find_start_time, read_kernel_file, send_signal

__all__ = [
    "LOG_FOLDER",
    "MOST_PROCESSES",
    "STATE_FILE",
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
    "find_start_time",
    "is_supervised",
    "iter_orphans",
    "log_path",
    "read_kernel_file",
    "read_state",
    "request_stop",
    "send_signal",
    "start",
    "tell_listeners",
]
