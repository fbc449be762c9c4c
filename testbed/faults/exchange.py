"""One forwarded request with its response, and the fault that may interrupt it."""

import asyncio
from contextlib import aclosing
from http import HTTPStatus
from typing import Protocol

from testbed.faults.answers import render_answer, render_expired_event
from testbed.faults.guarded_wait import pause, unless
from testbed.faults.http1 import Ending, Framing, Request, Response, parse_response
from testbed.faults.plan import Cut, Expire, Fault, LoseAnswer, Repeat, Reset, Stall
from testbed.faults.wire import Piece, Wire

LONGEST_ECHO_BYTES = 4 << 20


class Switchboard(Protocol):
    """What a relay asks of the proxy it belongs to."""

    def decide(self, request: Request) -> Fault | None:
        """The fault that this request is to meet."""

    def commit(self, fault: Fault, request: Request) -> bool:
        """Record a fault that is done now; False, and it must not be, when faults are switched off."""

    async def close_listener(self, seconds: float) -> None:
        """Refuse new connections for so long; returns when it does."""

    async def connect(self, request: Request) -> Wire:
        """A new connection to the upstream; raises OSError, and records that it was unreachable."""


class Fuse:
    """Where in the body of an answer its fault strikes, if it strikes there at all."""

    def __init__(self, fault: Fault | None, *, request: Request, framing: Framing) -> None:
        self._framing = framing
        self._fault: Cut | Reset | Stall | Expire | None = None
        self._left_bytes = 0
        self._ends_line = True
        if not isinstance(fault, Cut | Reset | Stall | Expire) or fault.after_bytes is None:
            return
        is_short = isinstance(framing, int) and fault.after_bytes >= framing  # nothing would be lost
        is_no_watch = isinstance(fault, Expire) and not request.is_watch
        if not is_short and not is_no_watch:
            self._fault, self._left_bytes = fault, fault.after_bytes

    @property
    def is_burnt(self) -> bool:
        """Whether the fault is due before any byte of the body."""
        return self._fault is not None and self._left_bytes == 0

    def burn(self, piece: Piece) -> int | None:
        """After how many bytes of this piece the fault strikes; None: not in this piece."""
        if self._fault is None:
            return None
        before = self._left_bytes
        self._left_bytes = max(0, before - len(piece.payload))
        self._ends_line = piece.payload.endswith(b"\n") if piece.payload else self._ends_line
        if self._left_bytes > 0:
            return None
        if not isinstance(self._fault, Expire):
            return len(piece.before) + before
        # An event can be put into the stream only between two lines and between two chunks.
        is_boundary = self._ends_line and (self._framing is Ending.CLOSE or bool(piece.behind))
        return len(piece.wire) if is_boundary else None

    def take(self) -> Cut | Reset | Stall | Expire:
        """The fault, which strikes only once."""
        fault, self._fault = self._fault, None
        if fault is None:
            raise RuntimeError("a fault strikes only where its fuse burnt down")
        return fault

    def frame(self, line: bytes) -> bytes:
        """A last line of the body with the end of the body, as this answer frames it."""
        return b"%x\r\n%b\r\n0\r\n\r\n" % (len(line), line) if self._framing is Ending.CHUNKS else line


class Echo:
    """Repeats the events of a watch: lines that end with a chunk, as the apiserver sends them."""

    def __init__(self, fault: Fault | None, *, request: Request, framing: Framing) -> None:
        self._is_on = isinstance(fault, Repeat) and request.is_watch and framing is Ending.CHUNKS
        self._line = b""

    def take(self, piece: Piece) -> bytes | None:
        """The events that end with this piece, as one more chunk; None if none does, or one is too long."""
        if not self._is_on:
            return None
        self._line += piece.payload
        is_boundary = bool(piece.behind) and self._line.endswith(b"\n")
        if not is_boundary and len(self._line) <= LONGEST_ECHO_BYTES:
            return None
        line, self._line = self._line, b""
        return b"%x\r\n%b\r\n" % (len(line), line) if is_boundary else None


class Exchange:
    """One request that is forwarded, with the fault that may strike its answer."""

    def __init__(
        self, request: Request, fault: Fault | None, *, client: Wire, upstream: Wire, switchboard: Switchboard
    ) -> None:
        self._request, self._fault = request, fault
        self._client, self._upstream = client, upstream
        self._switchboard = switchboard
        self._is_uploaded = False
        self._is_tunnel = asyncio.Event()

    async def run(self) -> bool:
        """Forward both ways at once; whether the connection may carry another request."""
        may_follow = await unless(self._upload(), self._relay_answer())
        return bool(may_follow) and self._is_uploaded and self._request.keeps_alive

    async def _upload(self) -> None:
        """Send the body on, and what comes through a tunnel; returns when the client has left."""
        await self._upstream.send(self._request.raw)
        async with aclosing(self._client.iter_body(self._request.framing)) as pieces:
            async for piece in pieces:
                await self._send_up(piece)
        self._is_uploaded = True
        if not await unless(self._client.until_eof(), self._is_tunnel.wait()):
            return
        async with aclosing(self._client.iter_body(Ending.CLOSE)) as pieces:
            async for piece in pieces:
                await self._send_up(piece)
        if self._upstream.end():
            await asyncio.Event().wait()  # only half of the tunnel ended: the answer's side ends the rest

    async def _send_up(self, piece: Piece) -> None:
        try:
            await self._upstream.send(piece.wire)
        except ConnectionError:
            await asyncio.Event().wait()  # it takes no more, but its answer may be on the way and say why

    async def _relay_answer(self) -> bool:
        """Send the answer on; whether the connection may carry another."""
        while (raw := await self._upstream.take_head()) is not None:
            response = parse_response(raw)
            if response.is_interim:
                await self._client.send(raw)
                continue
            if isinstance(self._fault, LoseAnswer) and self._switchboard.commit(self._fault, self._request):
                if self._fault.instead is not None:
                    await self._client.send(render_answer(self._fault.instead, closes=True))
                return False
            await self._client.send(raw)
            return await self._relay_body(response)
        raise EOFError("the upstream closed without an answer")

    async def _relay_body(self, response: Response) -> bool:
        framing = response.framing(method=self._request.method)
        if response.status == HTTPStatus.SWITCHING_PROTOCOLS:
            self._is_tunnel.set()
        fuse = Fuse(self._fault, request=self._request, framing=framing)
        if fuse.is_burnt and not await self._strike(fuse):
            return False
        echo = Echo(self._fault, request=self._request, framing=framing)
        async with aclosing(self._upstream.iter_body(framing)) as pieces:
            async for piece in pieces:
                at = fuse.burn(piece)
                await self._client.send(piece.wire[:at])
                if at is not None:
                    if not await self._strike(fuse):
                        return False
                    await self._client.send(piece.wire[at:])
                again = echo.take(piece)
                if again and self._fault is not None and self._switchboard.commit(self._fault, self._request):
                    await self._client.send(again)
        return framing is not Ending.CLOSE and response.keeps_alive

    async def _strike(self, fuse: Fuse) -> bool:
        """Do the fault of a body; whether the body goes on after it."""
        fault = fuse.take()
        if not self._switchboard.commit(fault, self._request):
            return True
        match fault:
            case Stall(seconds=seconds):
                return await pause(seconds)
            case Reset():
                self._client.reset()
            case Expire():
                await self._client.send(fuse.frame(render_expired_event()))
        return False
