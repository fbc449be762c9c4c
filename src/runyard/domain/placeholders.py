"""Placeholders in the template of a trigger, such as `{{input.key}}`. Pure.

Only the variable tags of Mustache, without HTML escaping: the values do not go into HTML. Sections, partials and
lambdas are refused. So are unknown names: an empty text in their place would be a silent mistake.
"""

import re
from collections.abc import Mapping
from typing import Any

from runyard.spec.problems import find_nearest, format_path, list_words, shorten

_TAG = re.compile(r"\{\{\{?\s*([^{}]*?)\s*\}?\}\}")
_NAME = re.compile(r"&?\s*[A-Za-z0-9_+:./-]+")
_OPEN = re.compile(r"\{\{")


class PlaceholderError(ValueError):
    """A placeholder that cannot be filled; `where` is its place in the template."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"template.{where}: {message}" if where else f"template: {message}")
        self.where = where


def fill(template: Any, values: Mapping[str, Any], *, path: tuple[str | int, ...] = ()) -> Any:
    """The template with every placeholder filled, in texts at any depth. Raises `PlaceholderError`."""
    if isinstance(template, str):
        return _TAG.sub(lambda found: _look_up(found.group(1), values, path=path), template)
    if isinstance(template, Mapping):
        return {key: fill(value, values, path=(*path, str(key))) for key, value in template.items()}
    if isinstance(template, list):
        return [fill(value, values, path=(*path, index)) for index, value in enumerate(template)]
    return template


def find_problem(template: Any, *, roots: tuple[str, ...], path: tuple[str | int, ...] = ()) -> str | None:
    """The first problem with the placeholders of a template that no values could solve, or None."""
    if isinstance(template, Mapping):
        parts = [(value, (*path, str(key))) for key, value in template.items()]
    elif isinstance(template, list):
        parts = [(value, (*path, index)) for index, value in enumerate(template)]
    else:
        return _check_text(template, roots=roots, path=path) if isinstance(template, str) else None
    return next((found for value, place in parts if (found := find_problem(value, roots=roots, path=place))), None)


def _check_text(text: str, *, roots: tuple[str, ...], path: tuple[str | int, ...]) -> str | None:
    where = format_path(path)
    tags = _TAG.findall(text)
    if len(tags) != len(_OPEN.findall(text)):
        return f"{where}: a placeholder is not closed: {shorten(text)}"
    for tag in tags:
        if not _NAME.fullmatch(tag):
            return f"{where}: `{{{{{shorten(tag)}}}}}` is not a variable such as `{{{{input.key}}}}`"
        root = tag.lstrip("& ").split(".")[0]
        if root not in roots:
            return f"{where}: `{shorten(root)}` is unknown; known: {', '.join(roots)}"
    return None


def _look_up(tag: str, values: Mapping[str, Any], *, path: tuple[str | int, ...]) -> str:
    where = format_path(path)
    if not _NAME.fullmatch(tag):
        raise PlaceholderError(where, f"`{{{{{shorten(tag)}}}}}` is not a variable such as `{{{{input.key}}}}`")
    found: Any = values
    for part in tag.lstrip("& ").split("."):
        if not isinstance(found, Mapping) or part not in found:
            known = list(map(str, found)) if isinstance(found, Mapping) else []
            nearest = find_nearest(part, known)
            hint = f"; did you mean `{nearest}`" if nearest else f"; known: {list_words(known)}" if known else ""
            raise PlaceholderError(
                where, f"`{{{{{shorten(tag)}}}}}` has no value: `{shorten(part)}` does not exist{hint}"
            )
        found = found[part]
    if isinstance(found, Mapping | list):
        raise PlaceholderError(where, f"`{{{{{shorten(tag)}}}}}` is not a single value")
    return "" if found is None else str(found).lower() if isinstance(found, bool) else str(found)
