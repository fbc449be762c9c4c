"""The query strings of the kubelet's API: pure, and strict where a kubelet guesses."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TypeVar

from runyard.node.kubelet_api.refusal import Refusal
from runyard.node.providers.provider import LogOptions, StreamKind

MOST_PARAMETERS = 1000
_LARGEST_NUMBER = (1 << 63) - 1
_LONGEST_SHOWN = 100
_BOOLEANS = {"": True, "true": True, "1": True, "false": False, "0": False}
_STREAM_PARAMETERS: dict[StreamKind, frozenset[str]] = {
    "exec": frozenset({"command", "input", "output", "error", "tty"}),
    "attach": frozenset({"input", "output", "error", "tty"}),
    "portforward": frozenset({"port"}),
}
_T = TypeVar("_T")


def parse_log_options(query: Iterable[tuple[str, str]]) -> LogOptions:
    """The options of `/containerLogs`; Refusal 400 names whatever cannot be understood."""
    values = _single_values(query)
    options = LogOptions(
        follow=_take(values, "follow", _boolean) or False,
        previous=_take(values, "previous", _boolean) or False,
        timestamps=_take(values, "timestamps", _boolean) or False,
        since_seconds=_take(values, "sinceSeconds", _positive),
        since_time=_take(values, "sinceTime", _time),
        tail_lines=_take(values, "tailLines", _natural),
        limit_bytes=_take(values, "limitBytes", _positive),
    )
    # Both streams together is all that a container's log has.
    _take(values, "stream", _all_streams)
    if values:
        raise Refusal(400, f"unknown parameter {_show(next(iter(values)))}; allowed: {', '.join(_LOG_PARAMETERS)}")
    if options.since_seconds is not None and options.since_time is not None:
        raise Refusal(400, "sinceSeconds and sinceTime exclude each other")
    return options


_LOG_PARAMETERS = (
    "follow",
    "previous",
    "timestamps",
    "sinceSeconds",
    "sinceTime",
    "tailLines",
    "limitBytes",
    "stream",
)


def parse_stream_query(kind: StreamKind, query: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The parameters of `/exec`, `/attach` and `/portForward` as they came; Refusal 400 for all others."""
    if len(query) > MOST_PARAMETERS:
        raise Refusal(400, f"{len(query)} parameters; allowed: {MOST_PARAMETERS}")
    allowed = _STREAM_PARAMETERS[kind]
    for name, value in query:
        if name not in allowed:
            raise Refusal(400, f"unknown parameter {_show(name)}; allowed: {', '.join(sorted(allowed))}")
        if name != "command" and name != "port" and value not in _BOOLEANS:
            raise Refusal(400, f"{name} is {_show(value)}; allowed: 0, 1, true, false")
        if name == "port" and not (value.isascii() and value.isdigit() and 0 < int(value) < 1 << 16):
            raise Refusal(400, f"port is {_show(value)}; allowed: 1 to 65535")
    if kind == "exec" and not any(name == "command" for name, _ in query):
        raise Refusal(400, "command is missing")
    return list(query)


def _single_values(query: Iterable[tuple[str, str]]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in query:
        if name in values:
            raise Refusal(400, f"{_show(name)} is given twice")
        if len(values) >= MOST_PARAMETERS:
            raise Refusal(400, f"more than {MOST_PARAMETERS} parameters")
        values[name] = value
    return values


def _take(values: dict[str, str], name: str, parse: Callable[[str], _T]) -> _T | None:
    if name not in values:
        return None
    value = values.pop(name)
    try:
        return parse(value)
    except ValueError as error:
        raise Refusal(400, f"{name} is {_show(value)}; allowed: {error}") from error


def _boolean(value: str) -> bool:
    if value.lower() not in _BOOLEANS:
        raise ValueError("true, false")
    return _BOOLEANS[value.lower()]


def _natural(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 20) or int(value) > _LARGEST_NUMBER:
        raise ValueError("a whole number from 0 on")
    return int(value)


def _positive(value: str) -> int:
    try:
        number = _natural(value)
    except ValueError:
        number = 0
    if number == 0:
        raise ValueError("a whole number from 1 on")
    return number


def _time(value: str) -> str:
    allowed = ValueError("a time such as 2026-01-31T12:00:00Z")
    # Python also reads dates and weeks, which an apiserver does not.
    if not value.isascii() or "T" not in value.upper() or len(value) > _LONGEST_SHOWN:
        raise allowed
    try:
        at = datetime.fromisoformat(value)
    except ValueError as error:
        raise allowed from error
    if at.tzinfo is None:
        raise allowed
    return value


def _all_streams(value: str) -> str:
    if value not in ("", "All"):
        raise ValueError("All")
    return value


def _show(text: str) -> str:
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"
    return f"`{shown}`"
