"""`runyard` under a sampling profiler: `python -m bench.cluster.profiled_server FILE ARGUMENT …`.

It begins with the process, and anew with SIGUSR1. SIGUSR2 writes to the file which part of the samples each function of
Runyard and of the libraries was in. Samples are taken by CPU time (`ITIMER_PROF`), so that other processes on the same
cores do not show.
"""

import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from runyard.cli.main import run

SAMPLE_SECONDS = 0.002
MOST_SHOWN = 150


class Sampler:
    """Counts in which functions the samples were: anywhere on the stack, and at its top."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._anywhere: Counter[str] = Counter()
        self._top: Counter[str] = Counter()

    def begin(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Start the timer, and forget what was counted before."""
        self._anywhere.clear()
        self._top.clear()
        signal.signal(signal.SIGPROF, self._take)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)

    def write(self, _number: int, _frame: FrameType | None) -> None:
        """Stop the timer, and write what was found."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        total = sum(self._top.values())
        lines = [f"{total} samples"]
        for title, counts in (("anywhere on the stack", self._anywhere), ("at its top", self._top)):
            lines += ["", f"{title}:"]
            lines += [f"{100 * count / total:6.1f} %  {name}" for name, count in counts.most_common(MOST_SHOWN)]
        self._path.write_text("\n".join(lines) + "\n")

    def _take(self, _number: int, frame: FrameType | None) -> None:
        if frame is not None:
            self._top[_describe(frame)] += 1
        seen = set()
        while frame is not None:
            seen.add(_describe(frame))
            frame = frame.f_back
        self._anywhere.update(seen)


def _describe(frame: FrameType) -> str:
    place = frame.f_code.co_filename.rpartition("/src/")[2].rpartition("site-packages/")[2]
    return f"{place}:{frame.f_code.co_name}"


def main() -> int:
    """Run the command until it ends."""
    path, *arguments = sys.argv[1:]
    sampler = Sampler(Path(path))
    signal.signal(signal.SIGUSR1, sampler.begin)
    signal.signal(signal.SIGUSR2, sampler.write)
    sampler.begin()
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
