"""Handlers written for DigitalHub, where `digitalhub_runtime_python` is installed.

Only what that package documents is used: its `handler` decorator, which is called with the project's name and the
run's key before the handler's own arguments, and `get_project`, `get_run`, `get_artifact`, … of `digitalhub`.
"""

import functools
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .calls import finish
from .failures import NOT_PREPARED, UserError
from .results import to_json
from .signals import StopSignal

_RUNTIME = "digitalhub_runtime_python"
_KEY = re.compile(r"store://[^/]+/(artifact|dataitem|model)/.+")


def is_installed() -> bool:
    """Whether the environment has DigitalHub's runtime for Python functions. Imports nothing."""
    return importlib.util.find_spec(_RUNTIME) is not None


def import_sdk() -> ModuleType:
    """DigitalHub's SDK. Up to 0.14 it must be imported before its runtime, and so before the function's source."""
    try:
        return importlib.import_module("digitalhub")
    except Exception as error:
        raise UserError(error, code=NOT_PREPARED) from error


def is_decorated(function: Callable[..., Any]) -> bool:
    """Whether DigitalHub's `@handler` made the function."""
    module = getattr(function, "__globals__", {}).get("__name__", "")
    return hasattr(function, "__wrapped__") and str(module).partition(".")[0] == _RUNTIME


class DigitalHub:
    """The SDK of the function's environment, for one run. Entities are read when a handler asks for them."""

    def __init__(self, *, project: str, find_run_key: Callable[[], str]) -> None:
        self._project, self._find_run_key = project, find_run_key

    @functools.cached_property
    def project(self) -> Any:
        """The project, as the SDK's object. Reading it also lets the SDK know the run, from `RUN_ID`."""
        return self._call("get_project", self._project)

    @functools.cached_property
    def run(self) -> Any:
        """The run, as the SDK's object."""
        return self._call("get_run", self._find_run_key())

    def get_input(self, value: Any) -> Any:
        """The entity of a key, as the SDK's object; another value as it is."""
        matched = _KEY.fullmatch(value) if isinstance(value, str) else None
        return value if matched is None else self._call(f"get_{matched[1]}", value)

    def adapt(self, function: Callable[..., Any], stop: StopSignal) -> Callable[..., dict[str, Any]]:
        """A function that takes the handler's own arguments and answers with its outputs by name."""
        _ = self.project  # the SDK stores outputs in a project that was read before
        return functools.partial(_make_synchronous(function, stop), self._project, self._find_run_key())

    def collect(self, named: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Results and outputs of the run: entities by key, and whatever the SDK logged meanwhile."""
        results, outputs = {}, self._list_logged()
        for name, value in named.items():
            if (key := find_key(value)) is not None:
                outputs[name] = key
            else:
                results[name] = to_json(value, name)
        return results, outputs

    def _list_logged(self) -> dict[str, str]:
        """Entities that user code logged, by name. The SDK keeps them from 0.15 on."""
        try:
            context = importlib.import_module("digitalhub.context.api").get_context(self._project)
        except Exception:  # noqa: BLE001 - an SDK without it has nothing to add
            return {}
        logged = getattr(context, "logged", None)
        return dict(logged) if isinstance(logged, dict) else {}

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(import_sdk(), name)(*arguments)
        except Exception as error:
            raise UserError(error, code=NOT_PREPARED) from error


def find_key(value: Any) -> str | None:
    """The key of an entity of the SDK; None for anything else."""
    key = getattr(value, "key", None)
    is_entity = type(value).__module__.partition(".")[0] == "digitalhub" and callable(getattr(value, "to_dict", None))
    return key if is_entity and isinstance(key, str) else None


def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with DigitalHub's own decorator, as its runtime treats functions that have none."""
    decorated: Callable[..., Any] = importlib.import_module(_RUNTIME).handler(outputs=[])(function)
    return decorated


def _make_synchronous(function: Callable[..., Any], stop: StopSignal) -> Callable[..., Any]:
    """A decorated coroutine or generator: the decorator would store the coroutine itself as the output."""
    inner = inspect.unwrap(function)
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if not any(check(inner) for check in kinds):
        return function

    @functools.wraps(inner)
    def call(*args: Any, **kwargs: Any) -> Any:
        return finish(stop, inner(*args, **kwargs))

    outputs = inspect.getclosurevars(function).nonlocals.get("outputs")
    decorated: Callable[..., Any] = importlib.import_module(_RUNTIME).handler(outputs=outputs)(call)
    return decorated
