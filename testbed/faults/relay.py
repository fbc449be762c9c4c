"""One client connection relayed to the upstream: request after request, each with at most one fault."""

from contextlib import aclosing

from testbed.faults.answers import render_answer
from testbed.faults.exchange import Exchange, Switchboard
from testbed.faults.guarded_wait import pause, unless
from testbed.faults.http1 import ProtocolError, Request, parse_request
from testbed.faults.plan import Answer, Cut, Delay, Refuse, Reset
from testbed.faults.wire import Wire


class Relay:
    """Relays one client connection; a fault is recorded when it strikes, not when it is drawn."""

    def __init__(self, client: Wire, *, switchboard: Switchboard) -> None:
        self._client = client
        self._switchboard = switchboard
        self._upstream: Wire | None = None
        self.request: Request | None = None  # the one being served, or served last

    async def run(self) -> None:
        """Serve the connection until one of its ends closes it; leaves both closed."""
        try:
            await self._serve_all()
            await self._client.close()
        except (OSError, EOFError, ProtocolError):
            self._client.reset()  # one end broke, so the other sees its connection break
        finally:
            wires = [self._client, self._upstream] if self._upstream else [self._client]
            for wire in wires:
                wire.abort()
            for wire in wires:
                await wire.closed()

    def reset(self) -> None:
        """End the connection now with a TCP reset; `run` then ends by itself."""
        self._client.reset()

    async def _serve_all(self) -> None:
        while (raw := await self._next_head()) is not None:
            try:
                self.request = parse_request(raw)
            except ProtocolError as error:
                await self._client.send(render_answer(Answer(400), message=str(error), closes=True))
                return
            if not await self._serve(self.request):
                return

    async def _next_head(self) -> bytes | None:
        head = self._client.take_head()
        # When the upstream closes an idle connection, the client must see that, too.
        return await (head if self._upstream is None else unless(self._upstream.until_eof(), head))

    async def _serve(self, request: Request) -> bool:
        """One request and its answer; whether another may follow."""
        fault = self._switchboard.decide(request)
        match fault:
            case Delay(seconds=seconds) if self._switchboard.commit(fault, request):
                if not await unless(self._client.until_eof(), pause(seconds)):
                    return False
            case Answer() if self._switchboard.commit(fault, request):
                return await self._answer(request, fault)
            case Refuse(seconds=seconds) if self._switchboard.commit(fault, request):
                await self._switchboard.close_listener(seconds)
                self._client.reset()
                return False
            case Cut(after_bytes=None) | Reset(after_bytes=None) if self._switchboard.commit(fault, request):
                if isinstance(fault, Reset):
                    self._client.reset()
                return False
        try:
            self._upstream = self._upstream or await self._switchboard.connect(request)
        except OSError:
            self._client.reset()
            return False
        return await Exchange(
            request, fault, client=self._client, upstream=self._upstream, switchboard=self._switchboard
        ).run()

    async def _answer(self, request: Request, answer: Answer) -> bool:
        # A client that sent `Expect: 100-continue` waits for us before it sends its body: it never will.
        may_follow = request.keeps_alive and "expect" not in request.headers
        if may_follow:
            async with aclosing(self._client.iter_body(request.framing)) as pieces:
                async for _ in pieces:
                    pass
        await self._client.send(render_answer(answer, closes=not may_follow))
        return may_follow
