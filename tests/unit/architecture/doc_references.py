"""Finds what the pages refer to: source files with the names in them, other pages, and targets of make."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CODE = re.compile(r"`([\w./-]+\.py)(?::([\w.]+))?`")
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
_MAKE = re.compile(r"(?:`|^\$ )make ([a-z][a-z-]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reference:
    """A file that a page names, and the function, class or constant in it, if any."""

    file: str
    name: str | None = None


def list_code_references(text: str) -> list[Reference]:
    """References in backticks: `app/runs/submission.py:submit_run`, `bootstrap.py`."""
    return [Reference(match[1], match[2]) for match in _CODE.finditer(text)]


def list_links(text: str) -> list[str]:
    """Targets of links to other files, without fragments; links to web pages are left out."""
    return [target for target in _LINK.findall(text) if "://" not in target]


def list_make_targets(text: str) -> list[str]:
    """Targets in backticks or in console blocks."""
    return _MAKE.findall(text)


def find_problem(reference: Reference, *, roots: tuple[Path, ...]) -> str | None:
    """Return what is wrong with a reference, or None. Files are searched from each of the roots."""
    file = next((root / reference.file for root in roots if (root / reference.file).is_file()), None)
    if file is None:
        return f"{reference.file}: no such file"
    if reference.name is not None and reference.name not in set(iter_names(ast.parse(file.read_text()))):
        return f"{reference.file}: defines no {reference.name}"
    return None


def iter_names(module: ast.Module) -> Iterator[str]:
    """Yield the functions, classes, methods and constants of a module: `submit_run`, `Stepper`, `Stepper.advance`."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{name}" for name in iter_names(ast.Module(node.body, [])))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
