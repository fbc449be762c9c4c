"""A server on a port of loopback with a run `r1` that runs, and an engine whose sessions are programs of the test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import runyard as ry
from runyard.app.ports import Clock
from tests.engines.interactive import Container, InteractiveEngine, Program
from tests.http_servers import password_of, serve
from tests.unit.api.engine_runs import mark_running, submit_run
from tests.unit.api.websocket_servers import Listening, listen


@dataclass(frozen=True, slots=True)
class SessionServer:
    """The server, and its engine."""

    engine: InteractiveEngine
    listening: Listening
    is_secure: bool = False

    @property
    def url(self) -> str:
        """Its address."""
        return f"{'https' if self.is_secure else 'http'}://127.0.0.1:{self.listening.port}"

    @property
    def container(self) -> Container:
        """The other side of the newest session."""
        return self.engine.containers[-1]

    @asynccontextmanager
    async def open_run(self, **options: Any) -> AsyncIterator[ry.AsyncRun]:
        """The run, by an async client."""
        async with ry.AsyncClient(self.url, **options) as client:
            yield await (await client.get_project("demo")).get_run("r1")


@asynccontextmanager
async def run_session_server(
    folder: Path,
    program: Program,
    *,
    user: str | None = None,
    certificate: Path | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[SessionServer]:
    """Start it; with accounts if a user is named, whose password is `password_of(user)`, and with TLS if wanted."""
    engine = InteractiveEngine()
    engine.program = program
    async with serve(folder, engine=engine, is_open=user is None, clock=clock) as server:
        if user is not None:
            await server.add_user(user)
        async with server.client(user) as client:
            await submit_run(client)
        mark_running(folder)
        async with listen(server, certificate=certificate) as listening:
            try:
                yield SessionServer(engine, listening, is_secure=certificate is not None)
            finally:
                await engine.close()


__all__ = ["SessionServer", "password_of", "run_session_server"]
