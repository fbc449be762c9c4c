"""Look into runs while they run: their objects, their usage, and sessions in their containers (exec, attach, ports).

Only this room and the loops call the engine. Start in `container_sessions.py`. May import `runs` and below.
"""

from runyard.app.sessions.engine_views import Described, EngineView, EngineViews, SnapshotSummary
from runyard.app.sessions.run_anchors import find_capabilities

__all__ = ["Described", "EngineView", "EngineViews", "SnapshotSummary", "find_capabilities"]
