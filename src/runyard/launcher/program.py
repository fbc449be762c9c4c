"""The launcher's main function: read the run, prepare its source, call the handler, store what it returns."""

import contextlib
import faulthandler
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .arguments import Binder
from .calls import call_function
from .failures import (
    DONE,
    HANDLER_FAILED,
    NOT_PREPARED,
    TERMINATED,
    BadResult,
    NotPrepared,
    NotReported,
    Terminated,
    UserError,
    describe_error,
    print_traceback,
)
from .handlers import import_handler
from .launch_settings import LaunchSettings, find_termination_log, read_settings
from .memory_peak import find_peak_bytes
from .results import LARGEST_RESULTS_BYTES, split_results
from .run_api import RunApi
from .signals import StopSignal
from .sources import SourceTree, prepare_source
from .termination_log import write_termination


@dataclass(frozen=True)
class Ending:
    """How the run ended: its exit code, and the message of a failure."""

    code: int
    message: str | None = None


def main() -> int:
    """Launch the run that the environment names; the exit code (docs/design/launcher.md)."""
    stop = StopSignal()
    stop.install()
    _unbuffer()
    launch = _Launch(stop)
    try:
        ending = launch.run(os.environ)
    except Terminated:
        ending = Ending(TERMINATED, "stopped by SIGTERM")
    if ending.message is not None:
        sys.stderr.write(f"runyard: {ending.message}\n")
    with contextlib.suppress(Terminated):
        path = find_termination_log(os.environ)
        write_termination(path, message=ending.message, peak_bytes=find_peak_bytes())
    return ending.code


class _Launch:
    def __init__(self, stop: StopSignal) -> None:
        self._stop = stop
        self._tree: SourceTree | None = None

    def run(self, environment: Mapping[str, str]) -> Ending:
        """Launch the run to its end; raises `Terminated` only."""
        try:
            self._launch(read_settings(environment))
        except UserError as error:
            if not isinstance(error.cause, SystemExit):
                print_traceback(error.cause)
            return Ending(error.code, describe_error(error.cause, root=self._tree.root if self._tree else None))
        except NotPrepared as error:
            return Ending(NOT_PREPARED, str(error))
        except (NotReported, BadResult) as error:
            return Ending(HANDLER_FAILED, str(error))
        return Ending(TERMINATED if self._stop.is_received else DONE)

    def _launch(self, settings: LaunchSettings) -> None:
        api = RunApi(
            settings.endpoint,
            settings.token,
            project=settings.project,
            run_id=settings.run_id,
            pause=self._stop.pause,
        )
        effective = _read_effective(api)
        with _open_work(settings) as work:
            source = effective.get("source") or {}
            self._tree = prepare_source(source, work=work)
            if not effective.get("working_dir"):
                os.chdir(self._tree.root)
            handler = import_handler(self._tree, str(source.get("handler") or ""))
            binder = Binder(handler, title="the handler")
            values = {**(effective.get("parameters") or {}), **(effective.get("inputs") or {})}
            arguments = binder.bind(values, provided={})
            returned = call_function(self._stop, handler, *arguments.positional, **arguments.named)
            _report(api, returned)


def _read_effective(api: RunApi) -> dict[str, Any]:
    try:
        effective = api.get_effective().get("effective")
    except NotReported as error:
        raise NotPrepared(f"the run cannot be read: {error}") from error
    if not isinstance(effective, dict):
        raise NotPrepared("the run has no effective spec: its client executes it")
    return effective


def _report(api: RunApi, returned: Any) -> None:
    def refuse_file(name: str, _path: object) -> str:
        raise BadResult(f"result {name} is a path; files cannot be stored yet")

    results, outputs = split_results(returned, store_file=refuse_file)
    if not results and not outputs:
        return
    size = len(json.dumps(results))
    if size > LARGEST_RESULTS_BYTES:
        raise BadResult(
            f"the results are {size} bytes of JSON; at most {LARGEST_RESULTS_BYTES} are allowed: write large ones to a "
            "file and return its pathlib.Path"
        )
    api.report(results=results, outputs=outputs)


@contextlib.contextmanager
def _open_work(settings: LaunchSettings) -> Iterator[Path]:
    """An empty folder for the source: in the engine's, where it stays, or a temporary one."""
    if settings.work is not None:
        folder = settings.work / "source"
        # A former instance of the run may have left its source, and compiled files that look current.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="runyard-", ignore_cleanup_errors=True) as name:
        yield Path(name).resolve()


def _unbuffer() -> None:
    """Write every line at once, here and in child processes; print a traceback when the interpreter crashes."""
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    stream: Any
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(line_buffering=True, write_through=True, errors="backslashreplace")
    with contextlib.suppress(Exception):  # the stream may have no file descriptor
        faulthandler.enable()
