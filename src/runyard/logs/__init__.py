"""Log bytes: `app.ports.LogStore` three times, as a SQLite file of its own, as a folder, and in S3-compatible storage.

Start in `opening.py` (`open_logs`). All three keep a stream as *extents*: small pieces as they came, which become one
compressed chunk when there are enough of them, each with its offset and the times of what is in it. `pieces.py` says
what a chunk is, `reading.py` reads from extents wherever they are kept. What `append` acknowledged survives kill -9.
May import `app.ports`; owns nothing but httpx2, for S3.
"""

from runyard.logs.backends import open_logs
from runyard.logs.errors import LogsUnavailable

__all__ = ["LogsUnavailable", "open_logs"]
