"""Writers to be killed: each commits numbered units of work and tells a number only once its commit has returned.

`python -m tests.integration.store.kill_writer kill URL TIMES SECONDS SEED` makes writers one after the other and kills
each at a random instant; it prints a JSON object with what was acknowledged. `… write URL FIRST` writes until the
database is gone or it is killed, a number per line. A process of its own, since pytest's has threads and cannot fork.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from dataclasses import replace

from runyard.store import SqlStore, open_store
from runyard.store.errors import StoreUnavailable
from tests.contract.store.builders import after, make_audit, make_entity, make_run, make_transition

PER_WRITER = 10_000


async def write_unit(store: SqlStore, number: int) -> None:
    """Several tables at once, so that half of it could be told from the whole."""
    run = make_run(f"r{number}", request_hash=str(number))
    async with store.begin() as work:
        await work.lock("p")
        await work.audit.add(make_audit(id=run.id))
        await work.entities.add(make_entity(f"f{number:09}", created_at=after(number)))
        run = await work.runs.add(run, [make_transition(1), make_transition(2)])
        await work.runs.update(run, replace(run, state="RUNNING"), transitions=[make_transition(3)])
        await work.commit()


async def write_until_the_end(url: str, first: int, output: int) -> None:
    """Number after number; what is told was kept."""
    store = await open_store(url)
    for number in range(first, first + PER_WRITER):
        try:
            await write_unit(store, number)
        except StoreUnavailable:
            return
        os.write(output, b"%d\n" % number)


def kill_writers(url: str, *, times: int, seconds: float, seed: int) -> dict[str, object]:
    """Make a writer, let it get somewhere, kill it; as often as asked for, or until the time is over."""
    chance, deadline = random.Random(seed), time.monotonic() + seconds
    acknowledged: list[int] = []
    killed = 0
    while killed < times and time.monotonic() < deadline:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            asyncio.run(write_until_the_end(url, killed * PER_WRITER, writing))
            os._exit(1)
        os.close(writing)
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            told = b"".join(pipe.readline() for _ in range(chance.choice((0, 1, 1, 2, 3))))
            time.sleep(chance.uniform(0, 0.05))
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            told += pipe.read()
        assert os.WIFSIGNALED(status), "a writer ended by itself"
        # A line is written at once, so what was told was told whole.
        acknowledged += [int(line) for line in told.splitlines()]
        killed += 1
    return {"killed": killed, "acknowledged": acknowledged}


def main() -> None:
    """One of the two."""
    if sys.argv[1] == "kill":
        url, times, seconds, seed = sys.argv[2:]
        json.dump(kill_writers(url, times=int(times), seconds=float(seconds), seed=int(seed)), sys.stdout)
    else:
        asyncio.run(write_until_the_end(sys.argv[2], int(sys.argv[3]), sys.stdout.fileno()))


if __name__ == "__main__":
    main()
