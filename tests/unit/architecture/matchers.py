"""Finds every regular expression of runyard, and writes the texts on which a careless one needs too long.

A backtracking matcher is slow where a repeated part can be divided in several ways and the text does not match in the
end, or where a search begins anew at every repetition. So a hostile text is a part of the expression's own language,
repeated, after something that leads to it and before something that does not match.
"""

import ast
import importlib
import re
import signal
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import runyard

SOURCE = Path(runyard.__file__).parent
METHODS = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
SPACE = " "
_parser: Any = importlib.import_module("re._parser")
_USE = re.compile(r"^import re$", re.MULTILINE)
_DEPTH = 4
_MOST_TEXTS = 120
_MISMATCHES = ("\0", "@", "\0", "")
_CATEGORIES = {"CATEGORY_SPACE": " \t", "CATEGORY_DIGIT": "0", "CATEGORY_WORD": "a0_"}
_ANY = "a @"


@dataclass(frozen=True, slots=True)
class Matcher:
    """An expression, and whether it is searched for in a text or compared from the text's beginning."""

    name: str
    pattern: re.Pattern[Any]
    is_searched: bool

    def run(self, text: str) -> None:
        """Match as the code does."""
        given: Any = text.encode("utf-8", "replace") if isinstance(self.pattern.pattern, bytes) else text
        if self.is_searched:
            for _ in self.pattern.finditer(given):
                pass
        else:
            self.pattern.match(given)
            self.pattern.fullmatch(given)


class Overrun(Exception):
    """A matcher needed more processor time than it was given."""


def list_matchers() -> list[Matcher]:
    """Those compiled when a module is loaded, and those of calls such as `re.sub("…", …)`."""
    found: dict[tuple[str | bytes, int, bool], Matcher] = {}
    for module, tree in _iter_files():
        searched = set(_iter_searched(tree))
        compiled = [
            Matcher(f"{module}.{name}", pattern, not isinstance(value, re.Pattern) or name in searched)
            for name, value in vars(importlib.import_module(f"runyard.{module}")).items()
            for pattern in _iter_patterns(value)
        ]
        for matcher in (*compiled, *_iter_inline(module, tree)):
            found.setdefault((matcher.pattern.pattern, matcher.pattern.flags, matcher.is_searched), matcher)
    return list(found.values())


def list_unread() -> list[str]:
    """Modules with calls such as `re.search(pattern, …)`, whose expression is not known without running them."""
    return [
        module
        for module, tree in _iter_files()
        for call in _iter_calls(tree)
        if not isinstance(call.args[0], ast.Constant)
    ]


def iter_hostile(pattern: re.Pattern[Any], *, length: int) -> Iterator[str]:
    """Texts of about that many characters, the nearest to the expression's structure first."""
    tree = _parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    alphabet = sorted(set(_iter_characters(tree)))
    seen: set[tuple[str, str]] = set()
    for lead, unit in _iter_pumps(tree, alphabet):
        if unit and (lead, unit) not in seen and len(seen) < _MOST_TEXTS:
            seen.add((lead, unit))
            # In turn: every unit has several neighbours that differ little.
            mismatch = _MISMATCHES[len(seen) % len(_MISMATCHES)]
            yield lead + unit * (length // len(unit)) + mismatch


def run_within(matcher: Matcher, text: str, *, seconds: float) -> None:
    """Match, or raise `Overrun` after so much processor time of this process. The machine may be busy meanwhile."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Overrun

    # The interpreter's matcher looks for signals, so that even an exponential one is ended.
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        matcher.run(text)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _iter_patterns(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list | frozenset):
        for each in value:
            yield from _iter_patterns(each)
    elif isinstance(value, dict):
        yield from _iter_patterns([*value.keys(), *value.values()])


def _iter_files() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if _USE.search(text):
            name = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
            yield name, ast.parse(text)


def _iter_searched(tree: ast.Module) -> Iterator[str]:
    """Names of expressions that are used by more than `match` and `fullmatch`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS[2:] and isinstance(node.value, ast.Name):
            yield node.value.id


def _iter_calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in METHODS
        ):
            yield node


