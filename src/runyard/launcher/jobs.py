"""A job: the handler is called once, and what it returns is stored."""

import json
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from . import digitalhub_bridge
from .arguments import Arguments
from .calls import call_function
from .failures import BadResult
from .results import LARGEST_RESULTS_BYTES, MOST_RESULTS, split_results
from .run_api import RunApi
from .run_session import Functions, Session

OUTPUTS_ATTRIBUTE = "__runyard_outputs__"
"""A decorator may set it on a handler: the names of its results."""


def run_job(session: Session, functions: Functions, *, effective: Mapping[str, Any]) -> None:
    """Call `init` and the handler to its end, and store its results; raises what `failures` names."""
    values = session.read_values(functions, effective)
    rest = session.call_init(functions, values, effective.get("init_parameters") or {})
    arguments = functions.binder.bind(rest, provided=session.provided)
    results, outputs = _call(session, functions.handler, arguments)
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
    if hub is not None and _has_data_frame(returned):
        # Its own decorator stores data frames as data items.
        adapted = hub.adapt(digitalhub_bridge.decorate(lambda: returned), session.stop)
        return hub.collect(call_function(session.stop, adapted))
    names = getattr(handler, OUTPUTS_ATTRIBUTE, ())

    def store_file(name: str, path: PurePath) -> str:
        return session.context.log_artifact(name, path)

    if hub is None:
        return split_results(returned, names=names, store_file=store_file)
    # DigitalHub's runtime makes an output of each element of a list.
    values = tuple(returned) if isinstance(returned, list) else returned
    find_key = digitalhub_bridge.find_key
    results, outputs = split_results(values, names=names, store_file=store_file, find_key=find_key)
    return results, {**hub.collect({})[1], **outputs}


def _has_data_frame(returned: Any) -> bool:
    values = returned if isinstance(returned, tuple | list) else (returned,)
    return any(
        type(each).__name__ == "DataFrame" and type(each).__module__.partition(".")[0] in ("pandas", "polars")
        for each in values[:MOST_RESULTS]
    )
