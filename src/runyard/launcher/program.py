"""The launcher's main function: read the run, prepare its source, call the handler, store what it returns."""

import contextlib
import faulthandler
import functools
import importlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from . import digitalhub_bridge
from .arguments import Binder
from .digitalhub_bridge import DigitalHub
from .entity_files import EntityFiles
from .failures import (
    DONE,
    HANDLER_FAILED,
    NOT_PREPARED,
    TERMINATED,
    BadResult,
    EnvironmentFailed,
    NotPrepared,
    NotReported,
    Terminated,
    UserError,
    describe_error,
    print_traceback,
)
from .handlers import import_handler
from .jobs import run_job
from .launch_settings import COMMAND_OPTION, INSTALL_OPTION, LaunchSettings, find_termination_log, read_settings
from .memory_peak import find_peak_bytes
from .metric_log import MetricLog
from .run_api import RunApi, expect_object
from .run_context import ProjectInfo, RunContext, RunInfo
from .run_session import Functions, Session
from .signals import StopSignal
from .sources import SourceTree, prepare_source
from .termination_log import write_termination

REQUIREMENTS_STEP = "requirements"
"""The step that failed, in the termination log, if the requirements could not be installed."""


@dataclass(frozen=True)
class Ending:
    """How the run ended: its exit code, and the message of a failure."""

    code: int
    message: str | None = None
    step: str | None = None
    """The step of the preparation that failed, if it has a run reason of its own."""


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
    with stop.redirect(_do_nothing):
        _note(ending)
    # The failure is known by now, whatever becomes of the metrics.
    with contextlib.suppress(Terminated):
        launch.close()
    stop.ignore()
    return ending.code


def _do_nothing() -> None:
    """SIGTERM while the ending is written: it is heeded by the next pause."""


def _note(ending: Ending) -> None:
    if ending.message is not None:
        sys.stderr.write(f"runyard: {ending.message}\n")
    path = find_termination_log(os.environ)
    write_termination(path, message=ending.message, step=ending.step, peak_bytes=find_peak_bytes())


class _Launch:
    def __init__(self, stop: StopSignal) -> None:
        self._stop = stop
        self._tree: SourceTree | None = None
        self._session: Session | None = None

    def close(self) -> None:
        """Send the metrics that a failed handler left: they show how far it came. Raises `Terminated`."""
        if self._session is not None:
            self._session.metrics.close()

    def run(self, environment: Mapping[str, str]) -> Ending:
        """Launch the run to its end; raises `Terminated` only."""
        try:
            self._launch(read_settings(environment))
        except UserError as error:
            if not isinstance(error.cause, SystemExit):
                print_traceback(error.cause)
            return Ending(error.code, describe_error(error.cause, root=self._tree.root if self._tree else None))
        except EnvironmentFailed as error:
            return Ending(NOT_PREPARED, str(error), REQUIREMENTS_STEP)
        except NotPrepared as error:
            return Ending(NOT_PREPARED, str(error))
        except (NotReported, BadResult) as error:
            return Ending(HANDLER_FAILED, str(error))
        except OSError as error:
            return Ending(NOT_PREPARED, f"the run cannot be prepared: {error}")
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
        if INSTALL_OPTION in sys.argv[1:2] and effective.get("requirements"):
            # Imported for functions with requirements only: others start the faster.
            install = importlib.import_module(".requirement_install", __package__)
            install.enter_environment(effective["requirements"])
        if effective.get("command"):
            _execute(sys.argv[1:])
        with _open_work(settings) as work:
            source = effective.get("source") or {}
            self._tree = prepare_source(source, work=work / "source")
            if not effective.get("working_dir"):
                os.chdir(self._tree.root)
            if digitalhub_bridge.is_installed():
                digitalhub_bridge.import_sdk()
            functions = _import_functions(self._tree, source)
            session = self._session = _open_session(settings, api, self._stop, folder=work)
            action = effective.get("action") or "job"
            if action == "job":
                run_job(session, functions, effective=effective)
            elif action == "serve":
                # Imported for services only: a job starts the faster.
                serve_run = importlib.import_module(".http_service", __package__).serve_run
                serve_run(session, functions, effective=effective, settings=settings)
            else:
                raise NotPrepared(f"the launcher starts jobs and services; the action of this run is {action}")


