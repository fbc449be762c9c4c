"""What an operator decides about the local engine."""

from dataclasses import dataclass
from pathlib import Path

MOST_PROCESSES = 4096
"""How many processes and threads a run may have, where the machine can limit them."""
LARGEST_LOG_BYTES = 1 << 30
"""How much of the output of one process is kept; what is beyond is dropped and counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """Settings of a local engine."""

    folder: Path
    """The place; made if it is not there."""
    endpoint: str
    """The server's address, as runs reach it."""
    largest_log_bytes: int = LARGEST_LOG_BYTES
    most_processes: int = MOST_PROCESSES
