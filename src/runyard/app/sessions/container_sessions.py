"""Sessions in the containers of a run: exec, attach, port-forward. Audited at their begin and end, not in between."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from uuid import uuid4

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.engine import Anchor, Channel, ChannelId, EngineError, Interactive, Session
from runyard.app.engine_calls import call_engine, wrap_failure
from runyard.app.model import Json, Principal, Run
from runyard.app.ports import Unavailable, Unstorable
from runyard.app.runs import require_run
from runyard.app.sessions.run_anchors import cannot, get_engine, get_running_anchor

OPEN_SECONDS = 10.0
"""How long a request waits for the engine to open a session."""
CLOSE_SECONDS = 5.0
"""How long the engine may take to close a session."""
MOST_COMMAND_PARTS = 256
"""How many parts the command of an exec may have."""
LARGEST_COMMAND_BYTES = 16 * 1024
"""How large the command of an exec may be, in UTF-8."""
MOST_AUDITED_CHARACTERS = 1024
"""How much of a command its audit entry keeps."""

Open = Callable[[Interactive, Anchor], Awaitable[Channel]]


class ContainerSession:
    """An open session. `close` it in any case."""

    def __init__(self, core: Core, who: Principal, run: Run, *, action: str) -> None:
        self.id = uuid4().hex[:16]
        """Joins the two audit entries of the session."""
        self._core = core
        self._who = who
        self._run = run
        self._action = action
        self._begun = time.monotonic()
        self._channel: Channel | None = None
        self._received = self._sent = 0

    async def open(self, engine: Interactive, anchor: Anchor, call: Open, *, details: Json) -> None:
        """Audit the begin, then open. Raises `EngineError`, and `Unavailable` if the entry cannot be written."""
        await self._audit("begun", details)
        try:
            self._channel = await call_engine(call(engine, anchor), seconds=OPEN_SECONDS)
        except EngineError as error:
            await self._audit_end(f"not opened: {error}", result="failed")
            raise
        except asyncio.CancelledError:
            await self._audit_end("not opened: the server shuts down", result="failed")
            raise

    async def send(self, channel: ChannelId, content: bytes) -> None:
        """Send to the container; waits while it does not read (back-pressure). Raises `EngineError`."""
        try:
            await self._get_channel().send(channel, content)
        except EngineError:
            raise
        except Exception as error:
            raise wrap_failure(error) from error
        self._received += len(content)

    async def receive(self) -> AsyncIterator[tuple[ChannelId, bytes]]:
        """What the container sends, until it has ended. Raises `EngineError`."""
        # Engines return async generators; one that is left early is closed here, not by the garbage collector.
        messages = self._get_channel().receive()
        try:
            async for channel, content in messages:
                yield ChannelId(channel), content
                self._sent += len(content)
        except EngineError:
            raise
        except Exception as error:
            raise wrap_failure(error) from error
        finally:
            if hasattr(messages, "aclose"):
                await messages.aclose()

    async def close(self, why: str) -> None:
        """Close the engine's channel and audit the end; `why` is for people. A failure of either is not raised."""
        try:
            with suppress(EngineError):
                await call_engine(self._get_channel().close(), seconds=CLOSE_SECONDS)
        finally:
            await self._audit_end(why, result="ended")

    def _get_channel(self) -> Channel:
        if self._channel is None:
            raise RuntimeError("the session is not open")
        return self._channel

    async def _audit_end(self, why: str, *, result: str) -> None:
        seconds = round(time.monotonic() - self._begun, 3)
        details = {"why": why, "seconds": seconds, "received_bytes": self._received, "sent_bytes": self._sent}
        # The begin is on record; a session is not kept open because its end cannot be written.
        with suppress(Unavailable, Unstorable):
            await self._audit(result, details)

    async def _audit(self, result: str, details: Json) -> None:
        async with self._core.store.begin() as unit:
            details = {"session": self.id, **details}
            await audit(self._core, unit, self._who, self._action, self._run, result=result, details=details)
            await unit.commit()


async def open_exec(core: Core, who: Principal, project: str, run_id: str, session: Session) -> ContainerSession:
    """Start a command in a container. Raises `Missing`, `NotSupported`, `NotPossible` and `EngineError`."""
    details = {**_describe(session), "command": _shorten(session.command)}
    run = await _get_run(core, project, run_id)
    return await _open(core, who, run, "exec", lambda engine, anchor: engine.open_exec(anchor, session), details)


async def open_attach(core: Core, who: Principal, project: str, run_id: str, session: Session) -> ContainerSession:
    """Attach to the main process of a container. Raises as `open_exec` does."""
    details, run = _describe(session), await _get_run(core, project, run_id)
    return await _open(core, who, run, "attach", lambda engine, anchor: engine.open_attach(anchor, session), details)


async def open_port(
    core: Core, who: Principal, project: str, run_id: str, port: int, *, pod: str | None = None
) -> ContainerSession:
    """Connect to a TCP port of a pod. Raises as `open_exec` does."""
    details = {"port": port, **({} if pod is None else {"pod": pod})}
    run = await _get_run(core, project, run_id)
    return await _open(
        core, who, run, "portforward", lambda engine, anchor: engine.open_port(anchor, port, pod=pod), details
    )


async def _get_run(core: Core, project: str, run_id: str) -> Run:
    async with core.store.begin(is_read_only=True) as unit:
        return await require_run(unit, project, run_id)


async def _open(core: Core, who: Principal, run: Run, act: str, call: Open, details: Json) -> ContainerSession:
    engine = get_engine(core)
    if not isinstance(engine, Interactive):
        raise cannot(engine, act)
    anchor = get_running_anchor(engine, run)
    session = ContainerSession(core, who, run, action=f"run.{act}")
    await session.open(engine, anchor, call, details=details)
    return session


def _describe(session: Session) -> Json:
    shown = {
        "pod": session.pod,
        "container": session.container,
        "stdin": session.has_stdin or None,
        "tty": session.is_tty or None,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _shorten(command: Sequence[str]) -> list[str]:
    """The command as the audit keeps it."""
    kept, left = [], MOST_AUDITED_CHARACTERS
    for part in command:
        kept.append(part if len(part) <= left else f"{part[:left]}…")
        left -= len(part)
        if left < 0:
            break
    return kept
