"""Read and follow the logs of runs. May import `runs`."""

from runyard.app.logs.log_follower import LogFollower
from runyard.app.logs.log_reader import MOST_TAIL, LogTail, Marker, Wanted, choose_parts, iter_parts, list_logs

__all__ = [
    "MOST_TAIL",
    "LogFollower",
    "LogTail",
    "Marker",
    "Wanted",
    "choose_parts",
    "iter_parts",
    "list_logs",
]
