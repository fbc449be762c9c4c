"""Programs that tests of the fork server start."""

import os
import sys
import time
from pathlib import Path

WARMED: list[int] = []


def warm_up() -> None:
    """Note in which process that was."""
    WARMED.append(os.getpid())


def tell() -> int:
    """Print what it was given, and whether anything else is open."""
    open_files = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
    print(sys.argv, Path.cwd(), dict(os.environ), sys.stdin.read(), [os.getppid()] == WARMED)  # noqa: T201
    print(sorted(open_files)[:3], len(open_files), file=sys.stderr)  # noqa: T201 - the listing itself is the fourth
    return 7


def wait() -> None:
    """Until a signal ends it."""
    print("waits", flush=True)  # noqa: T201
    time.sleep(600)
