"""What the objects of a run say about it: `RunObjects` in, an `Observation` out. Pure: no clock, no I/O.

Start at `run_observation.py`. `run_states.py` decides the state, `run_reasons.py` says why, `status_details.py` has the
pods, the service and the events for people. Everything is bounded in count before it is bounded in bytes.
"""

from runyard.engines.kubernetes.observations.container_ends import collect_ends, merge_ends
from runyard.engines.kubernetes.observations.pod_steps import (
    PodStep,
    find_ended,
    find_step,
    has_started,
    is_disrupted,
    is_finished,
)
from runyard.engines.kubernetes.observations.run_observation import observe_absence, observe_run

__all__ = [
    "PodStep",
    "collect_ends",
    "find_ended",
    "find_step",
    "has_started",
    "is_disrupted",
    "is_finished",
    "merge_ends",
    "observe_absence",
    "observe_run",
]