def _iter_inline(module: str, tree: ast.Module) -> Iterator[Matcher]:
    for call in _iter_calls(tree):
        if isinstance(call.args[0], ast.Constant) and isinstance(call.func, ast.Attribute):
            given = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
            flags = sum(getattr(re, flag.attr) for flag in given if isinstance(flag, ast.Attribute))
            expression: Any = call.args[0].value
            pattern = re.compile(expression, flags)
            yield Matcher(f"{module}:{call.lineno}", pattern, call.func.attr in METHODS[2:])


def _iter_pumps(tree: Any, alphabet: Collection[str]) -> Iterator[tuple[str, str]]:
    """What leads to a repeated part of the expression, and a text of that part or of several neighbours."""
    for favourite in (*alphabet, SPACE):
        for count in (1, 3):
            for lead, part in _iter_parts(list(tree), favourite, count):
                unit = _write(part, favourite, count)
                yield lead, unit
                yield "", lead + unit


def _iter_parts(nodes: Sequence[Any], favourite: str, count: int, depth: int = 0) -> Iterator[tuple[str, list[Any]]]:
    """Every repeated node and every run of neighbours, with a text of what stands before it."""
    for index, (operation, argument) in enumerate(nodes):
        lead = _write(nodes[:index], favourite, count)
        yield lead, [nodes[index]]
        if index + 1 < len(nodes):
            yield lead, list(nodes[index : index + 2])
        yield "", list(nodes[: index + 1])
        if depth < _DEPTH:
            for inner in _list_inner(str(operation), argument):
                for inner_lead, part in _iter_parts(inner, favourite, count, depth + 1):
                    yield lead + inner_lead, part


def _list_inner(operation: str, argument: Any) -> list[list[Any]]:
    if operation in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return [list(argument[2])]
    if operation == "SUBPATTERN":
        return [list(argument[3])]
    if operation == "BRANCH":
        return [list(branch) for branch in argument[1]]
    if operation == "ATOMIC_GROUP":
        return [list(argument)]
    return []


def _write(nodes: Sequence[Any], favourite: str, count: int) -> str:
    """A text of these nodes: with the favourite character where it fits, and repeated parts some times."""
    text = ""
    for operation, argument in nodes:
        name = str(operation)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, body = argument
            text += _write(list(body), favourite, count) * max(int(least), min(int(most), count))
        elif name == "BRANCH":
            written = [_write(list(branch), favourite, count) for branch in argument[1]]
            text += next((each for each in written if favourite in each), written[0])
        elif inner := _list_inner(name, argument):
            text += _write(inner[0], favourite, count)
        elif characters := _list_members(name, argument):
            text += favourite if favourite in characters else characters[0]
    return text


def _iter_characters(nodes: Any) -> Iterator[str]:
    for operation, argument in nodes:
        yield from _list_members(str(operation), argument)
        for inner in _list_inner(str(operation), argument):
            yield from _iter_characters(inner)


def _list_members(operation: str, argument: Any) -> list[str]:
    """Characters that stand for all that a node matches: one or two of each range."""
    if operation == "LITERAL":
        return [chr(argument)]
    if operation in ("ANY", "NOT_LITERAL"):
        return [each for each in _ANY if operation == "ANY" or ord(each) != argument]
    if operation != "IN":
        return []
    members: list[str] = []
    is_negated = False
    for kind, value in argument:
        if str(kind) == "NEGATE":
            is_negated = True
        elif str(kind) == "LITERAL":
            members.append(chr(value))
        elif str(kind) == "RANGE":
            members.append(chr(value[0]))
        elif str(kind) == "CATEGORY":
            members += _CATEGORIES.get(str(value), "a @")
    if not is_negated:
        return members
    excluded = re.compile("[" + "".join(map(re.escape, members)) + "]") if members else None
    return [each for each in (*_ANY, "-", "/", ":") if excluded is None or not excluded.match(each)]
