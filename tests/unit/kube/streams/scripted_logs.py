"""A pod and its log, played by the test: each question is answered by the next step for its kind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from runyard.kube.client import Client
from tests.unit.kube.scripted_apiserver import ScriptedServer, Step, answer, serve

SECOND = 1_000_000_000
START_NS = 1_800_000_000 * SECOND


def stamp(nanoseconds: int) -> str:
    seconds, fraction = divmod(START_NS + nanoseconds, SECOND)
    assert seconds - START_NS // SECOND < 60
    return f"2027-01-15T08:00:{seconds - START_NS // SECOND:02d}.{fraction:09d}Z"


def text(*lines: tuple[int, str]) -> str:
    """Lines as the kubelet gives them, (nanoseconds after the start, text)."""
    return "".join(f"{stamp(at)} {line}\n" for at, line in lines)


def pod(
    state: str = "running",
    *,
    container_id: str = "c://1",
    previous_id: str | None = None,
    restart_count: int | None = None,
    restart_policy: str = "Never",
    uid: str = "u1",
    containers: int = 1,
) -> Step:
    detail = {"containerID": container_id} if state == "terminated" else {"reason": "ContainerCreating"}
    status: dict[str, Any] = {"name": "main", "state": {state: detail if state != "running" else {}}}
    status["restartCount"] = int(bool(previous_id)) if restart_count is None else restart_count
    if state != "waiting":
        status["containerID"] = container_id
    if previous_id:
        status["lastState"] = {"terminated": {"containerID": previous_id}}
    names = ["main", *(f"side{number}" for number in range(1, containers))]
    return answer(
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": "pod", "uid": uid},
            "spec": {
                "restartPolicy": restart_policy,
                "nodeName": "n",
                "containers": [{"name": name} for name in names],
            },
            "status": {"containerStatuses": [status]},
        }
    )


def cut_after(body: str) -> Step:
    """A log whose connection ends in the middle."""

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(body.encode())
        assert request.transport is not None
        request.transport.close()
        return response

    return respond


def stall_after(body: str) -> Step:
    """A log that falls silent without an end."""

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(body.encode())
        await asyncio.sleep(3600)
        return response

    return respond


@asynccontextmanager
async def playing(
    *, pods: list[Step], logs: list[Step], previous: list[Step] | None = None
) -> AsyncIterator[tuple[Client, ScriptedServer]]:
    """The last step of each kind stays. With `previous`, questions for the log of the instance before are of a kind."""
    asked = {"log": 0, "pod": 0, "previous": 0}

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        kind, steps = ("log", logs) if request.path.endswith("/log") else ("pod", pods)
        if previous and request.query.get("previous") == "true":
            kind, steps = "previous", previous
        asked[kind] += 1
        return await steps[min(asked[kind], len(steps)) - 1](request)

    async with serve(respond) as server, Client.connect(server.config()) as client:
        yield client, server
