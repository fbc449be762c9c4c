"""Servers that start quickly, because they are killed often: everything is imported once, each server is a fork.

A line on standard input, JSON, starts `runyard.bootstrap.serve` in a process of its own; the answer is its process id.
Servers end with this process.
Sweeps come every few seconds, so that a storm of a minute has many. The pace is the product's own, or a quick one.
"""

import json
import os
import signal
import sys
import traceback
from datetime import timedelta
from functools import partial
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from uvicorn.protocols.http import auto

from runyard import bootstrap
from runyard.app.loops import Reconciler, Sweeper
from runyard.app.loops.pace import Pace
from runyard.procs.supervisor import system
from runyard.settings import read_settings

LOADED = (asyncpg, auto)
SWEEP = {"every": timedelta(seconds=5), "grace": timedelta(seconds=20)}
QUICK_SWEEP = {"every": timedelta(seconds=2), "grace": timedelta(seconds=6)}
QUICK_PACE = Pace(
    release_check=timedelta(seconds=5),
    stop_retry=timedelta(seconds=5),
    settle_retry=timedelta(seconds=2),
    max_backoff=timedelta(seconds=4),
    resync_seconds=10.0,
)


def main() -> None:
    """Until standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    for line in sys.stdin:
        asked = json.loads(line)
        process_id = os.fork()
        if process_id == 0:
            become_server(asked)
        sys.stdout.write(f"{process_id}\n")
        sys.stdout.flush()


def become_server(asked: dict[str, Any]) -> None:
    """Serve, and never return."""
    code = 1
    try:
        system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        output = os.open(asked["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        is_quick = asked["is_quick"]
        sweep = QUICK_SWEEP if is_quick else SWEEP
        vars(bootstrap)["Sweeper"] = partial(Sweeper, every=sweep["every"], grace=sweep["grace"])
        vars(bootstrap)["Reconciler"] = partial(Reconciler, pace=QUICK_PACE if is_quick else Pace())
        bootstrap.serve(read_settings(asked["flags"]).settings)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, only the output can say it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
