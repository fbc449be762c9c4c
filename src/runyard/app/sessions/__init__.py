"""Look into runs while they run: their objects, their usage, and sessions in their containers (exec, attach, ports).

Only this room and the loops call the engine. Start in `container_sessions.py`. May import `runs` and below.
"""

from runyard.app.sessions.container_sessions import (
    LARGEST_COMMAND_BYTES,
    MOST_COMMAND_PARTS,
    ContainerSession,
    open_attach,
    open_exec,
    open_port,
)
from runyard.app.sessions.engine_views import Described, EngineView, EngineViews, SnapshotSummary, UsageSum
from runyard.app.sessions.run_anchors import find_capabilities

__all__ = [
    "LARGEST_COMMAND_BYTES",
    "MOST_COMMAND_PARTS",
    "ContainerSession",
    "Described",
    "EngineView",
    "EngineViews",
    "SnapshotSummary",
    "UsageSum",
    "find_capabilities",
    "open_attach",
    "open_exec",
    "open_port",
]
