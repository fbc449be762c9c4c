"""What the server sends for a run, recorded from the cluster: the raw client sends the same."""

import asyncio
import json
from typing import Any

from bench.cluster.raw_api import RawApi
from bench.cluster.raw_runs import RunTemplate, make_template
from bench.cluster.server import ClusterServer

RECORD_SECONDS = 60.0


async def record_template(server: ClusterServer, api: RawApi) -> RunTemplate:
    """Submit one run, and take its Job and its Secret as they were created."""
    base = f"namespaces/{server.namespace}"
    jobs = asyncio.create_task(_find_first(api, f"/apis/batch/v1/{base}/jobs"))
    secrets = asyncio.create_task(_find_first(api, f"/api/v1/{base}/secrets"))
    await asyncio.sleep(0.5)  # until both watches are open
    await server.submit("short")
    async with asyncio.timeout(RECORD_SECONDS):
        job, secret = await asyncio.gather(jobs, secrets)
    await server.wait_count("settled_at IS NOT NULL", 1)
    if server.count("state = 'COMPLETED'") != 1:
        raise RuntimeError(f"the run that was to be recorded failed: {server.fetch('SELECT state, message FROM runs')}")
    return make_template(job, secret)


async def _find_first(api: RawApi, path: str) -> dict[str, Any]:
    async for line in api.watch(path, on_open=lambda: None):
        event = json.loads(line)
        if event["type"] == "ADDED":
            found: dict[str, Any] = event["object"]
            return found
    raise RuntimeError(f"the watch of {path} ended")
