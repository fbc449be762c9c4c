"""Placeholders in the template of a trigger, such as `{{input.key}}`. Pure.

Only the variable tags of Mustache, without HTML escaping: the values do not go into HTML. Sections, partials and
lambdas are refused. So are unknown names: an empty text in their place would be a silent mistake.

Users write the templates and the values. Reading one takes linear time, and what is filled in is bounded: a few
placeholders for a large value would otherwise make a document of gigabytes.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from runyard.spec.problems import Path, find_nearest, format_path, list_words, shorten

MOST_PLACEHOLDERS = 1000
"""Maximum number of placeholders in a template."""
MOST_NAME_CHARACTERS = 512
"""Maximum length of the name in a placeholder."""
MOST_FILLED_CHARACTERS = 1 << 20
"""Maximum length of all filled-in values of a template together."""

# Possessive: without it, a tag that never ends is tried again from every space in it.
_TAG = re.compile(r"\{\{\{?([^{}]*+)\}?\}\}")
_NAME = re.compile(r"&?\s*[A-Za-z0-9_+:./-]+")


class PlaceholderError(ValueError):
    """A placeholder that cannot be filled; `where` is its place in the template."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"template.{where}: {message}" if where else f"template: {message}")
        self.where = where


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with every placeholder filled, in texts at any depth. Raises `PlaceholderError`."""
    return _Filling(values).fill(template, ())


def find_problem(template: Any, *, roots: tuple[str, ...]) -> str | None:
    """The first problem with the placeholders of a template that no values could solve, or None."""
    count = 0
    for text, path in _iter_texts(template, ()):
        # Counted before they are matched: a call that finds a million of them holds the interpreter lock (GIL).
        count += text.count("{{")
        if count > MOST_PLACEHOLDERS:
            return f"more than {MOST_PLACEHOLDERS} placeholders"
        tags = [tag.strip() for tag in _TAG.findall(text)]
        if found := _find_problem_of_text(text, tags, roots=roots, path=path):
            return found
    return None


class _Filling:
    """Fills one template, within the bounds."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._placeholders = 0
        self._characters = 0

    def fill(self, template: Any, path: Path) -> Any:
        if isinstance(template, str):
            return _TAG.sub(lambda found: self._take(found.group(1).strip(), path), template)
        if isinstance(template, Mapping):
            return {key: self.fill(value, (*path, str(key))) for key, value in template.items()}
        if isinstance(template, list):
            return [self.fill(value, (*path, index)) for index, value in enumerate(template)]
        return template

    def _take(self, tag: str, path: Path) -> str:
        self._placeholders += 1
        if self._placeholders > MOST_PLACEHOLDERS:
            raise PlaceholderError(format_path(path), f"more than {MOST_PLACEHOLDERS} placeholders")
        text = _look_up(tag, self._values, path=path)
        self._characters += len(text)
        if self._characters > MOST_FILLED_CHARACTERS:
            message = f"`{{{{{shorten(tag)}}}}}` makes all values longer than {MOST_FILLED_CHARACTERS} characters"
            raise PlaceholderError(format_path(path), message)
        return text


def _iter_texts(template: Any, path: Path) -> Iterator[tuple[str, Path]]:
    """Every text that may have placeholders, with its path."""
    if isinstance(template, str):
        if "{{" in template:
            yield template, path
    elif isinstance(template, Mapping):
        for key, value in template.items():
            yield from _iter_texts(value, (*path, str(key)))
    elif isinstance(template, list):
        for index, value in enumerate(template):
            yield from _iter_texts(value, (*path, index))


def _find_problem_of_text(text: str, tags: list[str], *, roots: tuple[str, ...], path: Path) -> str | None:
    where = format_path(path)
    if len(tags) != text.count("{{"):
        return f"{where}: a placeholder is not closed: {shorten(text)}"
    for tag in tags:
        if len(tag) > MOST_NAME_CHARACTERS:
            return f"{where}: `{{{{{shorten(tag)}}}}}` is longer than {MOST_NAME_CHARACTERS} characters"
        if not _NAME.fullmatch(tag):
            return f"{where}: `{{{{{shorten(tag)}}}}}` is not a variable such as `{{{{input.key}}}}`"
        root = tag.lstrip("& ").split(".")[0]
        if root not in roots:
            return f"{where}: `{shorten(root)}` is unknown; known: {', '.join(roots)}"
    return None


def _look_up(tag: str, values: Mapping[str, Any], *, path: Path) -> str:
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
