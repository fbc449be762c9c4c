"""Sessions in the containers of a run over WebSocket: exec, attach, port-forward.

`channels` is pure. `aio` holds the sessions, over `web_socket`, which owns wsproto. `blocking` gives them to the sync
client: its event loop runs in a thread, because both directions of a session move at once. Both are loaded when they
are used first: they need asyncio, which no other call does.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runyard.sdk.sessions import aio as aio
    from runyard.sdk.sessions import blocking as blocking


def __getattr__(name: str) -> ModuleType:
    if name not in ("aio", "blocking"):
        raise AttributeError(f"module {__name__} has no {name}")
    return import_module(f"{__name__}.{name}")
