"""Taking fields over from Kubernetes' own objects: a table of keys, and the walk that leaves none of them out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, Refused, find_nearest, list_words
from runyard.spec.readers import Findings, expect_list, expect_mapping
from runyard.spec.run_fields import AdminFields, read_admin_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What becomes of each key of one object; a key that stands in none of these is refused."""

    taken: Mapping[str, str] = field(default_factory=dict)
    """Keys whose value is one of our fields, in our form."""
    parts: "Mapping[str, Shape]" = field(default_factory=dict)
    readers: "Mapping[str, Callable[[Takeover, Any, Path], None]]" = field(default_factory=dict)
    settled: Mapping[str, Any] = field(default_factory=dict)
    """Keys that may only say what the platform does anyway."""
    overwritten: tuple[str, ...] = ()
    """Keys that the platform sets itself, as DigitalHub does: a warning names them."""

    @property
    def known(self) -> tuple[str, ...]:
        """Every key that may stand there."""
        return (*self.taken, *self.parts, *self.readers, *self.settled, *self.overwritten)


class Takeover:
    """Collects the fields taken over from one object, where each stood, and what is wrong or unused in it."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.warnings: list[Problem] = []
        self.values: dict[str, Any] = {}
        self._origins: dict[str, Path] = {}

    def walk(self, given: Any, shape: Shape, path: Path) -> None:
        """Take over what the shape says; null is blank, as in Kubernetes."""
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
            elif key in shape.settled:
                self._compare(value, shape.settled[key], place)
            elif key in shape.overwritten:
                self.warn(place)
            else:
                self._refuse_key(key, shape, place)

    def take(self, name: str, value: Any, path: Path) -> None:
        """Keep what says something; a later value for the same field is nearer to the process and wins."""
        if value not in (None, {}, []):
            self.keep(name, value, path)

    def keep(self, name: str, value: Any, path: Path) -> None:
        """Keep a value as it is, for one of our fields or for what will turn out to be none."""
        self.values[name] = value
        self._origins[name] = path

    def warn(self, path: Path) -> None:
        """Tell that what stands there is not used."""
        message = f"`{path[-1]}` is not used: the platform sets it itself, as DigitalHub does"
        self.warnings.append(Problem(Code.BASE_OVERWRITTEN, path, message))

    def refuse(self, code: Code, path: Path, message: str, **details: Any) -> None:
        """Note one problem."""
        self.findings.add(code, path, message, **details)

    def open_mapping(self, given: Any, path: Path, *, of: str) -> Mapping[str, Any]:
        """The mapping, or an empty one where it is none; that is a problem then."""
        return self.findings.read(lambda value: expect_mapping(value, of=of), given, *path) or {}

    def open_list(self, given: Any, path: Path, *, of: str) -> list[Any]:
        """The list, or an empty one where it is none; that is a problem then."""
        return self.findings.read(lambda value: expect_list(value, of=of), given, *path) or []

    def finish(self) -> AdminFields:
        """The fields; raises `Refused` with every problem, each where it stood in the object."""
        try:
            fields = read_admin_fields(self.values)
        except Refused as refused:
            self.findings.problems += [self._move_back(problem) for problem in refused.problems]
            raise Refused(self.findings.problems) from None
        self.findings.finish()
        return fields

    def _move_back(self, problem: Problem) -> Problem:
        if not problem.path:
            return problem
        name, *rest = problem.path
        return move_problem(problem, (*self._origins.get(str(name), (name,)), *rest))

    def _compare(self, value: Any, only: Any, path: Path) -> None:
        if type(value) is not type(only) or value != only:
            message = f"`{path[-1]}` can only be {_show(only)} here"
            shown = value if isinstance(value, str | int | float) else None
            self.refuse(Code.BASE_FORBIDDEN, path, message, value=shown, allowed=_show(only))

    def _refuse_key(self, key: str, shape: Shape, path: Path) -> None:
        known = shape.known
        allowed = list_words(known, most=40)
        meant = find_nearest(key, known)
        self.refuse(Code.BASE_UNKNOWN, path, f"`{key}` cannot be taken over", allowed=allowed, suggestion=meant)


def move_problem(problem: Problem, path: Path) -> Problem:
    """The same finding at another place."""
    return Problem(problem.code, path, problem.message, problem.value, problem.allowed, problem.suggestion)


def _show(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
