"""`runyard server` of this checkout, as a process."""

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

RUNYARD = Path(sys.executable).parent / "runyard"
START_SECONDS = 60


@contextlib.contextmanager
def serve_runyard(folder: Path, options: Sequence[str] = ()) -> Iterator[str]:
    """A server on a free port, its data in `folder`; where it listens."""
    log = folder / "server.log"
    command = [str(RUNYARD), "server", "--port", "0", "--data", str(folder / "data"), *options]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder)
    try:
        yield read_endpoint(log, process)
    finally:
        process.terminate()
        try:
            process.wait(timeout=START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def read_endpoint(log: Path, process: "subprocess.Popen[bytes]") -> str:
    """Where the server says that it listens."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if found := re.search(r"listens on (\S+)", log.read_text()):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"`runyard server` did not say where it listens: {log.read_text()[-2000:]}")
