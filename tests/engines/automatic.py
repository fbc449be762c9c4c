"""The in-memory engine with a life of its own: its runs start, write, end and go without being told."""

import asyncio
import contextlib

from runyard.app.engine import Anchor, Assignment
from tests.engines.memory import MemoryEngine
from tests.engines.memory_objects import Thing

STEP_SECONDS = 0.02


class AutomaticEngine(MemoryEngine):
    """What a run does is in its `args`: each is a line of its log, but `exit N`, and `wait` until it is stopped."""

    def __init__(self, place: str = "a") -> None:
        super().__init__(place)
        self._lives: dict[str, asyncio.Task[None]] = {}

    async def release(self, assignment: Assignment, uid: str) -> None:
        """Start it; from here on it lives by itself."""
        await super().release(assignment, uid)
        thing = self.things.get(uid)
        if thing is not None and thing.phase == "pending" and uid not in self._lives:
            self._lives[uid] = asyncio.create_task(self._live(thing, assignment.effective.args))

    async def stop(self, assignment: Assignment, uid: str) -> None:
        """End it soon."""
        await super().stop(assignment, uid)
        self._end_life(uid)

    async def remove(self, anchor: Anchor) -> None:
        """Remove it soon."""
        await super().remove(anchor)
        self._end_life(anchor.uid)

    async def close(self) -> None:
        """End all lives."""
        for uid in list(self._lives):
            self._end_life(uid)
        await super().close()

    def _end_life(self, uid: str) -> None:
        if (life := self._lives.pop(uid, None)) is not None:
            life.cancel()
        asyncio.get_running_loop().call_later(STEP_SECONDS, self._finish_acts, uid)

    def _finish_acts(self, uid: str) -> None:
        thing = self.things.get(uid)
        if thing is not None and thing.phase == "removing":
            self._delete(thing)
        elif thing is not None and thing.phase == "stopping":
            self._end(thing, "stopped")

    async def _live(self, thing: Thing, args: tuple[str, ...]) -> None:
        await asyncio.sleep(STEP_SECONDS)
        self._start(thing)
        code = 0
        for arg in args:
            await asyncio.sleep(STEP_SECONDS)
            if arg == "wait":
                await asyncio.Event().wait()
            elif arg.startswith("exit "):
                code = int(arg.removeprefix("exit "))
            else:
                self.write_log(thing.anchor.run_uid, f"{arg}\n".encode())
        with contextlib.suppress(KeyError):
            self._lives.pop(thing.anchor.uid)
        end = self._make_end(thing, exit_code=code)
        self._end(thing, "failed" if code else "succeeded", end=end)
