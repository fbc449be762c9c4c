"""Structured logs, Prometheus metrics, and request ids that correlate log lines.

Start in `log_setup.py` (called once at startup), `metrics.py` (all metrics) and `middleware.py` (wraps every request).
Every package may import it; it imports nothing of ours. Owns structlog's configuration and prometheus-client. Run and
user ids never become labels, so that cardinality stays bounded.
"""

from runyard.telemetry.log_setup import set_up_logging
from runyard.telemetry.metrics import Metrics
from runyard.telemetry.middleware import Observer
from runyard.telemetry.request_ids import find_request_id

__all__ = ["Metrics", "Observer", "find_request_id", "set_up_logging"]
