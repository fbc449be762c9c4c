"""Log storage: three implementations of `app.ports.LogStore`, in a SQLite file, in a directory, and in S3.

Start in `backends.py` (`open_logs`). All three store a stream as *extents*: small pieces as they were appended, which
are compacted into compressed chunks, each with its offset and times. `pieces.py` defines pieces and chunks,
`extent_reader.py` reads from extents of any backend. Acknowledged appends survive kill -9. May import `app.ports`,
`app.lru_map` and `s3`.
"""

from runyard.logs.backends import open_logs
from runyard.logs.errors import LogsUnavailable

__all__ = ["LogsUnavailable", "open_logs"]
