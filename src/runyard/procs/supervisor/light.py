"""Parts of the standard library without what they import: `signal` and `json` would take 1.2 MB in every supervisor."""

from __future__ import annotations

from _json import encode_basestring_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from functools import partial
else:
    import _signal as signal
    from _functools import partial

__all__ = ["partial", "render_json", "signal"]


def render_json(value: object) -> str:
    """Return JSON of what a state is made of: dictionaries, lists, texts, numbers, booleans and None."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{render_json(str(key))}: {render_json(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(render_json, value)) + "]"
    raise TypeError(f"not JSON: {type(value).__name__}")
