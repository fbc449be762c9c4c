"""Sets up logging to standard error, as JSON or text, for our own lines and those of libraries."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import Processor

from runyard.telemetry.redaction import redact

Format = Literal["json", "text"]
Level = Literal["debug", "info", "warning", "error"]

_LOGGER_NAMES = {"uvicorn.error": "uvicorn"}
"""Names that mislead: uvicorn logs everything except requests as `uvicorn.error`, errors or not."""
_EXTRA_FIELDS = structlog.stdlib.ExtraAdder()
# These log one line per outgoing request at INFO.
_QUIET = ("asyncio", "alembic", "httpcore2", "httpx2")


def set_up_logging(*, level: Level = "info", form: Format = "text", stream: TextIO | None = None) -> None:
    """Configure logging. Call it before anything is logged; a second call replaces the configuration."""
    stream = stream or sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    before = _list_processors()
    renderer = _make_renderer(form, stream)
    structlog.configure(
        processors=[*before, redact, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    _set_up_libraries(number, before, renderer, stream)


def _list_processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        structlog.processors.UnicodeDecoder(),
    ]


def _make_renderer(form: Format, stream: TextIO) -> list[Processor]:
    if form == "json":
        return [structlog.processors.JSONRenderer(default=str, ensure_ascii=False)]
    console = structlog.dev.ConsoleRenderer(
        colors=stream.isatty(),
        timestamp_key="at",
        pad_event_to=24,
        exception_formatter=structlog.dev.plain_traceback,
    )
    return [_clean, console]


def _rename_logger(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event["logger"] = _LOGGER_NAMES.get(event["logger"], event["logger"])
    return event


def _add_fields(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add what our own modules pass as `extra`, such as the run. That of libraries is left out: it may be anything."""
    is_ours = event["logger"].partition(".")[0] == "runyard"
    return _EXTRA_FIELDS(_logger, _method, event) if is_ours else event


def _clean(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape control characters: a name chosen by a client must not forge log lines (log injection)."""
    return {
        key: value if key == "exception" or not isinstance(value, str) else _escape(value)
        for key, value in event.items()
    }


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _set_up_libraries(number: int, before: list[Processor], renderer: list[Processor], stream: TextIO) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, _rename_logger, _add_fields, *before],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, redact, *renderer],
        )
    )
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one.formatter, structlog.stdlib.ProcessorFormatter)]:
        root.removeHandler(old)
    root.addHandler(handler)
    # Debug lines of libraries may contain secrets, such as SQL parameters and headers.
    root.setLevel(max(number, logging.INFO))
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
