"""The logs of pods on nodes that KWOK pretends: `python -m bench.cluster.fake_kubelet HOST CERTIFICATE KEY`.

KWOK's own answers to a follow never end. Here a follow ends when the pod's life is over: KWOK ends a pod of a Job one
second after it runs. A pod in the namespace `HELD` lives until its name comes on standard input. A log is one line.
"""

import asyncio
import ssl
import sys
from datetime import UTC, datetime
from functools import cache

from aiohttp import web

PORT = 10250
HELD = "held"
"""The namespace of pods that KWOK does not end."""
LIFE_SECONDS = 1.0
_READING = web.AppKey("reading", asyncio.Task[None])


async def _answer(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await answer.prepare(request)
    if request.query.get("previous") == "true":
        return answer
    await answer.write(_get_line(request.match_info["pod"]))
    if request.query.get("follow") == "true":
        if request.match_info["namespace"] == HELD:
            await _get_end(request.match_info["pod"]).wait()
        else:
            await asyncio.sleep(LIFE_SECONDS)
    return answer


@cache
def _get_end(_pod: str) -> asyncio.Event:
    return asyncio.Event()


async def _read_ends(_application: web.Application) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def read() -> None:
        while name := (await reader.readline()).decode().strip():
            _get_end(name).set()

    _application[_READING] = asyncio.create_task(read())


@cache
def _get_line(_pod: str) -> bytes:
    """The log of a pod, which is the same however often it is read."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    return f"{at} line\n".encode()


def main() -> None:
    """Serve until killed."""
    host, certificate, key = sys.argv[1:]
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    application = web.Application()
    application.on_startup.append(_read_ends)
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", _answer)
    web.run_app(application, host=host, port=PORT, ssl_context=context, print=None, access_log=None)


if __name__ == "__main__":
    main()
