"""What the server tells about itself: structured logs, metrics, and the ids that tie a request's lines together.

Start in `log_setup.py` (once, at the start), `metrics.py` (what is counted) and `middleware.py` (around every request).
Anyone may import it; it imports nothing of ours. Owns structlog's configuration and prometheus-client. No run or user
id ever becomes a label: the number of series is what metrics cost.
"""

from runyard.telemetry.log_setup import set_up_logging
from runyard.telemetry.metrics import Metrics
from runyard.telemetry.middleware import Observer
from runyard.telemetry.request_ids import find_request_id

__all__ = ["Metrics", "Observer", "find_request_id", "set_up_logging"]