def _execute(arguments: list[str]) -> NoReturn:
    """Become the run's own command, as the engine wrote it. Raises `NotPrepared` if it cannot be started."""
    command = arguments[arguments.index(COMMAND_OPTION) + 1 :] if COMMAND_OPTION in arguments else []
    if not command:
        raise NotPrepared("the engine gave the launcher no command to start")
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a new program would inherit that
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise NotPrepared(f'the command "{command[0]}" cannot be started: {error.strerror}') from None


def _import_functions(tree: SourceTree, source: Mapping[str, Any]) -> Functions:
    """The handler, and the init function: of the handler's module unless it names another."""
    handler_name, init_name = str(source.get("handler") or ""), str(source.get("init_function") or "")
    handler = import_handler(tree, handler_name)
    binder = Binder(handler, title="the handler")
    if not init_name:
        return Functions(handler, binder)
    module, colon, _ = handler_name.rpartition(":")
    init = import_handler(tree, init_name if ":" in init_name else f"{module}{colon}{init_name}")
    return Functions(handler, binder, init, Binder(init, title="the init function"))


def _open_session(settings: LaunchSettings, api: RunApi, stop: StopSignal, *, folder: Path) -> Session:
    find_run_key = functools.cache(lambda: _get_run_key(api, settings))
    hub = None
    if digitalhub_bridge.is_installed():
        hub = DigitalHub(project=settings.project, find_run_key=find_run_key)
    metrics = MetricLog(api)
    files = EntityFiles(api, project=settings.project, find_run_key=find_run_key)
    project = ProjectInfo(settings.project)
    run = RunInfo(settings.run_id, uid=settings.run_uid, project=settings.project)
    context = RunContext(
        metrics=metrics,
        files=files,
        find_project=lambda: project if hub is None else hub.project,
        find_run=lambda: run if hub is None else hub.run,
    )
    return Session(api=api, stop=stop, context=context, files=files, metrics=metrics, hub=hub, folder=folder)


def _get_run_key(api: RunApi, settings: LaunchSettings) -> str:
    """The run's key, which holds its kind."""
    run = expect_object(api.get_run().document)
    return str(run.get("key") or f"store://{settings.project}/run/{run.get('kind')}/{settings.run_id}")


def _read_effective(api: RunApi) -> dict[str, Any]:
    try:
        effective = api.get_effective().get("effective")
    except NotReported as error:
        raise NotPrepared(f"the run cannot be read: {error}") from error
    if not isinstance(effective, dict):
        raise NotPrepared("the run has no effective spec: its client executes it")
    return effective


@contextlib.contextmanager
def _open_work(settings: LaunchSettings) -> Iterator[Path]:
    """A folder for source and inputs: the engine's, which stays, or a temporary one. `source` in it is empty."""
    with contextlib.ExitStack() as stack:
        if settings.work is None:
            temporary = tempfile.TemporaryDirectory(prefix="runyard-", ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(temporary)).resolve()
        else:
            folder = settings.work.resolve()
            # A former instance of the run may have left its source, and compiled files that look current.
            shutil.rmtree(folder / "source", ignore_errors=True)
        (folder / "source").mkdir(parents=True, exist_ok=True)
        yield folder


def _unbuffer() -> None:
    """Write every line at once, here and in child processes; print a traceback when the interpreter crashes."""
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    stream: Any
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(line_buffering=True, write_through=True, errors="backslashreplace")
    with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):  # the stream may have no descriptor
        faulthandler.enable()
