"""A job: the handler is called once, and what it returns is stored."""

import json
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from . import digitalhub_bridge
from .arguments import Arguments
from .calls import call_function
from .failures import BadResult
from .results import LARGEST_RESULTS_BYTES, split_results
from .run_api import RunApi
from .run_session import Functions, Session

OUTPUTS_ATTRIBUTE = "__runyard_outputs__"
"""A decorator may set it on a handler: the names of its results."""


def run_job(session: Session, functions: Functions, *, effective: Mapping[str, Any]) -> None:
    """Call `init` and the handler to its end, and store its results; raises what `failures` names."""
    try:
        values = session.read_values(functions, effective)
        rest = session.call_init(functions, values, effective.get("init_parameters") or {})
        arguments = functions.binder.bind(rest, provided=session.provided)
        results, outputs = _call(session, functions.handler, arguments)
    finally:
        # Also of a handler that failed: its metrics show how far it came.
        session.metrics.close()
    store_results(session.api, results, {**session.context.logged, **outputs})


def store_results(api: RunApi, results: Mapping[str, Any], outputs: Mapping[str, str]) -> None:
    """Report them, with retries until the server has them; raises `BadResult` if they are too large."""
    if not results and not outputs:
        return
    size = len(json.dumps(results))
    if size > LARGEST_RESULTS_BYTES:
        raise BadResult(
            f"the results are {size} bytes of JSON; at most {LARGEST_RESULTS_BYTES} are allowed: write large ones to a "
            "file and return its pathlib.Path"
        )
    api.report(results=results, outputs=outputs)


def _call(session: Session, handler: Callable[..., Any], arguments: Arguments) -> tuple[dict[str, Any], dict[str, str]]:
    hub = session.hub
    if hub is not None and digitalhub_bridge.is_decorated(handler):
        adapted = hub.adapt(handler, session.stop)
        return hub.collect(call_function(session.stop, adapted, *arguments.positional, **arguments.named) or {})
    returned = call_function(session.stop, handler, *arguments.positional, **arguments.named)
    if hub is not None and _is_for_digitalhub(returned):
        # Its own decorator names and stores what only it knows: entities and data frames.
        adapted = hub.adapt(digitalhub_bridge.decorate(lambda: returned), session.stop)
        return hub.collect(call_function(session.stop, adapted))
    names = getattr(handler, OUTPUTS_ATTRIBUTE, ())

    def store_file(name: str, path: PurePath) -> str:
        return session.context.log_artifact(name, path)

    results, outputs = split_results(returned, names=names, store_file=store_file)
    return (results, outputs) if hub is None else (results, {**hub.collect({})[1], **outputs})


def _is_for_digitalhub(returned: Any) -> bool:
    """Whether a returned value is an entity or data frame of DigitalHub's SDK."""
    values = returned if isinstance(returned, tuple | list) else (returned,)
    return any(digitalhub_bridge.find_key(each) is not None or _is_data_frame(each) for each in values[:1000])


def _is_data_frame(value: Any) -> bool:
    return type(value).__name__ == "DataFrame" and type(value).__module__.partition(".")[0] in ("pandas", "polars")
