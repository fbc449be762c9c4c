"""`@ry.function`: a local Python function as a function of a project. Its source is captured; nothing is pickled.

The captured source stands alone: the function without its decorators, and an import for each module that it uses.
Packages that it imports are required in the versions that are installed here. Anything else from outside is refused,
with the name and what to do.
"""

import ast
import builtins
import dis
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, Unpack

from runyard.sdk.arguments import FUNCTION_ARGUMENTS, FunctionArguments, check_arguments
from runyard.sdk.errors import ArgumentError
from runyard.sdk.installed_packages import find_requirements

P = ParamSpec("P")
T = TypeVar("T")
_OWN = ("code", "code_src", "base64", "handler", "source")
"""Arguments that the capture sets."""
_INSTEAD = (
    "import it inside the function, name packages in `requirements`, or store the whole file with "
    "`new_function(code_src=…)`"
)


class CapturedFunction(Generic[P, T]):
    """A function that can be called here, and saved by `project.save_function`."""

    def __init__(self, function: Callable[P, T], *, name: str | None, arguments: Mapping[str, Any]) -> None:
        self._function = function
        captured = capture(function, requirements=arguments.get("requirements"))
        self._arguments = {**arguments, "requirements": list(captured.requirements)}
        self.code = captured.code
        """The source that is stored."""
        self.name = name or function.__name__.replace("_", "-")
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it here."""
        return self._function(*args, **kwargs)

    def to_arguments(self) -> dict[str, Any]:
        """The arguments of `new_function` that store it."""
        return {**self._arguments, "code": self.code, "handler": self._function.__name__}


def function(
    *, name: str | None = None, **arguments: Unpack[FunctionArguments]
) -> Callable[[Callable[P, T]], CapturedFunction[P, T]]:
    """Make a function of this file one that a project can store: `@ry.function(requirements=["numpy"])`.

    The arguments are those of `new_function`: requirements, and defaults for runs. Raises `ArgumentError` with every
    reason why the function cannot stand alone.
    """
    check_arguments(arguments, known=[each for each in FUNCTION_ARGUMENTS if each not in _OWN], of="function")
    return lambda given: CapturedFunction(given, name=name, arguments=arguments)


@dataclass(frozen=True, slots=True)
class Captured:
    """What is stored of a function."""

    code: str
    requirements: Sequence[str]


def capture(given: Callable[..., Any], *, requirements: Sequence[str] | None = None) -> Captured:
    """The source of a function that stands alone, and what must be installed for it unless that is stated.

    Raises `ArgumentError` with every reason why it cannot stand alone.
    """
    if not isinstance(given, FunctionType) or given.__name__ == "<lambda>":
        raise ArgumentError(
            "only a function that is defined with `def` can be captured, not a lambda or another object"
        )
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(given)))
    except (OSError, SyntaxError):
        raise ArgumentError(f"{given.__name__}: its source cannot be read; define it in a file or a notebook") from None
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef):
        raise ArgumentError(f"{given.__name__}: only a function that is defined with `def` can be captured")
    modules, problems = _resolve(given, node)
    if requirements is None:
        requirements, missing = find_requirements([*modules.values(), *_iter_imported(node)])
        problems += missing
    if problems:
        raise ArgumentError(f"{given.__name__} cannot stand alone: {'; '.join(problems)}; {_INSTEAD}")
    imports = [
        f"import {module}" + ("" if module == name else f" as {name}") for name, module in sorted(modules.items())
    ]
    node.decorator_list = []
    _drop_annotations(node)
    return Captured("\n".join([*imports, *([""] if imports else []), ast.unparse(node), ""]), requirements)


def _drop_annotations(node: ast.FunctionDef) -> None:
    """Drop annotations that name more than built-in types: they would be evaluated where their names are unknown."""
    arguments = node.args
    for each in ast.walk(arguments):
        if isinstance(each, ast.arg) and each.annotation is not None and not _is_builtin(each.annotation):
            each.annotation = None
    if node.returns is not None and not _is_builtin(node.returns):
        node.returns = None


def _is_builtin(annotation: ast.expr) -> bool:
    return all(hasattr(builtins, name) for name in _iter_names(annotation))


def _iter_names(node: ast.AST) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def _resolve(given: FunctionType, node: ast.FunctionDef) -> tuple[dict[str, str], list[str]]:
    """The modules that the function uses by its names for them, and what it uses otherwise."""
    problems = [f"it uses `{name}` of the function around it" for name in given.__code__.co_freevars]
    modules: dict[str, str] = {}
    if "<locals>" not in given.__qualname__ and "." in given.__qualname__:
        problems.append("it is a method")
    defaults = [each for each in (*node.args.defaults, *node.args.kw_defaults) if each is not None]
    named = {name for default in defaults for name in _iter_names(default)}
    for name in sorted({*_iter_global_names(given.__code__), *named}):
        if name in given.__globals__:
            value = given.__globals__[name]
            if isinstance(value, ModuleType):
                modules[name] = value.__name__
            else:
                problems.append(f"it uses `{name}`, which is defined outside")
        elif not hasattr(builtins, name):
            problems.append(f"it uses `{name}`, which is not defined")
    return modules, problems


def _iter_imported(node: ast.FunctionDef) -> Iterator[str]:
    """Modules that the function imports itself."""
    for each in ast.walk(node):
        if isinstance(each, ast.Import):
            yield from (alias.name for alias in each.names)
        elif isinstance(each, ast.ImportFrom) and each.module is not None:
            yield each.module


def _iter_global_names(code: CodeType) -> Iterator[str]:
    """Names that the code, and functions inside it, look up outside."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _iter_global_names(constant)
