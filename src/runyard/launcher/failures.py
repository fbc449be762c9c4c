"""How a run ends badly: the exceptions of the launcher, and user exceptions as one line and as a traceback."""

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

DONE = 0
HANDLER_FAILED = 1
NOT_PREPARED = 2
TERMINATED = 143
"""128 + SIGTERM, as a shell reports it."""
LARGEST_MESSAGE_CHARACTERS = 2000
"""Of an exception's text; the rest is cut."""
_IMPORT_FRAMES = ("<frozen importlib", "<frozen runpy", "<frozen zipimport")


class NotPrepared(Exception):
    """The run cannot be started: its source, handler or inputs are not usable. The text is for the user."""


class EnvironmentFailed(NotPrepared):
    """The requirements of the function cannot be installed. The text is for the user."""


class NotReported(Exception):
    """The server refused what the run reports, or no longer knows the run. The text is for the user."""


class BadResult(Exception):
    """The handler returned something that cannot be stored. The text is for the user."""


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. Raised in the main thread like Ctrl-C, so that `finally` blocks of user code run."""


class UserError(Exception):
    """User code raised; the cause is what it raised. `code` is the exit code that the run ends with."""

    def __init__(self, cause: BaseException, *, code: int = HANDLER_FAILED) -> None:
        super().__init__(str(type(cause).__name__))
        self.__cause__ = cause
        self.cause = cause
        self.code = code


def describe_error(error: BaseException, *, root: Path | None = None) -> str:
    """One line: type, text and place, such as `ValueError: x is negative (train.py:12)`."""
    if isinstance(error, SystemExit):
        code = " ".join(_get_text(error)[:LARGEST_MESSAGE_CHARACTERS].split())
        return f"the handler called sys.exit({code})" if isinstance(error.code, int) else code
    if isinstance(error, SyntaxError) and error.filename is not None:
        text, place = error.msg, _find_syntax_place(error, root)
    else:
        text, place = _get_text(error), _find_place(error.__traceback__, root)
    name = type(error).__name__
    line = " ".join(f"{name}: {text}".split()) if text else name
    if len(line) > LARGEST_MESSAGE_CHARACTERS:
        line = line[: LARGEST_MESSAGE_CHARACTERS - 1] + "…"
    return f"{line} ({place})" if place else line


def print_traceback(error: BaseException) -> None:
    """Print the traceback to standard error, without the frames of the launcher and of the import system."""
    try:
        rendered = traceback.TracebackException.from_exception(error)
        for each in _iter_chain(rendered):
            each.stack = traceback.StackSummary.from_list(
                [frame for frame in each.stack if not _is_own_file(frame.filename)]
            )
        sys.stderr.write("".join(rendered.format()))
    except Exception as problem:  # noqa: BLE001 - a broken __str__ or source file of the user must not hide the failure
        sys.stderr.write(f"{type(error).__name__}: the traceback cannot be printed ({type(problem).__name__})\n")
    sys.stderr.flush()


def _iter_chain(rendered: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting, seen = [rendered], set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        # Exception groups (3.11) hold further tracebacks.
        members = getattr(each, "exceptions", None) or ()
        waiting += [other for other in (each.__cause__, each.__context__, *members) if other is not None]


def _get_text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:  # noqa: BLE001 - __str__ is user code
        return f"its text cannot be read ({type(problem).__name__})"


def _find_syntax_place(error: SyntaxError, root: Path | None) -> str | None:
    return None if error.filename is None else _format_place(error.filename, error.lineno, root)


def _find_place(trace: TracebackType | None, root: Path | None) -> str | None:
    """The innermost frame in the run's own source, else the innermost one that is not the launcher's."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]
    frames = [(name, line) for name, line in frames if not _is_own_file(name)]
    if not frames:
        return None
    inside = [each for each in frames if root is not None and each[0].startswith(f"{root}/")]
    name, line = (inside or frames)[-1]
    return _format_place(name, line, root)


def _format_place(name: str, line: int | None, root: Path | None) -> str:
    shown = name.removeprefix(f"{root}/") if root is not None else name
    if shown == name:
        shown = Path(name).name
    return shown if line is None else f"{shown}:{line}"


def _is_own_file(name: str) -> bool:
    return name.startswith((f"{_OWN_FOLDER}/", *_IMPORT_FRAMES))


_OWN_FOLDER = str(Path(_is_own_file.__code__.co_filename).parent)
"""As the launcher's code names it. In a zipapp that is the name in the archive, not a path of the machine."""
