"""`context`: what a handler may ask for by that name, to log metrics, files and text of its run."""

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .entity_files import EntityFiles
from .metric_log import MetricLog


class ProjectInfo(str):
    """The run's project, where DigitalHub's SDK is not installed: its name."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The same, as DigitalHub's project has it."""
        return str(self)


class RunInfo(str):
    """The run itself, where DigitalHub's SDK is not installed: its id."""

    __slots__ = ("project", "uid")
    project: str
    uid: str | None

    def __new__(cls, run_id: str, *, uid: str | None, project: str) -> "RunInfo":
        """The id with what else is known of the run."""
        info = super().__new__(cls, run_id)
        info.uid, info.project = uid, project
        return info

    @property
    def id(self) -> str:
        """The same, as DigitalHub's run has it."""
        return str(self)


class Response:
    """An answer of a service with its status and headers, as DigitalHub's (nuclio's) handlers return it."""

    def __init__(
        self,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str | None = None,
        status_code: int = 200,
    ) -> None:
        self.headers = dict(headers or {})
        self.body = body
        self.content_type = content_type
        self.status_code = status_code


class RunLogger(logging.Logger):
    """A logger that also has nuclio's methods, which take fields by name."""

    def debug_with(self, message: str, **fields: Any) -> None:
        """Log at DEBUG."""
        self.debug("%s %s", message, _format_fields(fields))

    def info_with(self, message: str, **fields: Any) -> None:
        """Log at INFO."""
        self.info("%s %s", message, _format_fields(fields))

    def warn_with(self, message: str, **fields: Any) -> None:
        """Log at WARNING."""
        self.warning("%s %s", message, _format_fields(fields))

    def error_with(self, message: str, **fields: Any) -> None:
        """Log at ERROR."""
        self.error("%s %s", message, _format_fields(fields))


class RunContext:
    """What a handler gets as `context`. Any attribute may be set on it, for example by `init`."""

    Response = Response

    def __init__(
        self,
        *,
        metrics: MetricLog,
        files: EntityFiles,
        find_project: Callable[[], Any],
        find_run: Callable[[], Any],
    ) -> None:
        self._metrics, self._files = metrics, files
        self._find_project, self._find_run = find_project, find_run
        self.logged: dict[str, str] = {}
        """Keys of the entities that were logged, by name; they become outputs of the run."""
        self.logger = make_logger()
        self.user_data = SimpleNamespace()
        self.worker_id = 0

    @property
    def project(self) -> Any:
        """The project: DigitalHub's object where its SDK is installed, else an object with its `name`."""
        return self._find_project()

    @property
    def run(self) -> Any:
        """The run: DigitalHub's object where its SDK is installed, else an object with `id`, `uid` and `project`."""
        return self._find_run()

    def log_metric(self, name: str, value: float) -> None:
        """Append a number to a metric of the run. Returns at once; sent in the background."""
        self._metrics.add(name, value)

    def log_metrics(self, values: Mapping[str, float]) -> None:
        """Append a number to each of several metrics."""
        for name, value in values.items():
            self._metrics.add(name, value)

    def log_artifact(self, name: str, path: "str | os.PathLike[str]", *, kind: str = "artifact") -> str:
        """Store a file or folder as an artifact of the project; its key. Waits until the server has it."""
        return self._store(name, path, type_name="artifact", kind=kind)

    def log_model(self, name: str, path: "str | os.PathLike[str]", *, kind: str = "model") -> str:
        """Store a file or folder as a model of the project; its key."""
        return self._store(name, path, type_name="model", kind=kind)

    def log_dataitem(self, name: str, path: "str | os.PathLike[str]", *, kind: str = "dataitem") -> str:
        """Store a file or folder as a data item of the project; its key."""
        return self._store(name, path, type_name="dataitem", kind=kind)

    def _store(self, name: str, path: "str | os.PathLike[str]", *, type_name: str, kind: str) -> str:
        key = self._files.store(name, Path(path), type_name=type_name, kind=kind)
        self.logged[name] = key
        return key


def make_logger() -> RunLogger:
    """A logger to standard output; what user code configures for the root logger stays as it is."""
    logger = RunLogger("runyard", logging.INFO)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    return logger


def _format_fields(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, default=str)
