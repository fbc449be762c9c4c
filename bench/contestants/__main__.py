"""`python -m bench.contestants NAME KUBECONFIG NAMESPACE COUNT`: one contestant in a process of its own.

It obeys lines on stdin, and answers each with one line of JSON: `sync` when it holds COUNT objects, `watch` as
soon as it counts, and `seen` when it has counted COUNT changes since.
"""

import gc
import importlib
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

DEADLINE_SECONDS = 300.0
POLL_SECONDS = 0.005


def main(name: str, kubeconfig: Path, *, namespace: str, count: int) -> None:
    """Measure what one contestant takes, as it is told."""
    began = Stopwatch()
    module = importlib.import_module(f"bench.contestants.{name}")
    import_seconds = began.cpu_seconds
    before_bytes = resident_bytes()
    _answer(import_cpu_seconds=import_seconds, import_bytes=before_bytes)
    contestant: Any = None
    seen_before = 0
    stopwatch = Stopwatch()
    for line in sys.stdin:
        match line.strip():
            case "sync":
                stopwatch = Stopwatch()
                contestant = module.start(kubeconfig, namespace)
                _wait(contestant, contestant.size, count)
                figures = stopwatch.read()
                _answer(**figures, held_bytes=resident_bytes() - before_bytes, peak_bytes=_peak_bytes() - before_bytes)
            case "watch":
                seen_before, stopwatch = contestant.events(), Stopwatch()
                _answer()
            case "seen":
                _wait(contestant, contestant.events, seen_before + count)
                _answer(**stopwatch.read())
            case unknown:
                raise SystemExit(f"no such command: {unknown!r}")


class Stopwatch:
    """Wall time, and CPU time of all threads of this process, since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @property
    def cpu_seconds(self) -> float:
        return time.process_time() - self._cpu

    def read(self) -> dict[str, float]:
        return {"wall_seconds": time.perf_counter() - self._wall, "cpu_seconds": self.cpu_seconds}


def resident_bytes() -> int:
    """What this process occupies, after it has thrown away what it can."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _wait(contestant: Any, figure: Any, target: int) -> None:
    ends_at = time.monotonic() + DEADLINE_SECONDS
    while figure() < target:
        if contestant.failed.done():
            contestant.failed.result()
        if time.monotonic() > ends_at:
            raise SystemExit(f"{figure()} of {target} after {DEADLINE_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def _answer(**figures: float) -> None:
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), namespace=sys.argv[3], count=int(sys.argv[4]))
