"""What the calls of one run share: its API, its `context`, and the values that its functions get by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .arguments import Binder
from .calls import call_function
from .digitalhub_bridge import DigitalHub
from .entity_files import EntityFiles
from .metric_log import MetricLog
from .run_api import RunApi
from .run_context import RunContext
from .signals import StopSignal


@dataclass(frozen=True)
class Functions:
    """The handler and the init function of a run, with their parameters."""

    handler: Callable[..., Any]
    binder: Binder
    init: Callable[..., Any] | None = None
    init_binder: Binder | None = None

    def wants_path(self, name: str) -> bool:
        """Whether one of them has such a parameter, annotated as a path."""
        return any(binder.wants_path(name) for binder in (self.binder, self.init_binder) if binder is not None)


@dataclass(frozen=True)
class Session:
    """One run."""

    api: RunApi
    stop: StopSignal
    context: RunContext
    files: EntityFiles
    metrics: MetricLog
    hub: DigitalHub | None
    """None where DigitalHub's runtime is not installed."""
    folder: Path
    """For files of inputs."""

    @property
    def provided(self) -> Mapping[str, Callable[[], Any]]:
        """What a function gets by name if the run gives no value of that name."""
        return {
            "context": lambda: self.context,
            "project": lambda: self.context.project,
            "run": lambda: self.context.run,
        }

    def read_values(self, functions: Functions, effective: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters and inputs of the run, by name; the files of inputs are brought here."""
        inputs = effective.get("inputs") or {}
        brought = {name: self._bring(functions, name, value) for name, value in inputs.items()}
        return {**(effective.get("parameters") or {}), **brought}

    def call_init(
        self, functions: Functions, values: Mapping[str, Any], parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Call the init function, if there is one; the values that are left for the handler.

        It gets `init_parameters`, and the run's own values for the names that it has. A value that only it takes is
        not offered to the handler.
        """
        if functions.init is None or functions.init_binder is None:
            return dict(values)
        taken = {name: value for name, value in values.items() if functions.init_binder.takes(name)}
        arguments = functions.init_binder.bind({**taken, **parameters}, provided=self.provided)
        call_function(self.stop, functions.init, *arguments.positional, **arguments.named)
        return {name: value for name, value in values.items() if name not in taken or functions.binder.takes(name)}

    def _bring(self, functions: Functions, name: str, value: Any) -> Any:
        """An input: DigitalHub's entity where its SDK is installed, unless a path is wanted; else its local path."""
        if self.hub is not None and not functions.wants_path(name):
            return self.hub.get_input(value)
        return self.files.bring(name, value, into=self.folder / "inputs")
