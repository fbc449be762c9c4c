"""Takes fields from Kubernetes objects: tables of known keys, and a traversal that reports every other key."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runyard.spec.lints import lint_notes
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, Refused, find_nearest, list_words
from runyard.spec.readers import Findings, expect_list, expect_mapping
from runyard.spec.run_fields import AdminFields, read_admin_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The handling of each key of one object; keys that are in none of these are refused."""

    taken: Mapping[str, str] = field(default_factory=dict)
    """Keys whose value becomes the named field."""
    parts: "Mapping[str, Shape]" = field(default_factory=dict)
    readers: "Mapping[str, Callable[[Takeover, Any, Path], None]]" = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Keys whose only allowed value is the one that the platform sets."""
    overwritten: tuple[str, ...] = ()
    """Keys that the platform sets itself, as DigitalHub does; a warning says that they are ignored."""

    @property
    def known(self) -> tuple[str, ...]:
        """Every allowed key."""
        return (*self.taken, *self.parts, *self.readers, *self.fixed, *self.overwritten)


class Takeover:
    """Collects the fields taken from one object with their paths, its problems and its warnings."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.warnings: list[Problem] = []
        self.values: dict[str, Any] = {}
        self._origins: dict[str, Path] = {}

    def walk(self, given: Any, shape: Shape, path: Path) -> None:
        """Take the fields of a shape; null is unset, as in Kubernetes."""
        for key, value in self.open_mapping(given, path, of="fields").items():
            place = (*path, key)
            if value is None:
                continue
            if key in shape.taken:
                self.take(shape.taken[key], value, place)
            elif key in shape.parts:
                self.walk(value, shape.parts[key], place)
            elif key in shape.readers:
                shape.readers[key](self, value, place)
            elif key in shape.fixed:
                self._compare(value, shape.fixed[key], place)
            elif key in shape.overwritten:
                self.warn(place)
            else:
                self._refuse_key(key, shape, place)

    def take(self, name: str, value: Any, path: Path) -> None:
        """Keep a value unless it is empty; a later value of the same field (the container's) wins."""
        if value not in (None, {}, []):
            self.keep(name, value, path)

    def keep(self, name: str, value: Any, path: Path) -> None:
        """Keep a value; whether `name` is one of our fields is checked by `finish`."""
        self.values[name] = value
        self._origins[name] = path

    def warn(self, path: Path) -> None:
        """Warn that the value at `path` is ignored."""
        message = f"`{path[-1]}` is set by the platform, as in DigitalHub; ignored"
        self.warnings.append(Problem(Code.BASE_OVERWRITTEN, path, message))

    def refuse(self, code: Code, path: Path, message: str, **details: Any) -> None:
        """Add one problem."""
        self.findings.add(code, path, message, **details)

    def open_mapping(self, given: Any, path: Path, *, of: str) -> Mapping[str, Any]:
        """The mapping, or an empty one after a problem was added."""
        return self.findings.read(lambda value: expect_mapping(value, of=of), given, *path) or {}

    def open_list(self, given: Any, path: Path, *, of: str) -> list[Any]:
        """The list, or an empty one after a problem was added."""
        return self.findings.read(lambda value: expect_list(value, of=of), given, *path) or []

    def finish(self) -> AdminFields:
        """The fields; raises `Refused` with every problem, each with its path in the object."""
        try:
            fields = read_admin_fields(self.values)
        except Refused as refused:
            self.findings.problems += [self._move_back(problem) for problem in refused.problems]
            raise Refused(self.findings.problems) from None
        self.findings.finish()
        self.warnings += [self._move_back(note) for note in lint_notes(fields)]
        return fields

    def _move_back(self, problem: Problem) -> Problem:
        if not problem.path:
            return problem
        name, *rest = problem.path
        return move_problem(problem, (*self._origins.get(str(name), (name,)), *rest))

    def _compare(self, value: Any, only: Any, path: Path) -> None:
        if type(value) is not type(only) or value != only:
            message = f"`{path[-1]}` must be {_show(only)}"
            shown = value if isinstance(value, str | int | float) else None
            self.refuse(Code.BASE_FORBIDDEN, path, message, value=shown, allowed=_show(only))

    def _refuse_key(self, key: str, shape: Shape, path: Path) -> None:
        known = shape.known
        allowed = list_words(known, most=40)
        meant = find_nearest(key, known)
        self.refuse(Code.BASE_UNKNOWN, path, f"unknown field `{key}`", allowed=allowed, suggestion=meant)


def move_problem(problem: Problem, path: Path) -> Problem:
    """The same problem at another path."""
    return Problem(problem.code, path, problem.message, problem.value, problem.allowed, problem.suggestion)


def _show(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
