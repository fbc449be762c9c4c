"""Servers that start quickly, so that a hundred can be killed: everything is imported and used once, each is a fork.

A line on standard input, JSON of the settings, starts `runyard.bootstrap.serve` in a process of its own; the answer is
its process id. Its output goes to the file that the line names. `previous` is one that was killed, and is reaped.
"""

import asyncio
import json
import os
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg  # type: ignore[import-untyped]
from uvicorn.protocols.http import auto

from runyard import bootstrap
from runyard.settings import read_settings
from runyard.telemetry import set_up_logging
from tests.http_servers import serve
from tests.integration.core.conftest import fill, make_run

LOADED = (asyncpg, auto)


def main() -> None:
    """Until standard input ends."""
    set_up_logging(level="error")
    asyncio.run(warm_up())
    for line in sys.stdin:
        asked = json.loads(line)
        if "previous" in asked:
            os.waitpid(asked["previous"], 0)
        process_id = os.fork()
        if process_id == 0:
            become_server(asked)
        sys.stdout.write(f"{process_id}\n")
        sys.stdout.flush()


async def warm_up() -> None:
    """Load what is loaded at first use: migrations, drivers, routes."""
    with TemporaryDirectory() as folder:
        async with serve(Path(folder)) as server, server.client() as client:
            await fill(client)
            await client.post("/api/v1/-/demo/runs", json=make_run("demo", "r1"))
            await client.get("/api/v1/-/demo/functions/f-demo")


def become_server(asked: dict[str, object]) -> None:
    """Serve, and never return."""
    code = 1
    try:
        output = os.open(str(asked["output"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        os.close(0)
        flags = asked["flags"]
        assert isinstance(flags, dict)
        bootstrap.serve(read_settings(flags).settings)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, only the output can say it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
