import io
import logging
from typing import Literal

import pytest
import structlog
from structlog.contextvars import bound_contextvars

from runyard.telemetry import set_up_logging
from tests.unit.telemetry.conftest import LogLines


def test_event_is_a_line_of_json_when_logged(written: LogLines) -> None:
    with bound_contextvars(request_id="abc"):
        structlog.get_logger().info("run.submitted", run="r-1", size=3)
    (line,) = written.lines
    assert line.pop("at").endswith("Z")
    assert line == {"event": "run.submitted", "run": "r-1", "size": 3, "level": "info", "request_id": "abc"}


def test_libraries_are_logged_alike_when_they_use_the_standard_library(written: LogLines) -> None:
    logging.getLogger("uvicorn.error").warning("started with %s", "Bearer abcdefghi")
    (line,) = written.lines
    assert (line["event"], line["logger"], line["level"]) == (
        "started with Bearer [hidden]",
        "uvicorn",
        "warning",
    )


def test_traceback_is_in_the_event_without_secrets_when_something_failed(written: LogLines) -> None:
    try:
        int("postgresql://ada:hunter2@db/x")
    except ValueError:
        structlog.get_logger().exception("store.failed", password="hunter2")
    (line,) = written.lines
    assert "Traceback" in line["exception"]
    assert "hunter2" not in str(line)


def test_libraries_say_nothing_of_their_work_when_the_level_is_debug(written: LogLines) -> None:
    for name in ("asyncpg", "httpx2", "sqlalchemy.engine", "any.other"):
        logging.getLogger(name).debug("INSERT … %s", "hunter2")
    assert written.lines == []


def test_lower_levels_are_left_out_when_a_level_is_set(keep_logging: None) -> None:
    stream = io.StringIO()
    set_up_logging(level="warning", form="json", stream=stream)
    structlog.get_logger().info("a.b")
    logging.getLogger("some.library").info("no")
    structlog.get_logger().warning("c.d")
    assert stream.getvalue().count("\n") == 1


def test_lines_are_not_doubled_when_set_up_twice(written: LogLines) -> None:
    set_up_logging(level="info", form="json", stream=written.stream)
    logging.getLogger("some.library").warning("once")
    assert len(written.lines) == 1


def test_client_cannot_write_lines_of_its_own_when_logged_as_text(keep_logging: None) -> None:
    stream = io.StringIO()
    set_up_logging(form="text", stream=stream)
    structlog.get_logger().info("request.done", path="/a\nfake.event  level=error\x1b[31m")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b[31m" not in stream.getvalue()
    assert "request.done" in stream.getvalue()


@pytest.mark.parametrize("form", ["json", "text"])
def test_odd_values_are_logged_when_they_are_no_json(keep_logging: None, form: str) -> None:
    stream = io.StringIO()
    set_up_logging(form=form, stream=stream)  # type: ignore[arg-type]  # the parameters are texts
    structlog.get_logger().info("a.b", value=object(), raw=b"\xff", many={"x": {1, 2}})
    try:
        int("x")
    except ValueError:
        structlog.get_logger().exception("c.d")
    assert "a.b" in stream.getvalue()
    assert "c.d" in stream.getvalue()
    assert "Traceback" in stream.getvalue()


@pytest.mark.parametrize("form", ["json", "text"])
def test_information_does_not_look_like_an_error_when_uvicorn_logs_it(
    keep_logging: None, form: Literal["json", "text"]
) -> None:
    stream = io.StringIO()
    set_up_logging(form=form, stream=stream)
    logging.getLogger("uvicorn.error").info("Application startup complete.")
    assert "uvicorn" in stream.getvalue()
    assert "error" not in stream.getvalue()


@pytest.mark.parametrize("form", ["json", "text"])
def test_line_says_which_run_when_one_of_our_modules_names_it(
    keep_logging: None, form: Literal["json", "text"]
) -> None:
    stream = io.StringIO()
    set_up_logging(form=form, stream=stream)
    logging.getLogger("runyard.app.loops.steps").warning("a step failed", extra={"run": "r-1", "token": "hunter2"})
    logging.getLogger("uvicorn.error").warning("listening", extra={"color_message": "in colours"})
    ours, theirs = stream.getvalue().splitlines()
    assert "r-1" in ours
    assert "hunter2" not in ours
    assert "in colours" not in theirs
