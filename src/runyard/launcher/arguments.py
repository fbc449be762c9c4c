"""The arguments of a handler: parameters and inputs by name, converted to the types that its annotations ask for."""

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from .conversions import Mismatch, convert, read_hints
from .failures import NotPrepared
from .handlers import find_nearest

MOST_NAMED = 20
"""Parameters that a message lists."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY,)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call."""

    positional: tuple[Any, ...]
    named: Mapping[str, Any]


class Binder:
    """Binds values to the parameters of one function; made once, used for every call."""

    def __init__(self, function: Callable[..., Any], *, title: str) -> None:
        self._title = title
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            raise NotPrepared(f"{title} has no signature that could be read; use a Python function") from None
        self._parameters = {name: each for name, each in signature.parameters.items() if each.kind not in _VARIADIC}
        self._takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in signature.parameters.values())
        self._hints = read_hints(_find_annotated(function))

    def takes(self, name: str) -> bool:
        """Whether the function has a parameter of this name."""
        return name in self._parameters

    def wants_path(self, name: str) -> bool:
        """Whether the parameter is annotated as a path."""
        hint = self._hints.get(name)
        return any(isinstance(each, type) and issubclass(each, PurePath) for each in (hint, *typing.get_args(hint)))

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters, in order."""
        return tuple(self._parameters)

    def bind(self, values: Mapping[str, Any], *, provided: Mapping[str, Callable[[], Any]]) -> Arguments:
        """The arguments of a call; raises `NotPrepared` for a missing, unknown or unsuitable value.

        `provided` makes what the launcher itself gives, such as `context`, if the function asks for it by name and
        the run gives no value of that name.
        """
        self._check_names(values, provided)
        bound: dict[str, Any] = {}
        for name in self._parameters:
            if name in values:
                bound[name] = self._convert(name, values[name])
            elif name in provided:
                bound[name] = provided[name]()
        if self._takes_any:
            bound |= {name: value for name, value in values.items() if name not in self._parameters}
        positional = [name for name, each in self._parameters.items() if each.kind in _POSITIONAL and name in bound]
        return Arguments(tuple(bound.pop(name) for name in positional), bound)

    def check_known(self, values: Mapping[str, Any], *, provided: Iterable[str]) -> None:
        """Raise `NotPrepared` for a value that the function has no parameter for."""
        unknown = [] if self._takes_any else [name for name in values if name not in self._parameters]
        if unknown:
            raise NotPrepared("; ".join(self._describe_unknown(unknown, provided)))

    def _convert(self, name: str, value: Any) -> Any:
        try:
            return convert(value, self._hints.get(name, Any))
        except Mismatch as error:
            raise NotPrepared(f"parameter {name} of {self._title}: {error}") from None

    def _check_names(self, values: Mapping[str, Any], provided: Iterable[str]) -> None:
        given = {*values, *provided}
        empty = inspect.Parameter.empty
        missing = [name for name, each in self._parameters.items() if each.default is empty and name not in given]
        unknown = [] if self._takes_any else [name for name in values if name not in self._parameters]
        if missing or unknown:
            # An optional parameter may be missing because its name was mistyped: say both at once.
            raise NotPrepared("; ".join([*self._describe_unknown(unknown, provided), *self._describe_missing(missing)]))

    def _describe_unknown(self, unknown: list[str], provided: Iterable[str]) -> list[str]:
        known = [name for name in self._parameters if name not in provided]
        texts = []
        for name in unknown[:MOST_NAMED]:
            nearest = find_nearest(name, known)
            text = f"{self._title} has no parameter {name[:80]}"
            texts.append(f"{text}; nearest: {nearest}" if nearest else f"{text}; it has {_join(known)}")
        return texts

    def _describe_missing(self, missing: list[str]) -> list[str]:
        return [f"{self._title} needs {_join(missing)}"] if missing else []


def _find_annotated(function: Callable[..., Any]) -> Any:
    """What holds the annotations: the function under its decorators, or the method that a class or object calls."""
    if inspect.isclass(function):
        return function.__init__
    plain = inspect.unwrap(function)
    while isinstance(plain, functools.partial):
        plain = plain.func
    return plain if inspect.isroutine(plain) else type(plain).__call__


def _join(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (", ".join(names[:MOST_NAMED]) + more) or "none"
