"""Writers to be killed: each appends numbered lines and tells a size only once the append was acknowledged.

`python -m tests.contract.logs.kill_writer TIMES SEED PLACE [S3 SETTINGS AS JSON]` makes writers one after the other and
kills each at a random instant; it prints a JSON object with the greatest size that was told. A process of its own,
since pytest's has threads and cannot fork.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from typing import Any

from runyard.logs import open_logs
from tests.contract.logs.builders import STREAM, after

LONGEST = 4000


def make_line(number: int) -> bytes:
    """Line by number, of many lengths; every byte of a stream follows from the numbers before it."""
    return f"{number} ".encode() + b"x" * random.Random(number).randrange(LONGEST) + b"\n"


async def write_until_killed(place: str, options: dict[str, Any], output: int) -> None:
    """Go on where the stream ends, in the middle of a line if that is where it is."""
    logs = open_logs(place, **options)
    streams = await logs.list_streams(STREAM.run_uid)
    size, end, number = (streams[0].size if streams else 0), 0, 0
    while True:
        line = make_line(number)
        if end + len(line) > size:
            position = str(end + len(line))
            told = await logs.append(STREAM, line, offset=end, at=after(number), position=position)
            assert told == end + len(line)
            os.write(output, b"%d\n" % told)
        end, number = end + len(line), number + 1


def kill_writers(place: str, options: dict[str, Any], *, times: int, seed: int) -> dict[str, int]:
    """Make a writer, let it get somewhere, kill it."""
    chance = random.Random(seed)
    told = acknowledged = 0
    for _ in range(times):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            asyncio.run(write_until_killed(place, options, writing))
            os._exit(1)
        os.close(writing)
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            lines = b"".join(pipe.readline() for _ in range(chance.choice((0, 1, 2, 5, 20))))
            time.sleep(chance.uniform(0, 0.03))
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            lines += pipe.read()
        assert os.WIFSIGNALED(status), "a writer ended by itself"
        sizes = [int(line) for line in lines.splitlines()]
        acknowledged += len(sizes)
        told = max([told, *sizes])
    return {"told": told, "acknowledged": acknowledged}


def main() -> None:
    """Print what was told."""
    times, seed, place, *options = sys.argv[1:]
    json.dump(
        kill_writers(place, json.loads(options[0]) if options else {}, times=int(times), seed=int(seed)), sys.stdout
    )


if __name__ == "__main__":
    main()
