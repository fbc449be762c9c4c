"""What every contestant can do, and the thread in which an asynchronous one runs."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol


class Contestant(Protocol):
    """A client that lists and watches the pods of one namespace from its start on."""

    def size(self) -> int:
        """How many objects it holds."""
        ...

    def events(self) -> int:
        """How many changes it has seen by watch."""
        ...


def run_in_thread(run: Callable[[], Coroutine[Any, Any, None]]) -> Future[None]:
    """Run a coroutine in an event loop of its own until the process ends; the future tells how it failed."""
    failed: Future[None] = Future()

    def main() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001 - whoever waits for the contestant raises it
            failed.set_exception(error)

    threading.Thread(target=main, daemon=True).start()
    return failed
