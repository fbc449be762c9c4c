"""Engines that die, or freeze, at one of their requests to the cluster; and another one that goes on."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Literal

from runyard.engines.kubernetes.kubernetes_engine import KubernetesEngine
from tests.contract.engine.kubernetes_lab import KubernetesLab

When = Literal["before", "after"]
Request = Callable[..., Awaitable[bytes]]
_interrupted: ContextVar["Interruption"] = ContextVar("interrupted")
"""Whose steps a task takes. The engine's own tasks began before: they ask about other runs whenever one is gone."""


class Died(Exception):
    """The process of an engine is gone. Not an error of the cluster: no code may catch it."""


class Interruption:
    """Counts the requests of an engine's steps, and does something at one of them."""

    def __init__(self, engine: KubernetesEngine) -> None:
        self.engine = engine
        self.requests: list[str] = []
        """Method and path."""
        self.is_dead = False
        self.reached = asyncio.Event()
        """Set when the request is reached at which it freezes."""
        self.thawed = asyncio.Event()
        self._index: int | None = None
        self._when: When = "before"
        self._is_freezing = False
        transport = engine._client.transport
        self._request: Request = transport.request
        transport.request = self._send  # type: ignore[method-assign]
        _interrupted.set(self)

    def die_at(self, index: int, when: When) -> None:
        """Die at the request of that index: before it is sent, or when its answer has come."""
        self._index, self._when = index, when

    def freeze_at(self, index: int) -> None:
        """Freeze before the request of that index is sent, until `thawed` is set."""
        self._index, self._is_freezing = index, True

    async def _send(self, method: str, path: str, **options: Any) -> bytes:
        if self.is_dead:
            raise Died
        if _interrupted.get(None) is not self:
            return await self._request(method, path, **options)
        index = len(self.requests)
        self.requests.append(f"{method} {path}")
        if self._is_freezing and index == self._index:
            self.reached.set()
            await self.thawed.wait()
        elif index == self._index and self._when == "before":
            self.is_dead = True
            raise Died
        try:
            return await self._request(method, path, **options)
        finally:
            if not self._is_freezing and index == self._index:
                self.is_dead = True
                raise Died


async def interrupt(lab: KubernetesLab) -> Interruption:
    """A new engine of the lab, whose requests are counted from now on."""
    engine = await lab.reopen()
    assert isinstance(engine, KubernetesEngine)
    return Interruption(engine)
